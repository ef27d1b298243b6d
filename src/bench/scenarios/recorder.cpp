#include "bench/scenarios/recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/scenarios/scenario_data.h"
#include "core/check.h"
#include "ops/materialize.h"

namespace fk {
namespace {

constexpr size_t kUnmatched = static_cast<size_t>(-1);

void append(std::string& key, int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); }

std::vector<int64_t> strides_of(const View& view) {
  std::vector<int64_t> strides;
  for (int d = 0; d < view.rank(); ++d) strides.push_back(view.stride(d));
  return strides;
}

Tensor dense_copy(const View& view) {
  Tensor copy(view.spec());
  copy_elements(view, copy);
  return copy;
}

// The part of a seen tensor that the contract's shape covers: tables of an engine are wider than needed.
View cut_to(View view, const Shape& shape) {
  for (int d = 0; d < shape.rank(); ++d) view = view.narrow(d, 0, shape[d]);
  return view;
}

}  // namespace

std::string call_text(const Scenario& s) {
  const Workload& w = s.workload;
  std::string text = fmt::format("{}|{}|{} {} {} {} {} {} {}|", s.op, fields_text(s.init), w.optional_inputs,
                                 dtype_name(w.dtype), w.width, w.kv_heads, w.picks, w.blocks, w.page_size);
  for (const Sequence& q : w.sequences) text += fmt::format("{} {},", q.query_len, q.context_len);
  for (const ArgumentOverride& o : s.overrides)
    if (!o.strides.empty()) text += fmt::format("|{} {}", o.name, fmt::join(o.strides, " "));
  return text;
}

size_t CallRecorder::kind_of(const Node& node) {
  auto known = kind_by_node_.find(&node);
  if (known != kind_by_node_.end()) return known->second;
  Fields init = node.init();
  std::string text = fmt::format("{} {}", node.info().name, fields_text(init));
  auto [at, is_new] = kind_by_text_.emplace(text, kinds_.size());
  if (is_new) kinds_.push_back({std::move(text), std::move(init)});
  kind_by_node_.emplace(&node, at->second);
  return at->second;
}

void CallRecorder::look_at(const AttentionMetadata& metadata) {
  batch_ = seen_batch(metadata);
  // A decoding sequence grows by a token a step. Steps that fill the same blocks count as equal, so that a long run
  // does not give a thousand scenarios that differ by one key.
  std::string key;
  bool all_decode = batch_.decoding == batch_.sequences.size();
  step_ = fmt::format("{}-{}",
                      all_decode             ? "decode"
                      : batch_.decoding == 0 ? "prefill"
                                             : "mixed",
                      metadata.num_tokens());
  for (const Sequence& s : batch_.sequences) {
    append(key, s.query_len);
    append(key, (s.query_len + s.context_len + batch_.page_size - 1) / batch_.page_size);
  }
  batch_number_ =
      number_by_batch_.emplace(std::move(key), static_cast<int64_t>(number_by_batch_.size()) + 1).first->second;
}

std::string CallRecorder::key_of(size_t kind, const Node& node, Args given) const {
  std::string key;
  append(key, static_cast<int64_t>(kind));
  append(key, batch_number_);
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) {
      append(key, -1);
      continue;
    }
    const View& v = *given[i];
    append(key, static_cast<int64_t>(v.dtype()));
    for (int d = 0; d < v.rank(); ++d) append(key, v.size(d));
    if (!v.contiguous() && node.info().args[i].role != Role::kOutput)
      for (int d = 0; d < v.rank(); ++d) append(key, v.stride(d));
  }
  return key;
}

bool CallRecorder::before_call(const Node& node, const Context& ctx, Args args) {
  // The batch changes from step to step, and a step begins at the top of the tree.
  if (ctx.attention != nullptr && (node.info().level == 4 || batch_.sequences.empty())) look_at(*ctx.attention);
  if (!only_.empty() && node.info().name != only_) return true;
  size_t kind = kind_of(node);
  Args given = args.first(count_given(node.info().args));
  auto [at, is_new] = call_by_key_.emplace(key_of(kind, node, given), kUnmatched);
  if (is_new)
    at->second = add(node, kind, ctx, given);
  else if (at->second != kUnmatched)
    ++calls_[at->second].scenario.count;
  return true;
}

std::vector<RecordedCall> CallRecorder::take_calls() {
  call_by_key_.clear();
  call_by_scenario_.clear();
  unmatched_.clear();
  return std::exchange(calls_, {});
}

size_t CallRecorder::add(const Node& node, size_t kind, const Context& ctx, Args given) {
  std::optional<FittedWorkload> fitted = fit_workload(node, kinds_[kind].init, given, batch_);
  if (!fitted) {
    std::string shapes;
    for (const OptView& v : given) shapes += fmt::format("{}{}", shapes.empty() ? "" : ", ", v ? v->str() : "none");
    unmatched_.push_back(fmt::format("{} at {} with ({})", node.info().name, node.path(), shapes));
    return kUnmatched;
  }
  RecordedCall call;
  call.path = node.path();
  call.step = step_;
  Scenario& s = call.scenario;
  s.op = node.info().name;
  s.init = kinds_[kind].init;
  s.workload = fitted->workload;
  // A part of every head has gaps inside a row, which scenarios do not have: there it is dense.
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i] && !given[i]->contiguous() &&
        has_gaps_between_rows_only(given[i]->shape(), strides_of(*given[i])))
      s.overrides.push_back({.name = std::string(node.info().args[i].name), .strides = strides_of(*given[i])});
  auto [at, is_new] = call_by_scenario_.emplace(call_text(s), calls_.size());
  if (!is_new) {
    ++calls_[at->second].scenario.count;
    return at->second;
  }
  if (golden_) keep_golden(call, *fitted, ctx, given);
  calls_.push_back(std::move(call));
  return at->second;
}

void CallRecorder::keep_golden(RecordedCall& call, const FittedWorkload& fitted, const Context& ctx, Args given) {
  Scenario& s = call.scenario;
  const OperatorInfo& info = s.info();
  // Models without states have no block tables.
  const AttentionMetadata& batch = *ctx.attention;
  bool has_tables = batch.decode.block_table.data() != nullptr || batch.prefill.block_table.data() != nullptr;
  if (fitted.part != BatchPart::kNone && has_tables) {
    std::vector<int32_t> entries;
    int64_t width = blocks_per_sequence(s.workload), rows = 0;
    auto add_group = [&](const SequenceGroup& group) {
      for (int64_t i = 0; i < group.num_sequences; ++i, ++rows) {
        const auto* row = group.block_table.ptr<int32_t>() + i * group.block_table.stride(0);
        int64_t page = ctx.attention->page_size, used = (group.seq_lens.ptr<int32_t>()[i] + page - 1) / page;
        for (int64_t b = 0; b < width; ++b) entries.push_back(b < used ? row[b] : 0);
      }
    };
    if (fitted.part != BatchPart::kPrefilling) add_group(ctx.attention->decode);
    if (fitted.part != BatchPart::kDecoding) add_group(ctx.attention->prefill);
    call.block_table = Tensor({rows, width}, DType::kI32);
    std::copy(entries.begin(), entries.end(), call.block_table.ptr<int32_t>());
    s.workload.blocks = *std::max_element(entries.begin(), entries.end()) + 1;
  }
  Inputs inputs = info.inputs(s.init, s.workload);
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i] || dtype_is_float(given[i]->dtype()) || info.args[i].role != Role::kInput) continue;
    call.golden.emplace_back(info.args[i].name, dense_copy(cut_to(*given[i], inputs[i]->spec.shape)));
  }
}

}  // namespace fk
