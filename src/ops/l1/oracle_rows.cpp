#include "ops/l1/oracle_rows.h"

#include "core/check.h"
#include "core/element_rows.h"

namespace fk {

void append_row(const View& row, std::vector<double>& to) {
  FK_CHECK(row.rank() == 1);
  const size_t before = to.size();
  to.resize(before + static_cast<size_t>(row.size(0)));
  load_elements(row.data(), row.dtype(), row.stride(0), row.size(0), to.data() + before);
}

}  // namespace fk
