// ExpertProduct: rows times the matrices of their experts, [experts, rows, bytes of a row] in a block format.
#pragma once

#include <memory>
#include <string_view>

#include "backend/cuda/experts/call.h"
#include "backend/cuda/quantised/matrix.h"
#include "ops/forward_context.h"

namespace fk::cuda {

// In the calls `weight` is unused.
class ExpertProduct {
 public:
  void bind(std::string_view format, const View& weight, int64_t columns);

  // Why the codes cannot be streamed, or better are not; empty if they are.
  std::string_view stream_refusal(const ExpertsCall& call) const;
  void stream(const ExpertsCall& call, void* stream);

  // For any call: the matrices are written out as elements of x's dtype, some experts at a time.
  void write_out(Context& ctx, const ExpertsCall& call);

  // By one of the two.
  void run(Context& ctx, const ExpertsCall& call);

 private:
  std::unique_ptr<QuantisedMatrix> matrix_;  // of all experts, one after the other
};

}  // namespace fk::cuda
