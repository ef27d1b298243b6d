#include "ops/l2/tensor_parallel.h"

#include "core/error.h"

namespace fk {
namespace {

void check_tp_size(int64_t tp_size) {
  if (tp_size < 1) throw Error("A tensor-parallel group cannot have {} ranks; give tp_size of 1 or more.", tp_size);
}

}  // namespace

int64_t rank_share(int64_t total, int64_t tp_size, std::string_view what) {
  check_tp_size(tp_size);
  if (total % tp_size != 0)
    throw Error("{} {} cannot be divided over {} ranks; choose a tp_size that divides them.", total, what, tp_size);
  return total / tp_size;
}

int64_t rank_kv_heads(int64_t total, int64_t tp_size) {
  check_tp_size(tp_size);
  if (tp_size > total && total > 0 && tp_size % total == 0) return 1;
  return rank_share(total, tp_size, "key and value heads");
}

int64_t rank_vocab(int64_t vocab_size, int64_t tp_size) {
  check_tp_size(tp_size);
  if (tp_size == 1) return vocab_size;
  constexpr int64_t kPadding = 64;
  return rank_share((vocab_size + kPadding - 1) / kPadding * kPadding, tp_size, "rows of the padded vocabulary");
}

}  // namespace fk
