#include "bench/scenarios/fit_workload.h"

#include <algorithm>

#include "ops/materialize.h"
#include "ops/registry.h"

namespace fk {
namespace {

const int64_t* integer_field(const Fields& fields, std::string_view name) {
  for (const Field& f : fields)
    if (f.name == name) return std::get_if<int64_t>(&f.value);
  return nullptr;
}

// Dtype of the activations: that of the first floating-point argument, else that of the constructor.
DType activation_dtype(const Fields& init, Args given) {
  for (const OptView& view : given)
    if (view && dtype_is_float(view->dtype())) return view->dtype();
  for (const Field& f : init)
    if (const auto* text = std::get_if<std::string>(&f.value); text != nullptr && f.name == "dtype")
      return dtype_from_name(*text).value_or(DType::kBF16);
  return DType::kBF16;
}

bool same_shape(const InputSpec& expected, const View& seen, const Workload& workload, Role role) {
  Shape want = expected.spec.shape, have = seen.shape();
  if (want.rank() != have.rank() || expected.spec.dtype != seen.dtype()) return false;
  // An engine's states and tables are larger than needed: their sizes do not depend on the call.
  if (expected.generator.kind == Generator::Kind::kBlockTable) have[1] = want[1];
  if (want.rank() == 4 && want[0] == cache_blocks(workload) && want[1] == workload.page_size) have[0] = want[0];
  if (role == Role::kState && want[0] == state_slots(workload)) have[0] = want[0];
  return want == have;
}

class Fitting {
 public:
  Fitting(const Node& node, const Fields& init, Args given, const SeenBatch& batch)
      : info_(node.info()), init_(init), given_(given), has_states_(node.num_states() > 0) {
    int64_t rows = given[0] && given[0]->rank() > 0 ? given[0]->size(0) : 1;
    auto part = [&](size_t begin, size_t end) {
      auto first = batch.sequences.begin();
      return std::vector<Sequence>(first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end));
    };
    size_t all = batch.sequences.size();
    sequences_ = {{BatchPart::kNone, {{rows, 0}}},
                  {BatchPart::kAll, part(0, all)},
                  {BatchPart::kDecoding, part(0, batch.decoding)},
                  {BatchPart::kPrefilling, part(batch.decoding, all)}};
    std::erase_if(sequences_, [](const auto& s) { return s.second.empty(); });
    for (size_t i = 0; i < given.size(); ++i)
      base_.optional_inputs = base_.optional_inputs || (given[i] && info_.args[i].optional);
    base_.dtype = activation_dtype(init, given);
    base_.page_size = batch.page_size;
  }

  std::optional<FittedWorkload> find() {
    std::vector<int64_t> widths = sizes(), none = {0};
    if (search(widths, none, none)) return found_;
    if (search(widths, heads(), none)) return found_;
    if (search(widths, none, rows())) return found_;
    return std::nullopt;
  }

 private:
  // Candidates for the size of a last dimension, or for a number of heads.
  std::vector<int64_t> sizes() const {
    std::vector<int64_t> list = {0};
    for (const OptView& view : given_) {
      if (!view || view->rank() < 2) continue;
      for (int64_t size : {view->size(-1), view->size(-1) / 2, view->size(1)}) list.push_back(size);
    }
    for (int64_t size : heads()) list.push_back(size);
    return unique(list);
  }
  std::vector<int64_t> heads() const {
    std::vector<int64_t> list = {0};
    const int64_t* head = integer_field(init_, "head_size");
    for (const OptView& view : given_)
      if (view && head != nullptr && *head > 0 && view->rank() == 2)
        list.push_back(view->size(1) / *head);
      else if (view && head == nullptr && view->rank() == 3)
        list.push_back(view->size(1));
    return unique(list);
  }
  std::vector<int64_t> rows() const {
    std::vector<int64_t> list = {0};
    for (const OptView& view : given_)
      if (view && view->rank() > 0) list.push_back(view->size(0));
    return unique(list);
  }
  static std::vector<int64_t> unique(const std::vector<int64_t>& list) {
    std::vector<int64_t> kept;
    for (int64_t x : list)
      if (std::find(kept.begin(), kept.end(), x) == kept.end()) kept.push_back(x);
    return kept;
  }

  bool search(const std::vector<int64_t>& widths, const std::vector<int64_t>& kv_heads,
              const std::vector<int64_t>& picks) {
    for (const auto& [part, sequences] : sequences_)
      for (int64_t width : widths)
        for (int64_t kv : kv_heads)
          for (int64_t pick : picks) {
            Workload w = base_;
            w.sequences = sequences;
            w.width = width;
            w.kv_heads = kv;
            w.picks = pick;
            if (!fits(w, part)) continue;
            found_ = FittedWorkload{std::move(w), part};
            return true;
          }
    return false;
  }

  bool fits(const Workload& w, BatchPart part) const {
    if (part == BatchPart::kNone && has_states_) return false;
    Inputs inputs = info_.inputs(init_, w);
    if (inputs.size() != given_.size()) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].has_value() != given_[i].has_value()) return false;
      if (!inputs[i]) continue;
      if (!same_shape(*inputs[i], *given_[i], w, info_.args[i].role)) return false;
      // Values made from the sequences need the real ones.
      if (part == BatchPart::kNone && inputs[i]->generator.is_metadata()) return false;
    }
    return true;
  }

  const OperatorInfo& info_;
  const Fields& init_;
  Args given_;
  bool has_states_;
  Workload base_;
  std::vector<std::pair<BatchPart, std::vector<Sequence>>> sequences_;
  FittedWorkload found_;
};

}  // namespace

SeenBatch seen_batch(const AttentionMetadata& metadata) {
  SeenBatch batch;
  batch.page_size = metadata.page_size;
  for (const SequenceGroup* group : {&metadata.decode, &metadata.prefill}) {
    for (int64_t i = 0; i < group->num_sequences; ++i) {
      const int32_t* cu_q = group->cu_seqlens_q.ptr<int32_t>();
      int64_t query = cu_q[i + 1] - cu_q[i];
      batch.sequences.push_back({query, group->seq_lens.ptr<int32_t>()[i] - query});
    }
    if (group == &metadata.decode) batch.decoding = batch.sequences.size();
  }
  return batch;
}

std::optional<FittedWorkload> fit_workload(const Node& node, const Fields& init, Args given, const SeenBatch& batch) {
  return Fitting(node, init, given, batch).find();
}

}  // namespace fk
