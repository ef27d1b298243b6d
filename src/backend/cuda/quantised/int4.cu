// Matrices of 4-bit integers in all layouts of ops/formats/int4.cpp, and of ternary numbers, which are packed like
// them.
#include "backend/cuda/quantised/matrix_of.cuh"

namespace fk::cuda {
namespace {

// Groups of 128 columns and more have one scale in a step, others four.
template <int kScales>
void multiply(StreamedCall call, void* stream) {
  multiply_streamed_codes<Int4Codes<kScales>>(call, kScales == 1 ? "int4" : "int4_g32", stream);
}
template <int kScales>
constexpr CodeStream kStream{kScales == 1 ? "int4" : "int4_g32", Int4Codes<kScales>::kRun, multiply<kScales>};

template <class Reader>
std::unique_ptr<QuantisedMatrix> of(const StoredMatrix& m, const Reader& reader, int64_t group) {
  std::string_view refusal = size_refusal(m, Int4Codes<1>::kRun);
  if (group == m.columns || group % Int4Codes<1>::kStep == 0)
    return std::make_unique<MatrixOf<Int4Codes<1>, Reader>>(m, reader, &kStream<1>, refusal);
  if (refusal.empty() && group % 32 != 0) refusal = "the groups of the format do not divide into 32 columns";
  return std::make_unique<MatrixOf<Int4Codes<4>, Reader>>(m, reader, &kStream<4>, refusal);
}

enum class Layout : uint8_t { kGptq, kGptqV2, kAwq, kPacked, kPackedAsym };

template <Layout kLayout>
std::unique_ptr<QuantisedMatrix> make(const StoredMatrix& m) {
  const int64_t group = m.group == 0 ? m.columns : m.group;
  const bool zeros = kLayout != Layout::kPacked;
  Int4Reader reader{.words = static_cast<const uint32_t*>(m.tensors[0].data()),
                    .zeros = zeros ? static_cast<const uint32_t*>(m.tensors[1].data()) : nullptr,
                    .scales = m.tensors[zeros ? 2 : 1].ptr<float>(),
                    .rows = m.rows,
                    .columns = m.columns,
                    .group = group,
                    .by_rows = kLayout == Layout::kPacked || kLayout == Layout::kPackedAsym,
                    .awq = kLayout == Layout::kAwq,
                    .zero_offset = kLayout == Layout::kGptq ? 1 : 0};
  return of(m, reader, group);
}

template <bool kInverse>
std::unique_ptr<QuantisedMatrix> make_ternary(const StoredMatrix& m) {
  TernaryReader reader{static_cast<const uint8_t*>(m.tensors[0].data()), m.tensors[1].ptr<float>(), m.rows, m.columns,
                       kInverse};
  return of(m, reader, m.columns);
}

const RegisterMatrixFormat kGptq("int4_gptq", make<Layout::kGptq>);
const RegisterMatrixFormat kGptqV2("int4_gptq_v2", make<Layout::kGptqV2>);
const RegisterMatrixFormat kAwq("int4_awq", make<Layout::kAwq>);
const RegisterMatrixFormat kPacked("int4_packed", make<Layout::kPacked>);
const RegisterMatrixFormat kPackedAsym("int4_packed_asym", make<Layout::kPackedAsym>);
const RegisterMatrixFormat kTernary("ternary", make_ternary<false>);
const RegisterMatrixFormat kTernaryInverse("ternary_inverse", make_ternary<true>);

}  // namespace
}  // namespace fk::cuda
