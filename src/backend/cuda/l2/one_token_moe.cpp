#include "backend/cuda/l2/one_token_moe.h"

#include <string>

#include "ops/l2/qwen2_moe_sparse_moe_block.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

const void* start_of(const OptView& v) { return v ? v->data() : nullptr; }

template <class Make>
OneTokenMoe::Rows shaped(const SparseMoeBlockInit& init, const Make& make) {
  return {.logits = make({{1, init.num_experts}, DType::kF32}),
          .gate = make({{1, 1}, DType::kF32}),
          .wide = make({{1, init.shared_expert_intermediate_size}, init.dtype}),
          .between = make({{init.top_k, init.intermediate_size}, init.dtype}),
          .sums = make({{TermPlaces{static_cast<int>(init.num_experts) + 1}.all()}, DType::kI64}),
          .squares = make({{squares_of_stream(static_cast<int>(init.hidden_size))}, DType::kF32})};
}

}  // namespace

std::string_view OneTokenMoe::refuse() const {
  if (init_.tp_size > 1) return "it does not add up ranks";
  if (init_.num_experts == 0 || init_.shared_expert_intermediate_size == 0) return "there is no shared expert";
  return {};
}

std::string_view OneTokenMoe::refuse(const View& x, const View& out) const {
  if (x.size(0) != 1) return "it takes one token";
  if (x.dtype() != init_.dtype || out.dtype() != init_.dtype) return "x must have the dtype of the weights";
  if (!x.rows_contiguous() || !out.rows_contiguous()) return "rows must be contiguous";
  return one_token_experts_refusal(call(x, nothing(x.device()), out));
}

void OneTokenMoe::bind(const Operator::PartWeight& weight, std::string_view prefix) {
  auto named = [&](std::string_view name) { return weight(std::string(prefix) + std::string(name)); };
  router_ = named("gate.weight");
  gate_up_ = named("experts.w13.weight");
  down_ = named("experts.w2.weight");
  shared_gate_up_ = named("shared_expert.gate_up_proj.weight");
  shared_down_ = named("shared_expert.down_proj.weight");
  shared_gate_ = named("shared_expert_gate.weight");
}

OneTokenMoe::Rows OneTokenMoe::make_rows(Arena& arena) const {
  return shaped(init_, [&](const TensorSpec& spec) { return arena.make(spec); });
}

OneTokenMoe::Rows OneTokenMoe::nothing(Device device) const {
  return shaped(init_, [&](const TensorSpec& spec) { return View(nullptr, spec.shape, spec.dtype, device); });
}

void OneTokenMoe::add_products(StreamGroup& group, const Rows& rows, const OptView& x) const {
  group.products.add(
      {.weight = *shared_gate_up_, .out = rows.wide, .activation = GroupActivation::kSiluAndMul, .x = x});
  group.products.add({.weight = *router_, .out = rows.logits, .x = x});
  group.products.add({.weight = *shared_gate_, .out = rows.gate, .x = x});
}

void OneTokenMoe::run_experts(const View& x, const Rows& rows, const View& out, void* stream) const {
  run_one_token_experts(call(x, rows, out), stream);
}

RoutedOutput OneTokenMoe::routing(RoutedOutput product, const RoutedStream& normed, const Rows& rows) const {
  product.router = start_of(router_);
  product.gate = start_of(shared_gate_);
  product.dtype = init_.dtype;
  product.to = normed;
  product.to.hidden = static_cast<int>(init_.hidden_size);
  product.to.experts = static_cast<int>(init_.num_experts);
  product.to.sums = static_cast<unsigned long long*>(rows.sums.data());
  product.to.squares = static_cast<float*>(rows.squares.data());
  return product;
}

void OneTokenMoe::run_experts(const RoutedStream& routed, const Rows& rows, const View& out, void* stream) const {
  OneTokenExperts experts =
      call(View(routed.stream, Shape{1, init_.hidden_size}, init_.dtype, out.device()), rows, out);
  experts.routed_stream = routed;
  experts.dense_gate_up = start_of(shared_gate_up_);
  run_one_token_experts(experts, stream);
}

OneTokenExperts OneTokenMoe::call(const View& x, const Rows& rows, const View& out) const {
  return {.x = x.data(),
          .gate_up = start_of(gate_up_),
          .down = start_of(down_),
          .between = rows.between.data(),
          .out = out.data(),
          .experts = static_cast<int>(init_.num_experts),
          .top_k = static_cast<int>(init_.top_k),
          .hidden = static_cast<int>(init_.hidden_size),
          .features = static_cast<int>(init_.intermediate_size),
          .dtype = init_.dtype,
          .routed = true,
          .logits = static_cast<const float*>(rows.logits.data()),
          .softmax_of_all = !init_.renormalize,
          .dense_between = rows.wide.data(),
          .dense_down = start_of(shared_down_),
          .dense_gate = static_cast<const float*>(rows.gate.data()),
          .dense_features = static_cast<int>(init_.shared_expert_intermediate_size)};
}

namespace {

class StreamedQwen2MoeSparseMoeBlock final : public Qwen2MoeSparseMoeBlock {
 public:
  explicit StreamedQwen2MoeSparseMoeBlock(const Init& init) : Qwen2MoeSparseMoeBlock(init), moe_(init) {}

  std::string_view refuse(Args args) const override {
    const View &x = *args[0], &out = *args[1];
    if (std::string_view why = moe_.refuse(); !why.empty()) return why;
    if (std::string_view why = moe_.refuse(x, out); !why.empty()) return why;
    if (!bound_) return {};  // refuse() may be called before weights are bound
    return stream_group_refusal(first(x, moe_.nothing(x.device())));
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    if (!moe_.refuse().empty()) return;
    moe_.bind(weight, "");
    bound_ = true;
  }

  void forward(Context& ctx, View x, View out) override {
    const OneTokenMoe::Rows rows = moe_.make_rows(ctx.arena);
    stream_group(first(x, rows), ctx.stream);
    moe_.run_experts(x, rows, out, ctx.stream);
  }

 private:
  StreamGroup first(const View& x, const OneTokenMoe::Rows& rows) const {
    StreamGroup group;
    moe_.add_products(group, rows, x);
    return group;
  }

  OneTokenMoe moe_;
  bool bound_ = false;
};

FK_FUSED_IMPLEMENTATION(Qwen2MoeSparseMoeBlock, StreamedQwen2MoeSparseMoeBlock, "cuda.stream_groups", DeviceKind::kCuda,
                        100, nullptr);

}  // namespace
}  // namespace fk::cuda
