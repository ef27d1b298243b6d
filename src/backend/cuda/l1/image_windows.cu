#include "backend/cuda/l1/image_windows.h"

#include "backend/cuda/l1/map_rows.cuh"

namespace fk::cuda {
namespace {

template <class T>
struct Windows {
  const T* x;
  int64_t image_stride;
  RowsOf<T> rows;
  int places, out_width, channels, kernel, stride, padding, height, width;

  __device__ void compute(int64_t row, int64_t column) const {
    const int place = static_cast<int>(row % places), at = static_cast<int>(column);
    const int channel = at / (kernel * kernel), in_channel = at % (kernel * kernel);
    const int y = place / out_width * stride - padding + in_channel / kernel;
    const int left = place % out_width * stride - padding + in_channel % kernel;
    const bool inside = channel < channels && y >= 0 && y < height && left >= 0 && left < width;
    const T* image = x + row / places * image_stride;
    rows.row(row)[column] =
        inside ? image[(static_cast<int64_t>(channel) * height + y) * width + left] : from_float<T>(0.0f);
  }
};

template <class T>
struct Padded {
  RowsOf<const T> from;
  RowsOf<T> to;
  int64_t length;

  __device__ void compute(int64_t row, int64_t i) const {
    to.row(row)[i] = i < length ? from.row(row)[i] : from_float<T>(0.0f);
  }
};

}  // namespace

void image_windows(const Conv2d::Init& init, const View& x, const View& rows, void* stream) {
  with_float_type(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    map_rows<1>("image_windows",
                Windows<T>{.x = static_cast<const T*>(x.data()),
                           .image_stride = x.stride(0),
                           .rows = rows_of<T>(rows),
                           .places = static_cast<int>(init.places()),
                           .out_width = static_cast<int>(init.out_width()),
                           .channels = static_cast<int>(init.in_channels),
                           .kernel = static_cast<int>(init.kernel_size),
                           .stride = static_cast<int>(init.stride),
                           .padding = static_cast<int>(init.padding),
                           .height = static_cast<int>(init.image_height),
                           .width = static_cast<int>(init.image_width)},
                rows, stream);
  });
}

void padded_rows(const View& from, const View& to, void* stream) {
  with_float_type(from.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    map_rows<1>("padded_rows", Padded<T>{rows_of<const T>(from), rows_of<T>(to), from.size(1)}, to, stream);
  });
}

}  // namespace fk::cuda
