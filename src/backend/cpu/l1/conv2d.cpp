// Conv2d on CPU: the windows of some images become the rows of a matrix, which one product multiplies by the weights.
#include "ops/l1/conv2d.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/matmul/matmul_choice.h"
#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

// Windows that are gathered before a product; they then stay in the caches while the product reads them.
constexpr int64_t kGatheredBytes = int64_t{4} << 20;

class Conv2dGathered final : public Conv2d {
 public:
  using Conv2d::Conv2d;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    const View &x = *args[0], &out = *args[1];
    if (x.dtype() != init_.dtype) return "x and the weight must have one dtype";
    // Gaps between images are fine; the places of an image must be one matrix.
    if (out.size(1) > 1 && out.stride(1) != init_.out_channels) return "the rows of an image must be contiguous";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override {
    int64_t images = x.size(0), places = init_.places(), K = init_.window();
    auto size = static_cast<int64_t>(dtype_size(x.dtype()));
    // Several images share a product only where their outputs are one matrix.
    bool joined = images <= 1 || out.stride(0) == places * init_.out_channels;
    int64_t fitting = std::max<int64_t>(1, kGatheredBytes / std::max<int64_t>(places * K * size, 1));
    int64_t at_once = joined ? std::min(images, fitting) : 1;
    View windows = ctx.arena.make({{std::max<int64_t>(at_once, 1) * places, K}, x.dtype()});
    MatmulFunction product = fastest_matmul(x.dtype());
    for (int64_t first = 0; first < images; first += at_once) {
      int64_t count = std::min(at_once, images - first);
      for_rows(ctx.pool, count * places, K, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          gather(x.select(0, first + row / places), row % places, size,
                 static_cast<std::byte*>(windows.data()) + row * K * size);
      });
      product({.m = count * places,
               .n = init_.out_channels,
               .k = K,
               .x = windows.data(),
               .x_stride = K,
               .w = weight().data(),
               .w_stride = K,
               .bias = bias_data(),
               .y = out.select(0, first).data(),
               .y_stride = init_.out_channels,
               .dtype = x.dtype(),
               .y_dtype = out.dtype()},
              ctx.pool);
    }
  }

 private:
  // The pixels of one place, in the order of a filter: channel by channel, row by row.
  void gather(const View& image, int64_t place, int64_t size, std::byte* out) const {
    int64_t kernel = init_.kernel_size, top = place / init_.out_width() * init_.stride - init_.padding;
    int64_t left = place % init_.out_width() * init_.stride - init_.padding;
    int64_t first = std::max<int64_t>(0, -left), last = std::min(kernel, init_.image_width - left);  // columns inside
    const auto* pixels = static_cast<const std::byte*>(image.data());
    for (int64_t c = 0; c < init_.in_channels; ++c)
      for (int64_t i = 0; i < kernel; ++i, out += kernel * size) {
        int64_t y = top + i;
        bool inside = y >= 0 && y < init_.image_height && first < last;
        if (!inside || last - first < kernel) std::memset(out, 0, static_cast<size_t>(kernel * size));
        if (!inside) continue;
        int64_t from = (c * init_.image_height + y) * init_.image_width + left + first;
        std::memcpy(out + first * size, pixels + from * size, static_cast<size_t>((last - first) * size));
      }
  }
};

FK_IMPLEMENTATION(Conv2d, Conv2dGathered, "cpu.gathered_product", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
