// The chunk form: which calls it takes, its scratch memory, and its two kernels.
#include "backend/cuda/recurrence/chunk.h"

#include <algorithm>

#include "backend/cuda/recurrence/chunk_kernels.h"
#include "backend/cuda/recurrence/step.h"

namespace fk::cuda {

std::string_view refuse_recurrence_chunks(const LinearRecurrence& c) {
  if (std::string_view why = refuse_recurrence(c); !why.empty()) return why;
  if (!c.cu_seqlens) return "it is for sequences with many tokens";
  if (c.q.dtype() == DType::kF32) return "its products are in TF32, which f32 tensors do not allow";
  if (c.q.size(0) < 32) return "fewer than 32 tokens take less time one by one";
  if (!chunks_fit(c)) return "the vectors of a chunk must fit into shared memory";
  return {};
}

void run_recurrence_chunks(Context& ctx, const LinearRecurrence& c) {
  if (c.sequences() == 0) return;
  // Every sequence may end in a chunk of its own.
  const int64_t chunks = c.q.size(0) / kChunkTokens + c.sequences();
  const int64_t per_chunk = chunk_scratch_floats(c);
  constexpr int64_t kMostFloats = int64_t{48} << 20;
  const int64_t at_once = std::clamp<int64_t>(kMostFloats / per_chunk, 1, chunks);
  View scratch = ctx.arena.make({{at_once * per_chunk}, DType::kF32});
  for (int64_t first = 0; first < chunks; first += at_once)
    run_chunk_kernels(c, static_cast<float*>(scratch.data()), first, std::min(at_once, chunks - first), ctx.stream);
}

}  // namespace fk::cuda
