#include "ops/l1/moe_grouped_gemm.h"

#include "core/error.h"
#include "ops/algebra/pieces.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/expert_choice.h"
#include "ops/l1/oracle_rows.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> MoeGroupedGemm::params(const Init& init) {
  ParamSpec weight{"weight", {{init.num_experts, init.out_features, init.in_features}, init.dtype}};
  if (!init.weight_format.empty()) {
    const WeightFormat& format = weight_format(init.weight_format);
    if (init.in_features % format.block_elements != 0)
      throw Error("Rows of {} elements cannot be stored as {}, which has blocks of {}; choose another format.",
                  init.in_features, format.name, format.block_elements);
    weight.spec = {{init.num_experts, init.out_features, format.row_bytes(init.in_features)}, DType::kU8};
    weight.format = init.weight_format;
  }
  for (int64_t e = 0; e < init.num_experts; ++e) {
    if (init.output_sizes.empty())
      weight.part_rows.push_back(init.out_features);
    else
      weight.part_rows.insert(weight.part_rows.end(), init.output_sizes.begin(), init.output_sizes.end());
  }
  if (!init.bias) return {weight};
  return {weight, {"bias", {{init.num_experts, init.out_features}, init.dtype}}};
}

OutputSpecs MoeGroupedGemm::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[1]->size(0), init.out_features}, given[0]->dtype()}};
}

namespace {
int64_t input_rows(const MoeGroupedGemm::Init& init, const Workload& w) {
  return w.num_tokens() * (init.input_per_token ? 1 : init.top_k);
}
}  // namespace

Inputs MoeGroupedGemm::inputs(const Init& init, const Workload& w) {
  check_top_k(init.num_experts, init.top_k);
  using Kind = Generator::Kind;
  auto routing = [&](Kind kind, int64_t size) {
    return InputSpec{{{size}, DType::kI32}, Generator::routing(kind, init.num_experts, init.top_k)};
  };
  return {InputSpec{{{input_rows(init, w), init.in_features}, w.dtype}, Generator::normal()},
          routing(Kind::kSortedIds, w.num_tokens() * init.top_k), routing(Kind::kExpertOffsets, init.num_experts + 1)};
}

Cost MoeGroupedGemm::cost(const Init& init, const Workload& w) {
  auto pairs = static_cast<double>(w.num_tokens() * init.top_k), rows = static_cast<double>(input_rows(init, w)),
       touched = static_cast<double>(experts_touched(init.num_experts, init.top_k, w.num_tokens())),
       N = static_cast<double>(init.out_features), K = static_cast<double>(init.in_features),
       E = static_cast<double>(init.num_experts), size = static_cast<double>(dtype_size(w.dtype));
  double matrix = matrix_bytes(init.weight_format, init.out_features, init.in_features, w.dtype);
  return {.read_bytes = touched * (matrix + (init.bias ? size * N : 0)) + size * rows * K + 4 * (pairs + E + 1),
          .written_bytes = size * pairs * N,
          .matrix_flops = 2 * pairs * N * K};
}

Tolerance MoeGroupedGemm::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.in_features));
}

std::vector<Case<MoeGroupedGemm>> MoeGroupedGemm::cases() {
  return {
      {"one by one", {.num_experts = 1, .top_k = 1, .in_features = 1, .out_features = 1}, Workload::tokens(1)},
      {"one token",
       {.num_experts = 8, .top_k = 2, .in_features = 72, .out_features = 40, .input_per_token = true},
       Workload::tokens(1)},
      {"few tokens, odd",
       {.num_experts = 11, .top_k = 3, .in_features = 77, .out_features = 35, .input_per_token = true},
       Workload::tokens(5)},
      {"a row for each pair",
       {.num_experts = 7, .top_k = 2, .in_features = 33, .out_features = 51},
       Workload::tokens(19)},
      {"gate and up",
       {.num_experts = 4,
        .top_k = 2,
        .in_features = 64,
        .out_features = 96,
        .output_sizes = {48, 48},
        .input_per_token = true},
       Workload::tokens(70)},
      {"empty experts", {.num_experts = 64, .top_k = 4, .in_features = 40, .out_features = 24}, Workload::tokens(6)},
      {"all experts", {.num_experts = 3, .top_k = 3, .in_features = 130, .out_features = 20}, Workload::tokens(40)},
      {"long rows",
       {.num_experts = 5, .top_k = 2, .in_features = 1064, .out_features = 40, .input_per_token = true},
       Workload::tokens(6)},
      {"many rows, long",
       {.num_experts = 2, .top_k = 2, .in_features = 392, .out_features = 264},
       Workload::tokens(90)},
      // Kernels for many rows have other tiles for other numbers of rows.
      {"150 rows", {.num_experts = 1, .top_k = 1, .in_features = 40, .out_features = 264}, Workload::tokens(150)},
      {"174 rows", {.num_experts = 1, .top_k = 1, .in_features = 40, .out_features = 136}, Workload::tokens(174)},
      {"191 rows", {.num_experts = 1, .top_k = 1, .in_features = 40, .out_features = 136}, Workload::tokens(191)},
      {"300 rows",
       {.num_experts = 2, .top_k = 2, .in_features = 328, .out_features = 72, .input_per_token = true},
       Workload::tokens(300)},
      {"700 rows",
       {.num_experts = 2, .top_k = 2, .in_features = 72, .out_features = 264, .input_per_token = true},
       Workload::tokens(700)},
      {"bias",
       {.num_experts = 5, .top_k = 2, .in_features = 43, .out_features = 37, .input_per_token = true, .bias = true},
       Workload::tokens(23)},
      {"mxfp4, one token",
       {.num_experts = 2,
        .top_k = 2,
        .in_features = 96,
        .out_features = 41,
        .input_per_token = true,
        .bias = true,
        .weight_format = "mxfp4"},
       Workload::tokens(1)},
      {"mxfp4",
       {.num_experts = 3, .top_k = 2, .in_features = 64, .out_features = 50, .weight_format = "mxfp4"},
       Workload::tokens(45)},
      {"mxfp4, rows of eight",
       {.num_experts = 5,
        .top_k = 2,
        .in_features = 160,
        .out_features = 72,
        .input_per_token = true,
        .bias = true,
        .weight_format = "mxfp4"},
       Workload::tokens(21)},
      {"mxfp4, many rows",
       {.num_experts = 2, .top_k = 2, .in_features = 32, .out_features = 24, .weight_format = "mxfp4"},
       Workload::tokens(70)},
      {"no tokens", {.num_experts = 4, .top_k = 2, .in_features = 8, .out_features = 8}, Workload::tokens(0)},
  };
}

namespace {

class MoeGroupedGemmOracle final : public MoeGroupedGemm {
 public:
  using MoeGroupedGemm::MoeGroupedGemm;

  void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) override {
    // All rows of an expert for one row of its matrix before the next: the row stays in the cache.
    const DenseRows inputs(x);
    ctx.pool.parallel_for(init_.out_features, 16, [&](int64_t begin, int64_t end) {
      std::vector<double> row;
      for (int64_t e = 0; e < init_.num_experts; ++e) {
        auto first = static_cast<int64_t>(get(expert_offsets, e)),
             last = static_cast<int64_t>(get(expert_offsets, e + 1));
        if (first == last) continue;
        for (int64_t n = begin; n < end; ++n) {
          row.clear();
          add_weights(weight().select(0, e).select(0, n), row);
          double start = init_.bias ? get(*bias(), e, n) : 0;
          for (int64_t i = first; i < last; ++i) {
            auto pair = static_cast<int64_t>(get(sorted_token_ids, i));
            set(out, start + dot_of_rows(inputs.row(input_row(pair)), row.data(), init_.in_features), pair, n);
          }
        }
      }
    });
  }

 private:
  void add_weights(const View& row, std::vector<double>& to) const {
    if (init_.weight_format.empty()) return append_row(row, to);
    std::vector<float> values(static_cast<size_t>(init_.in_features));
    dequantise(weight_format(init_.weight_format), static_cast<const std::byte*>(row.data()), init_.in_features,
               values.data());
    to.insert(to.end(), values.begin(), values.end());
  }
};

FK_OPERATOR(MoeGroupedGemm, MoeGroupedGemmOracle);

void define_moe_grouped_gemm(const MoeGroupedGemm::Init& init, Definition& d) {
  if (!init.weight_format.empty()) return d.leave_opaque("its weights are blocks of " + init.weight_format);
  Expr x = d.arg("x"), sorted = d.arg("sorted_token_ids");
  const int64_t pairs = sorted.size(0);
  Expr place = algebra::segment_of(d.arg("expert_offsets"), pairs);
  Expr expert = scatter(place, sorted, place);  // of each pair
  if (init.input_per_token) x = gather(x, floor_divide(algebra::iota({pairs}, 0), static_cast<double>(init.top_k)));
  Expr weight = gather(d.arg("weight"), expert);  // [pairs, N, K]
  Expr out = drop_axis(sum(insert_axis(x, 1) * weight, 2), 2);
  d.result("out", init.bias ? out + gather(d.arg("bias"), expert) : out);
}
FK_DEFINITION(MoeGroupedGemm, define_moe_grouped_gemm);

}  // namespace
}  // namespace fk
