#include "ops/l1/top_k_per_row.h"

#include <algorithm>
#include <cmath>

#include "ops/register.h"

namespace fk {

OutputSpecs TopKPerRow::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.top_k}, DType::kI32}};
}

Inputs TopKPerRow::inputs(const Init&, const Workload& w) {
  // Near steps, so that some are equal and others neighbours; f32 in every dtype, as the indexer makes them.
  DType dtype = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {InputSpec{{{w.num_tokens(), blocks_per_sequence(w), w.page_size}, dtype},
                    Generator::normal_near_steps(0, 1, 0x1p-8)},
          InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)}};
}

Cost TopKPerRow::cost(const Init& init, const Workload& w) {
  double seen = 0;
  for (const Sequence& s : w.sequences)
    for (int64_t i = 0; i < s.query_len; ++i) seen += static_cast<double>(s.context_len + i + 1);
  auto T = static_cast<double>(w.num_tokens());
  return {
      .read_bytes = 4 * seen + 8 * T, .written_bytes = 4 * T * static_cast<double>(init.top_k), .vector_flops = seen};
}

std::vector<Case<TopKPerRow>> TopKPerRow::cases() {
  return {
      {"one key", {.top_k = 1}, Workload::tokens(1)},
      {"fewer keys than wanted", {.top_k = 40}, Workload::batch({{1, 5}, {9, 0}, {4, 30}})},
      {"odd", {.top_k = 7}, Workload::batch({{1, 33}, {1, 64}, {5, 77}})},
      {"many keys", {.top_k = 500}, Workload::batch({{1, 5000}, {2, 700}})},
      {"as published", {.top_k = 2048}, Workload::batch({{1, 9000}, {1, 2047}, {1, 2048}})},
      {"a long row", {.top_k = 300}, Workload::batch({{1, 33000}})},
      {"pages of 64", {.top_k = 16}, Workload::batch({{1, 300}, {3, 63}}).with_pages_of(64)},
      {"no tokens", {.top_k = 4}, Workload::tokens(0)},
  };
}

std::string_view TopKPerRow::refuse_call(Args args) const {
  if (args[0]->dtype() != DType::kF32) return "logits must be f32";
  if (args[1]->dtype() != DType::kI64) return "positions must be i64";
  if (args[2]->dtype() != DType::kI32) return "indices must be i32";
  for (int d = 1; d < 3; ++d)
    if (args[0]->size(d) > 1 && args[0]->stride(d) != (d == 2 ? 1 : args[0]->size(2))) return "rows must be contiguous";
  return args[2]->rows_contiguous() ? std::string_view() : "rows must be contiguous";
}

namespace {

class TopKPerRowOracle final : public TopKPerRow {
 public:
  using TopKPerRow::TopKPerRow;

  void forward(Context&, View logits, View positions, View indices) override {
    int64_t m = logits.size(2);
    for (int64_t t = 0; t < logits.size(0); ++t) {
      std::vector<std::pair<double, int64_t>> keys;
      for (int64_t j = 0; j <= static_cast<int64_t>(get(positions, t)); ++j)
        keys.emplace_back(get(logits, t, j / m, j % m), j);
      std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
        if (std::isnan(a.first) || std::isnan(b.first)) return std::isnan(a.first) && !std::isnan(b.first);
        return a.first > b.first;
      });
      keys.resize(std::min(keys.size(), static_cast<size_t>(init_.top_k)));
      std::vector<int64_t> chosen;
      for (const auto& [value, j] : keys) chosen.push_back(j);
      std::sort(chosen.begin(), chosen.end());
      for (int64_t i = 0; i < init_.top_k; ++i)
        set(indices, i < static_cast<int64_t>(chosen.size()) ? static_cast<double>(chosen[static_cast<size_t>(i)]) : -1,
            t, i);
    }
  }
};

FK_OPERATOR(TopKPerRow, TopKPerRowOracle);

}  // namespace
}  // namespace fk
