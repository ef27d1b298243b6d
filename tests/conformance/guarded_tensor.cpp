#include "tests/conformance/guarded_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/device_runtime.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace fk::conformance {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kFence = 4 * kLine;
constexpr std::byte kFenceByte{0xff};
// Odd, so that in rows of any width most rows start at an odd element.
constexpr int64_t kRowGap = 5;

}  // namespace

std::string_view placement_name(Placement placement) {
  switch (placement) {
    case Placement::kAligned:
      return "aligned";
    case Placement::kMisaligned:
      return "misaligned";
    default:
      return "strided rows";
  }
}

bool may_have_strided_rows(const TensorSpec& spec) {
  return dtype_is_float(spec.dtype) && (spec.shape.rank() == 2 || spec.shape.rank() == 3);
}

GuardedTensor::GuardedTensor(const View& content, Placement placement, Device device) : device_(device) {
  place(content.spec(), placement);
  copy_elements(content, seen_view_);
  std::copy_n(start_, image_.size(), image_.begin());
  restore();
}

GuardedTensor::GuardedTensor(const TensorSpec& spec, Placement placement, Device device) : device_(device) {
  place(spec, placement);
}

void GuardedTensor::place(const TensorSpec& spec, Placement placement) {
  size_t element = dtype_size(spec.dtype);
  spec_ = spec;
  strided_ = placement == Placement::kStridedRows && may_have_strided_rows(spec);
  int64_t rows = strided_ ? spec.shape[0] : 1, width = 1;
  for (int d = strided_ ? 1 : 0; d < spec.shape.rank(); ++d) width *= spec.shape[d];
  int64_t pitch = width + (strided_ ? kRowGap : 0);

  before_ = kFence + (placement == Placement::kAligned ? 0 : element);
  rows_ = static_cast<size_t>(rows);
  width_ = static_cast<size_t>(width) * element;
  pitch_ = static_cast<size_t>(pitch) * element;
  image_.assign(before_ + rows_ * pitch_ + kFence, kFenceByte);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(image_.size() + kLine);
  start_ = memory_.get() + (kLine - reinterpret_cast<uintptr_t>(memory_.get()) % kLine) % kLine;
  std::memcpy(start_, image_.data(), image_.size());
  seen_view_ = window(start_, kCpu);
  if (device_ == kCpu) {
    view_ = seen_view_;
  } else {
    on_device_.emplace(image_.size(), device_);  // devices give memory that starts on more than a line
    view_ = window(on_device_->data(), device_);
    restore();
  }
}

View GuardedTensor::window(std::byte* region, Device device) const {
  std::byte* first = region + before_;
  if (!strided_) return View(first, spec_, device);
  auto element = static_cast<int64_t>(dtype_size(spec_.dtype));
  auto rows = static_cast<int64_t>(rows_), pitch = static_cast<int64_t>(pitch_) / element;
  View v = View(first, {rows, pitch}, spec_.dtype, device).narrow(1, 0, static_cast<int64_t>(width_) / element);
  return spec_.shape.rank() == 3 ? v.split_last(spec_.shape[1], spec_.shape[2]) : v;
}

#if defined(__SANITIZE_ADDRESS__)
void GuardedTensor::arm() const {
  __asan_poison_memory_region(start_, image_.size());
  each_row([&](size_t offset, size_t length) { __asan_unpoison_memory_region(start_ + offset, length); });
}
void GuardedTensor::disarm() const { __asan_unpoison_memory_region(start_, image_.size()); }
#else
void GuardedTensor::arm() const {}
void GuardedTensor::disarm() const {}
#endif

void GuardedTensor::look() {
  if (on_device_) device_runtime(device_).download(start_, on_device_->data(), image_.size());
}

void GuardedTensor::put(const std::byte* image) {
  if (on_device_) {
    device_runtime(device_).upload(on_device_->data(), image, image_.size());
    device_runtime(device_).synchronize();
  } else {
    std::memcpy(start_, image, image_.size());
  }
}

void GuardedTensor::restore() { put(image_.data()); }

void GuardedTensor::poison(std::byte pattern) {
  std::vector<std::byte> poisoned = image_;
  each_row([&](size_t offset, size_t length) { std::fill_n(poisoned.data() + offset, length, pattern); });
  put(poisoned.data());
}

std::string GuardedTensor::describe(size_t byte) const {
  auto element = static_cast<int64_t>(dtype_size(view_.dtype()));
  int64_t offset = static_cast<int64_t>(byte) - static_cast<int64_t>(before_);
  return fmt::format("element {} from the first, byte {}",
                     offset >= 0 ? offset / element : -((element - 1 - offset) / element), offset);
}

std::string GuardedTensor::fence_damage() const {
  std::string damage;
  size_t checked = 0;
  auto check_up_to = [&](size_t end) {
    for (; checked < end; ++checked)
      if (damage.empty() && start_[checked] != kFenceByte) damage = describe(checked);
  };
  each_row([&](size_t offset, size_t length) {
    check_up_to(offset);
    checked += length;
  });
  check_up_to(image_.size());
  return damage;
}

std::string GuardedTensor::change() const {
  if (std::memcmp(start_, image_.data(), image_.size()) == 0) return {};
  auto [now, then] = std::mismatch(start_, start_ + image_.size(), image_.begin());
  return then == image_.end() ? std::string() : describe(static_cast<size_t>(now - start_));
}

std::vector<std::byte> GuardedTensor::bytes() const {
  std::vector<std::byte> elements;
  elements.reserve(rows_ * width_);
  each_row([&](size_t offset, size_t length) {
    elements.insert(elements.end(), start_ + offset, start_ + offset + length);
  });
  return elements;
}

}  // namespace fk::conformance
