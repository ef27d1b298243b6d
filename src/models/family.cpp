#include "models/family.h"

#include <algorithm>
#include <memory>

#include "core/check.h"

namespace fk {
namespace {

// Pointers, because configs point at their family and more may be added later.
std::vector<std::unique_ptr<const Family>>& all_families() {
  static std::vector<std::unique_ptr<const Family>> all;
  return all;
}

}  // namespace

std::vector<PackedModule> separate_projections() {
  return {{"qkv_proj", {"q_proj", "k_proj", "v_proj"}}, {"gate_up_proj", {"gate_proj", "up_proj"}}};
}

std::vector<PackedModule> separate_experts() {
  std::vector<PackedModule> packed = separate_projections();
  packed.push_back({"experts.w13", {"experts.{e}.gate_proj", "experts.{e}.up_proj"}});
  packed.push_back({"experts.w2", {"experts.{e}.down_proj"}});
  return packed;
}

void add_family(const Family& family) {
  FK_CHECK(find_family(family.architecture) == nullptr, "two families have one architecture");
  auto& all = all_families();
  auto at = std::find_if(all.begin(), all.end(), [&](const auto& other) { return other->name > family.name; });
  all.insert(at, std::make_unique<const Family>(family));
}

std::vector<const Family*> families() {
  std::vector<const Family*> result;
  for (const auto& family : all_families()) result.push_back(family.get());
  return result;
}

const Family* find_family(std::string_view architecture) {
  for (const auto& family : all_families())
    if (family->architecture == architecture) return family.get();
  return nullptr;
}

const Family* find_larger(std::string_view architecture, LargerArchitecture& found) {
  for (const auto& family : all_families())
    for (const LargerArchitecture& larger : family->parts_of)
      if (larger.name == architecture) {
        found = larger;
        return family.get();
      }
  return nullptr;
}

std::vector<std::string> known_categories() {
  std::vector<std::string> names;
  for (const auto& family : all_families())
    if (std::find(names.begin(), names.end(), family->category) == names.end()) names.emplace_back(family->category);
  return names;
}

std::string known_architectures() {
  std::string result;
  const auto& all = all_families();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i != 0) result += i + 1 == all.size() ? " and " : ", ";
    result += all[i]->architecture;
  }
  return result;
}

}  // namespace fk
