#include "backend/cpu/quantised/rounded_rows.h"

#include "backend/cpu/quantised/rounded_row.h"
#include "backend/cpu/row_kernel.h"

namespace fk {

RoundedRows round_rows(const View& x, int64_t group, Arena& arena, ThreadPool& pool) {
  FK_CHECK(x.size(1) % group == 0 && group % kRoundedGroup == 0);
  RoundedRows rows{.m = x.size(0), .k = x.size(1)};
  int64_t groups = rows.groups();
  rows.codes = arena.make({{rows.m, rows.k}, DType::kI8}).ptr<int8_t>();
  rows.scales = arena.make({{rows.m, groups}, DType::kF32}).ptr<float>();
  rows.sums = arena.make({{rows.m, groups}, DType::kF32}).ptr<float>();
  rows.code_sums = static_cast<int16_t*>(arena.make({{rows.m, groups, 4}, DType::kU8}).data());
  for_rows(pool, rows.m, rows.k, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      with_float(x.dtype(), [&]<class T>(T) {
        round_row(row_of<T>(x, t), rows.k, group,
                  {rows.codes + t * rows.k, rows.scales + t * groups, rows.sums + t * groups,
                   rows.code_sums + t * 2 * groups});
      });
  });
  return rows;
}

}  // namespace fk
