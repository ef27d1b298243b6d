#include "ops/l1/conv2d.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> Conv2d::params(const Init& init) {
  std::vector<ParamSpec> params{
      {"weight", {{init.out_channels, init.in_channels, init.kernel_size, init.kernel_size}, init.dtype}}};
  if (init.bias) params.push_back({"bias", {{init.out_channels}, init.dtype}});
  return params;
}

OutputSpecs Conv2d::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.places(), init.out_channels}, given[0]->dtype()}};
}

Inputs Conv2d::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.in_channels, init.image_height, init.image_width}, w.dtype},
                    Generator::normal()}};
}

Cost Conv2d::cost(const Init& init, const Workload& w) {
  auto B = static_cast<double>(w.num_tokens()), places = static_cast<double>(init.places()),
       N = static_cast<double>(init.out_channels), K = static_cast<double>(init.window());
  auto size = static_cast<double>(dtype_size(w.dtype));
  // Steps wider than the kernel, and the rest behind the last step, leave pixels out.
  double pixels = static_cast<double>(init.in_channels * init.image_height * init.image_width);
  // Parts of windows that lie on the padding need no products; without padding there are none.
  double inside = init.padding == 0 ? 1 : 0.25;
  return {.read_bytes = size * (N * K + (init.bias ? N : 0) + B * std::min(pixels, places * K * inside)),
          .written_bytes = size * B * places * N,
          .matrix_flops = 2 * B * places * N * K * inside};
}

Tolerance Conv2d::tolerance(const Init& init, DType dtype) {
  return rounding_tolerance(dtype, static_cast<double>(init.window()));
}

std::vector<Case<Conv2d>> Conv2d::cases() {
  Init patches{
      .in_channels = 3, .out_channels = 40, .kernel_size = 4, .stride = 4, .image_height = 12, .image_width = 16};
  Init odd{.in_channels = 2, .out_channels = 33, .kernel_size = 7, .stride = 7, .image_height = 31, .image_width = 24};
  Init overlapping{.in_channels = 3,
                   .out_channels = 9,
                   .kernel_size = 3,
                   .stride = 1,
                   .padding = 1,
                   .image_height = 9,
                   .image_width = 7,
                   .bias = false};
  Init wide_steps{.in_channels = 1,
                  .out_channels = 5,
                  .kernel_size = 2,
                  .stride = 3,
                  .padding = 2,
                  .image_height = 8,
                  .image_width = 5};
  Init large{
      .in_channels = 3, .out_channels = 96, .kernel_size = 14, .stride = 14, .image_height = 56, .image_width = 42};
  return {
      {"one pixel", {.in_channels = 1, .out_channels = 1, .image_height = 1, .image_width = 1}, Workload::tokens(1)},
      {"patches", patches, Workload::tokens(3)},
      {"a rest of pixels", odd, Workload::tokens(2)},
      {"overlapping, padded", overlapping, Workload::tokens(2)},
      {"steps wider than the kernel", wide_steps, Workload::tokens(3)},
      {"several tiles", large, Workload::tokens(4)},
      {"no images", patches, Workload::tokens(0)},
  };
}

std::string_view Conv2d::refuse_call(Args args) const {
  const View& x = *args[0];
  int64_t plane = init_.image_height * init_.image_width;
  if (x.stride(3) != 1 || x.stride(2) != init_.image_width || x.stride(1) != plane)
    return "the pixels of an image must be contiguous";
  if (init_.image_height + 2 * init_.padding < init_.kernel_size ||
      init_.image_width + 2 * init_.padding < init_.kernel_size)
    return "the kernel is larger than the image";
  return {};
}

namespace {

class Conv2dOracle final : public Conv2d {
 public:
  using Conv2d::Conv2d;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context&, View x, View out) override {
    for (int64_t b = 0; b < x.size(0); ++b)
      for (int64_t place = 0; place < init_.places(); ++place) {
        int64_t top = place / init_.out_width() * init_.stride - init_.padding;
        int64_t left = place % init_.out_width() * init_.stride - init_.padding;
        for (int64_t n = 0; n < init_.out_channels; ++n)
          set(out, (init_.bias ? get(param(1), n) : 0) + window_sum(x.select(0, b), top, left, n), b, place, n);
      }
  }

 private:
  double window_sum(const View& image, int64_t top, int64_t left, int64_t n) const {
    double sum = 0;
    for (int64_t c = 0; c < init_.in_channels; ++c)
      for (int64_t i = 0; i < init_.kernel_size; ++i)
        for (int64_t j = 0; j < init_.kernel_size; ++j) {
          int64_t y = top + i, x = left + j;
          bool inside = y >= 0 && y < init_.image_height && x >= 0 && x < init_.image_width;
          if (inside) sum += get(image, c, y, x) * get(weight(), n, c, i, j);
        }
    return sum;
  }
};

FK_OPERATOR(Conv2d, Conv2dOracle);

// Windows as rows, so that the sum over a window is a product of matrices.
void define_conv2d(const Conv2d::Init& init, Definition& d) {
  Expr x = d.arg("x");
  auto padding = static_cast<double>(init.padding);
  for (int axis : {2, 3})  // indices outside give the zeros around an image
    if (init.padding > 0) x = gather(x, algebra::iota({x.size(axis) + 2 * init.padding}, 0) - padding, axis);
  // [B, rows, columns, C, kernel, kernel] from [B, C, H, W]
  algebra::IndexMap window{
      {0, 0, 0, 0},
      {{1, 0, 0, 0, 0, 0}, {0, 0, 0, 1, 0, 0}, {0, init.stride, 0, 0, 1, 0}, {0, 0, init.stride, 0, 0, 1}}};
  const int64_t B = x.size(0), size = init.kernel_size;
  Expr windows = view(x, window, {B, init.out_height(), init.out_width(), init.in_channels, size, size});
  windows = reshape(windows, {B, init.places(), 1, init.window()});
  Expr weight = reshape(d.arg("weight"), {init.out_channels, init.window()});
  Expr out = drop_axis(sum(windows * weight, 3), 3);
  d.result("out", init.bias ? out + d.arg("bias") : out);
}
FK_DEFINITION(Conv2d, define_conv2d);

}  // namespace
}  // namespace fk
