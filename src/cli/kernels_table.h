// The table of `kernels`, printed row by row as scenarios finish: aligned for people, or the same as CSV.
#pragma once

#include <string>
#include <vector>

#include "cli/kernels_report.h"
#include "cli/table_layout.h"

namespace fk {

class KernelsTable {
 public:
  // Columns are as wide as the names of these scenarios need. `timed`: false for a run that only checks.
  KernelsTable(const std::vector<KernelTarget>& targets, bool timed, const TextStyle& style);

  std::string head() const { return layout_.head(); }
  std::string row(const KernelRow& row) const;
  std::string not_run(const std::string& scenario) const;

  // The same for programs, all operators in one table: the limits of the interval are two columns.
  static std::string csv_head();
  static std::string csv_row(const KernelRow& row);
  static std::string csv_not_run(const std::string& op, const std::string& scenario);

 private:
  bool timed_;
  bool narrow_;
  TableLayout layout_;
};

// The timing of a candidate that passed and was timed; null for any other.
const Json* timing_of(const Json& row);
// The SPEED column: FASTER, SLOWER, SAME, UNRESOLVED, INVALID if the times are not ranked, and "vs ORACLE" if the only
// baseline is the oracle, which is not written for speed.
std::string speed_word(const Json& row);

}  // namespace fk
