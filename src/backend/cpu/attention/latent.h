// Attention of sets of queries that share keys, whose values have another size, with the logarithms of the sums of
// exponentials: the loop of all operators of latent attention. A kernel of prefill.h does the arithmetic; what the keys
// and queries are, an operator says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/attention/prefill.h"

namespace fk {

class LatentSets {
 public:
  virtual ~LatentSets() = default;

  struct Set {
    int64_t rows;  // queries, heads that share the keys counted one by one
    int64_t keys;  // that the last row sees; rows see more and more of them
  };
  virtual int64_t count() const = 0;
  virtual Set set(int64_t i) const = 0;
  virtual int64_t keys_of_row(int64_t i, int64_t row) const = 0;
  // Addresses of n <= kKeysPerBlock keys and values, or their content in `scratch`, which has room for n keys.
  virtual void key_rows(int64_t i, int64_t key, int64_t n, const void** k, const void** v, std::byte* scratch) const = 0;
  virtual void copy_query(int64_t i, int64_t row, std::byte* to) const = 0;
  virtual void* out_row(int64_t i, int64_t row) const = 0;
  virtual float* lse_of(int64_t i, int64_t row) const = 0;  // nullptr: not wanted
};

struct LatentSizes {
  int64_t head_size;
  int64_t value_size;
  double softmax_scale;
  DType dtype;
};

// The same numbers with any number of threads.
void latent_attention(Context& ctx, const PrefillKernel& kernel, const LatentSizes& sizes, const LatentSets& sets);

// AMX for bf16 where this CPU has it, else vectors.
const PrefillKernel& latent_kernel(DType dtype);

}  // namespace fk
