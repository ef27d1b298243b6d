#include "candidate/bridge.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "candidate/field_list.h"
#include "core/error.h"
#include "ops/node.h"

namespace fk {
namespace {

static_assert(FK_ABI_MAX_RANK == kMaxRank);

fk_view to_abi(const OptView& view) { return view ? fk::to_abi(*view) : fk_view{}; }

// Threads that a candidate starts itself may not call the host.
thread_local bool inside_parallel_for = false;

class BridgedOperator;

// What a call reads only if its kernel asks for it.
struct HostCall {
  HostCall(const Context& context, BridgedOperator& bridged, Args given) : ctx(context), op(bridged), args(given) {}

  Context ctx;
  BridgedOperator& op;
  Args args;
  fk_attention_metadata attention;  // filled only where the kernel gets it
};

int host_reference(void* host, char* error, size_t error_size);

void host_parallel_for(void* host, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* user) {
  // The pool runs one loop at a time; a loop inside a loop has all threads busy anyway.
  if (inside_parallel_for) {
    if (n > 0) body(user, 0, n);
    return;
  }
  static_cast<HostCall*>(host)->ctx.pool.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    inside_parallel_for = true;
    body(user, begin, end);
    inside_parallel_for = false;
  });
}

// Null inside a parallel loop, where threads would get the same memory, and when memory is exhausted.
void* host_scratch(void* host, size_t bytes) {
  if (inside_parallel_for || bytes > PTRDIFF_MAX) return nullptr;
  try {
    return static_cast<HostCall*>(host)->ctx.arena.make({{static_cast<int64_t>(bytes)}, DType::kU8}).data();
  } catch (const Error&) {
    return nullptr;
  }
}

fk_sequence_group to_abi(const SequenceGroup& group) {
  return {group.num_sequences,
          group.num_tokens,
          fk::to_abi(group.cu_seqlens_q),
          fk::to_abi(group.cu_seqlens_k),
          fk::to_abi(group.seq_lens),
          fk::to_abi(group.block_table),
          fk::to_abi(group.state_slots)};
}

class BridgedOperator final : public ForeignOperator {
 public:
  BridgedOperator(const fk_candidate& table, const OperatorInfo& op, const Fields& init)
      : table_(table), op_(op), fields_(init), init_(init) {
    Sentence sentence{};
    check(table_.create(init_.data(), init_.size(), &object_, sentence.data(), sentence.size()), sentence,
          "could not be constructed");
  }
  ~BridgedOperator() override {
    if (object_ != nullptr) table_.destroy(object_);
  }
  BridgedOperator(const BridgedOperator&) = delete;
  BridgedOperator& operator=(const BridgedOperator&) = delete;

  std::string_view refuse(Args args) const override {
    if (table_.refuse == nullptr) return {};
    std::array<fk_view, kMaxArgs> list;
    const char* why = table_.refuse(object_, fill(list, args), args.size());
    return why == nullptr ? std::string_view() : std::string_view(why);
  }

  void bind(std::span<const std::string> names, std::span<const View> params) override {
    names_.assign(names.begin(), names.end());
    weights_.assign(params.begin(), params.end());
    reference_.reset();
    name_texts_.clear();
    params_.clear();
    for (const std::string& name : names_) name_texts_.push_back(name.c_str());
    for (const View& view : params) params_.push_back(fk::to_abi(view));
    Sentence sentence{};
    check(table_.bind(object_, name_texts_.data(), params_.data(), params_.size(), sentence.data(), sentence.size()),
          sentence, "failed to take its weights");
  }

  // The tree of oracles. Created on first use: most candidates never use it.
  void call_reference(Context& ctx, Args args) {
    if (reference_ == nullptr) {
      BuildOptions oracles;
      oracles.oracle = true;
      reference_ = op_.build(fields_, oracles);
      reference_->bind([this](const std::string& name) {
        for (size_t i = 0; i < names_.size(); ++i)
          if (names_[i] == name) return weights_[i];
        throw Error("the reference has no weight '{}'", name);
      });
    }
    reference_->call(ctx, args);
  }

  void name_states(std::span<const StateSpec> states) override {
    state_specs_.assign(states.begin(), states.end());
    states_.clear();
    for (const StateSpec& s : state_specs_)
      states_.push_back({.name = s.name.c_str(), .kind = static_cast<int32_t>(s.kind), .view = {}});
  }

  void forward(Context& ctx, Args args) override;
  std::unique_ptr<ReadyCall> ready(const Context& ctx, Args args) override;

 private:
  friend class ReadyBridgedCall;
  using Sentence = std::array<char, 256>;

  static const fk_view* fill(std::array<fk_view, kMaxArgs>& list, Args args) {
    for (size_t i = 0; i < args.size(); ++i) list[i] = to_abi(args[i]);
    return list.data();
  }

  // `states`: as many as the context has; their views are filled in. All must stay as long as the result is used.
  fk_context context_of(HostCall& host, std::span<fk_state> states) const;

  void run(const fk_context& context, const fk_view* args, size_t count, Arena& arena, Sentence& sentence) const {
    sentence[0] = 0;
    const Arena::Mark scratch = arena.mark();
    const int failed = table_.forward(object_, &context, args, count, sentence.data(), sentence.size());
    arena.release(scratch);
    if (failed != 0) [[unlikely]]
      check(failed, sentence, "failed");
  }

  void check(int failed, Sentence& sentence, std::string_view what) const {
    if (failed == 0) return;
    sentence.back() = 0;
    std::string text = fmt::format("The candidate for {} {}: {}", op_.name, what,
                                   sentence[0] == 0 ? "it gave no reason" : std::string_view(sentence.data()));
    if (failed == FK_OUT_OF_MEMORY) throw CandidateOutOfMemory(text);
    throw Error(text);
  }

  const fk_candidate& table_;
  const OperatorInfo& op_;
  const Fields fields_;
  FieldList init_;
  void* object_ = nullptr;
  std::vector<View> weights_;  // as bound, by names_
  std::unique_ptr<Node> reference_;
  std::vector<std::string> names_;
  std::vector<const char*> name_texts_;
  std::vector<fk_view> params_;
  std::vector<StateSpec> state_specs_;
  std::vector<fk_state> states_;  // names are those of state_specs_; views those of the call
  Sentence sentence_;             // of ready calls, which are made one after another
};

fk_context BridgedOperator::context_of(HostCall& host, std::span<fk_state> states) const {
  const Context& ctx = host.ctx;
  fk_context context{.host = &host,
                     .threads = ctx.pool.threads(),
                     .parallel_for = &host_parallel_for,
                     .scratch = &host_scratch,
                     .device = ctx.stream == nullptr ? FK_CPU : FK_CUDA,
                     .stream = ctx.stream,
                     .attention = nullptr,
                     .states = nullptr,
                     .num_states = 0,
                     .reference = &host_reference};
  // L1 kernels get everything as arguments; only blocks and operators with states use the batch.
  if (ctx.attention != nullptr && (op_.level > 1 || !states.empty())) {
    host.attention = {to_abi(ctx.attention->decode), to_abi(ctx.attention->prefill),
                      fk::to_abi(ctx.attention->slot_mapping)};
    context.attention = &host.attention;
  }
  if (ctx.states.empty()) return context;
  FK_CHECK(ctx.states.size() == states.size());
  for (size_t i = 0; i < states.size(); ++i) states[i].view = fk::to_abi(ctx.states[i]);
  context.states = states.data();
  context.num_states = static_cast<int64_t>(states.size());
  return context;
}

void BridgedOperator::forward(Context& ctx, Args args) {
  HostCall host(ctx, *this, args);
  std::array<fk_view, kMaxArgs> list;
  Sentence sentence;
  run(context_of(host, states_), fill(list, args), args.size(), ctx.arena, sentence);
}

// What every call reads lies in one piece of memory, the views of its arguments last: a sample may have hundreds of
// calls, and what they read takes time that a candidate with views of its own would save.
class ReadyBridgedCall final : public ReadyCall {
 public:
  static std::unique_ptr<ReadyCall> create(BridgedOperator& op, const Context& ctx, Args args) {
    return std::unique_ptr<ReadyCall>(new (Views{args.size()}) ReadyBridgedCall(op, ctx, args));
  }
  static void operator delete(void* call) { ::operator delete(call); }

 private:
  struct Views {
    size_t count;
  };
  struct Rest {
    HostCall host;
    std::vector<fk_state> states;
  };

  ReadyBridgedCall(BridgedOperator& op, const Context& ctx, Args args)
      : op_(op),
        arena_(ctx.arena),
        count_(args.size()),
        rest_(new Rest{HostCall(ctx, op, args), op.states_}),
        context_(op.context_of(rest_->host, rest_->states)) {
    for (size_t i = 0; i < count_; ++i) new (views() + i) fk_view(to_abi(args[i]));
  }
  static void* operator new(size_t size, Views views) { return ::operator new(size + views.count * sizeof(fk_view)); }
  static void operator delete(void* call, Views /*views*/) { ::operator delete(call); }  // if the constructor throws

  fk_view* views() { return reinterpret_cast<fk_view*>(this + 1); }

  void run() override { op_.run(context_, views(), count_, arena_, op_.sentence_); }

  BridgedOperator& op_;
  Arena& arena_;
  const size_t count_;
  std::unique_ptr<Rest> rest_;
  const fk_context context_;
};

std::unique_ptr<ReadyCall> BridgedOperator::ready(const Context& ctx, Args args) {
  return ReadyBridgedCall::create(*this, ctx, args);
}

int host_reference(void* host, char* error, size_t error_size) {
  auto* call = static_cast<HostCall*>(host);
  std::string why;
  if (inside_parallel_for) {
    why = "the reference cannot be called inside parallel_for";
  } else if (call->ctx.stream != nullptr) {
    why = "the reference runs on the CPU only";
  } else {
    try {
      call->op.call_reference(call->ctx, call->args);
      return 0;
    } catch (const std::exception& e) {
      why = e.what();
    }
  }
  snprintf(error, error_size, "%s", why.c_str());
  return FK_FAILED;
}

class BridgedKernel final : public ForeignKernel {
 public:
  BridgedKernel(const fk_candidate& table, const OperatorInfo& op) : table_(table), op_(op) {}

  std::unique_ptr<ForeignOperator> create(const Fields& init) const override {
    return std::make_unique<BridgedOperator>(table_, op_, init);
  }

 private:
  const fk_candidate& table_;
  const OperatorInfo& op_;
};

}  // namespace

fk_view to_abi(const View& view) {
  fk_view v;  // made in every call: entries after `rank` stay uninitialised
  v.data = view.data();
  v.dtype = static_cast<int32_t>(view.dtype());
  v.rank = view.rank();
  v.present = 1;
  v.device = view.device().kind == DeviceKind::kCpu ? FK_CPU : FK_CUDA;
  for (int i = 0; i < view.rank(); ++i) {
    v.shape[i] = view.size(i);
    v.stride[i] = view.stride(i);
  }
  return v;
}

std::shared_ptr<const ForeignKernel> bridge_to(const fk_candidate& table, const OperatorInfo& op) {
  return std::make_shared<BridgedKernel>(table, op);
}

}  // namespace fk
