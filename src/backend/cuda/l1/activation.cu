// Activation on CUDA.
#include "ops/l1/activation.h"

#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

template <class T, int N, class Function>
struct Apply {
  RowsOf<const T> x;
  RowsOf<T> out;

  __device__ void compute(int64_t row, int64_t i) const {
    Pack<T, N> pack = load_pack<T, N>(x.row(row) + i);
#pragma unroll
    for (int k = 0; k < N; ++k) pack.at[k] = from_float<T>(Function::template of<T>(to_float(pack.at[k])));
    store_pack<T, N>(out.row(row) + i, pack);
  }
};

using Launch = void (*)(const View& x, const View& out, void* stream);

template <class Function>
void apply(const View& x, const View& out, void* stream) {
  with_packs(x.dtype(), rows_fit_packs(x) && rows_fit_packs(out), [&](auto type, auto n) {
    using T = typename decltype(type)::type;
    constexpr int N = decltype(n)::value;
    map_rows<N>("activation", Apply<T, N, Function>{rows_of<const T>(x), rows_of<T>(out)}, out, stream);
  });
}

constexpr std::pair<std::string_view, Launch> kFunctions[] = {
    {"gelu", apply<GeluExact>},
    {"gelu_pytorch_tanh", apply<GeluTanh>},
    {"quick_gelu", apply<QuickGelu>},
    {"relu", apply<Relu>},
    {"relu2", apply<Relu2>},
    {"sigmoid", apply<Sigmoid>},
    {"silu", apply<Silu>},
    {"tanh", apply<Tanh>},
};

Launch find(std::string_view function) {
  for (const auto& [name, launch_it] : kFunctions)
    if (name == function) return launch_it;
  return nullptr;
}

class ActivationPacks final : public Activation {
 public:
  explicit ActivationPacks(const Init& init) : Activation(init), launch_(find(init.function)) {}

  std::string_view refuse(Args args) const override {
    if (launch_ == nullptr) return "it has no kernel for this function";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override { launch_(x, out, ctx.stream); }

 private:
  Launch launch_;
};

FK_IMPLEMENTATION(Activation, ActivationPacks, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
