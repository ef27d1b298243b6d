// Conv2d on CUDA: the pixels of each place as a row, then one product.
#include "ops/l1/conv2d.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/image_windows.h"
#include "backend/cuda/matmul/matmul.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class Conv2dRows final : public Conv2d {
 public:
  using Conv2d::Conv2d;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (args[0]->dtype() != init_.dtype) return "x must have the dtype of the weight";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override {
    const int64_t images = x.size(0), places = init_.places(), window = init_.window();
    if (images == 0 || places == 0) return;
    // Rows of a multiple of 16 bytes are multiplied on tensor cores; zeros at their end change no sum.
    const auto pack = static_cast<int64_t>(16 / dtype_size(x.dtype()));
    const int64_t width = (window + pack - 1) / pack * pack;
    View rows = ctx.arena.make({{images * places, width}, x.dtype()});
    image_windows(init_, x, rows, ctx.stream);
    View matrix(weight().data(), Shape{init_.out_channels, window}, init_.dtype, weight().device());
    const bool written = width != window;
    if (written) {
      View padded = ctx.arena.make({{init_.out_channels, width}, x.dtype()});
      padded_rows(matrix, padded, ctx.stream);
      matrix = padded;
    }
    auto multiply = [&](const View& part, const View& to) {
      if (written)
        product_.run_written(ctx, part, matrix, bias_data(), to);
      else
        product_.run(ctx, part, matrix, bias_data(), to);
    };
    if (out.contiguous()) return multiply(rows, out.reshape({images * places, init_.out_channels}));
    for (int64_t b = 0; b < images; ++b) multiply(rows.narrow(0, b * places, places), out.select(0, b));
  }

 private:
  Matmul product_;
};

FK_IMPLEMENTATION(Conv2d, Conv2dRows, "cuda.rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
