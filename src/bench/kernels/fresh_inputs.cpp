#include "bench/kernels/fresh_inputs.h"

#include "candidate/runner/call_memory.h"

namespace fk {

FreshInputs::FreshInputs(const Node& root, const InputMaker& maker, const Workload& workload, uint64_t seed)
    : random_(seed, "fresh inputs"), base_(maker.make_recorded(root, workload, seed)) {
  for (const std::optional<InputSpec>& spec : maker.specs(root, workload))
    renewable_.push_back(spec && !spec->generator.is_metadata());
}

void FreshInputs::next(int slot) {
  if (slots_.size() <= static_cast<size_t>(slot)) slots_.resize(static_cast<size_t>(slot) + 1);
  Slot& s = slots_[static_cast<size_t>(slot)];
  PhiloxBlock drawn = random_.block(draws_++);
  s.key = (uint64_t{drawn[0]} << 32) | drawn[1];
  s.made = false;
}

const View& FreshInputs::base_tensor(size_t tensor) const {
  size_t args = base_.given.size();
  return tensor < args ? base_.given[tensor]->view() : base_.kv_cache[tensor - args].view();
}

std::optional<Pieces> FreshInputs::pieces(int slot, size_t tensor) const {
  if (tensor < renewable_.size() && !renewable_[tensor]) return std::nullopt;
  const View& base = base_tensor(tensor);
  return Pieces{base.numel(), static_cast<int64_t>(dtype_size(base.dtype())),
                slots_[static_cast<size_t>(slot)].key + tensor};
}

const CallData& FreshInputs::current(int slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (s.made) return s.data;
  CallData& data = s.data;
  if (data.given.empty() && data.kv_cache.empty()) {
    for (const auto& t : base_.given) {
      data.given.emplace_back();
      if (t) data.given.back() = copy_of(*t);
    }
    for (const Tensor& t : base_.kv_cache) data.kv_cache.push_back(copy_of(t));
    data.row_gaps = base_.row_gaps;
    data.batch = base_.batch;
  }
  size_t args = data.given.size();
  for (size_t i = 0; i < args + data.kv_cache.size(); ++i)
    if (std::optional<Pieces> chosen = pieces(slot, i))
      put_together(i < args ? data.given[i]->view().data() : data.kv_cache[i - args].view().data(),
                   base_tensor(i).data(), *chosen);
  s.made = true;
  return data;
}

}  // namespace fk
