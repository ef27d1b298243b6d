// The test-sized models of the catalog, with the phases their graphs have.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "models/catalog.h"

namespace fk {

inline std::vector<const CatalogEntry*> tiny_models() {
  std::vector<const CatalogEntry*> tiny;
  for (const CatalogEntry& entry : catalog())
    if (entry.hf_id.empty()) tiny.push_back(&entry);
  return tiny;
}

// The first of each family.
inline std::vector<const CatalogEntry*> one_of_each_family() {
  std::vector<const CatalogEntry*> tiny;
  std::set<std::string> families;
  for (const CatalogEntry* entry : tiny_models())
    if (families.insert(entry->family).second) tiny.push_back(entry);
  return tiny;
}

inline std::vector<GraphPhase> phases_of(const CatalogEntry& entry) {
  if (is_stateless(entry.config.facts.task)) return {GraphPhase::kEncode};
  return {GraphPhase::kPrefill, GraphPhase::kDecode, GraphPhase::kMixed};
}

}  // namespace fk
