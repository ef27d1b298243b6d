// Attend: the attention of a batch over the paged cache, each call with the fastest kernel that supports it.
#pragma once

#include "backend/cuda/attention/call.h"
#include "ops/forward_context.h"
#include "ops/l2/attention.h"

namespace fk::cuda {

class Attend {
 public:
  explicit Attend(const Attention::Init& init) : init_(init) {}

  // q, out [T, H, Dh]; the keys and values of the new tokens are in the caches already. With a gate, of the shape of
  // out, the results are multiplied by its sigmoid.
  void run(Context& ctx, const View& q, const View& key_cache, const View& value_cache, const View& out,
           const OptView& gate = {}) const;

 private:
  Attention::Init init_;
};

}  // namespace fk::cuda
