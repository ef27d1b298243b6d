// The rows of a suite as a table, as CSV or as JSON.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/suite_row.h"
#include "core/json.h"

namespace fk {

Json suite_json(const std::vector<SuiteResult>& results, const std::string& mode, const std::string& file);

// Text or CSV; in text followed by what the outputs of the paths say about each other.
void print_suite(const std::vector<SuiteResult>& results, const std::string& mode, const CommonOptions& common);

}  // namespace fk
