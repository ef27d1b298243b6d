#include "sandbox/shared_tensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/device_runtime.h"
#include "core/error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace fk {
namespace {

size_t page_bytes() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}
size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Calls visit(begin, end) for each part of a tensor's pages outside the tensor, while it returns true.
template <class Visit>
bool each_margin(const TensorPlace& p, std::byte* base, Visit&& visit) {
  std::byte *start = base + p.extent_offset, *data = start + p.data_offset, *end = data + p.size_bytes();
  if (!visit(start, data) || !visit(end, start + p.extent_bytes)) return false;
  if (p.row_gap == 0 || p.spec.shape.numel() == 0) return true;
  int64_t rows = p.spec.shape[0];
  size_t row = p.spec.size_bytes() / static_cast<size_t>(rows);
  size_t step = row + static_cast<size_t>(p.row_gap) * dtype_size(p.spec.dtype);
  for (int64_t r = 0; r + 1 < rows; ++r, data += step)
    if (!visit(data + row, data + step)) return false;
  return true;
}

}  // namespace

SharedTensors::SharedTensors(const std::vector<Named>& tensors, Access access, Device device)
    : access_(access), device_(device) {
  lay_out(tensors);
  if (device == kCpu) {
    map_host_memory();
    return;
  }
  on_device_ = device_runtime(device).judging().share_memory(std::max<size_t>(bytes_, 1));
  base_ = static_cast<std::byte*>(on_device_->address());
  bytes_ = on_device_->size_bytes();
  fd_ = on_device_->fd();
}

void SharedTensors::lay_out(const std::vector<Named>& tensors) {
  for (const auto& [name, spec, gap] : tensors) {
    names_.push_back(name);
    if (device_ == kCpu) {
      size_t padded = round_up(bytes_with_gaps(spec, gap), 64);
      // One page more if a tensor fills its pages, so that there is always a margin before it.
      size_t extent = round_up(padded + 64, page_bytes());
      places_.push_back({bytes_, extent, extent - padded, spec, gap});
      bytes_ += extent;
    } else {
      // A kernel with a wrong last tile or a wrong number of rows writes a row too many.
      constexpr size_t kLeast = 4096, kMost = size_t{1} << 20, kAligned = 512;
      size_t row = spec.shape.rank() == 0 ? 0 : static_cast<size_t>(spec.shape[-1]) * dtype_size(spec.dtype);
      size_t band = round_up(std::clamp(row, kLeast, kMost), kAligned);
      size_t extent = 2 * band + round_up(spec.size_bytes(), kAligned);
      places_.push_back({bytes_, extent, band, spec, 0});
      bytes_ += extent;
    }
  }
}

void SharedTensors::map_host_memory() {
  fd_ = memfd_create("fastkernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) throw Error("Shared memory could not be created ({}).", strerror(errno));
  size_t size = std::max(bytes_, page_bytes());
  void* mapped = MAP_FAILED;
  if (ftruncate(fd_, static_cast<off_t>(size)) == 0)
    mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) {
    close(fd_);
    throw Error("The system refused {:.1f} MiB of shared memory; use a smaller scenario.",
                static_cast<double>(size) / 0x1p20);
  }
  base_ = static_cast<std::byte*>(mapped);
  bytes_ = size;
  // From here on no process can map it writable again, not even by reopening the descriptor.
  int seals = F_SEAL_SHRINK | F_SEAL_GROW | (access_ == Access::kReadOnly ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL;
  if (fcntl(fd_, F_ADD_SEALS, seals) != 0) {
    munmap(base_, bytes_);
    close(fd_);
    throw Error("This system cannot seal shared memory, so inputs could be changed; Linux 5.1 or later can.");
  }
}

SharedTensors::~SharedTensors() {
  if (on_device_) return;
  munmap(base_, bytes_);
  close(fd_);
}

View SharedTensors::view(size_t i) const {
  const TensorPlace& p = places_[i];
  std::byte* data = base_ + p.extent_offset + p.data_offset;
  return on_device_ ? View(data, p.spec, device_) : view_with_gaps(data, p.spec, p.row_gap);
}

std::array<DeviceRange, 2> SharedTensors::margins(size_t i) const {
  const TensorPlace& p = places_[i];
  std::byte *start = base_ + p.extent_offset, *end = start + p.data_offset + p.spec.size_bytes();
  return {DeviceRange{start, p.data_offset}, {end, static_cast<size_t>(start + p.extent_bytes - end)}};
}

DeviceRange range_of(const View& view) { return {view.data(), view.size_bytes()}; }

std::vector<uint64_t> SharedTensors::fingerprints() const {
  std::vector<DeviceRange> ranges;
  for (size_t i = 0; i < size(); ++i) ranges.push_back(range_of(view(i)));
  return device_runtime(device_).judging().fingerprint(ranges)->values();
}

void SharedTensors::remember() {
  if (on_device_) remembered_ = fingerprints();
}

std::optional<std::string> SharedTensors::changed() const {
  if (!on_device_) return std::nullopt;
  std::vector<uint64_t> now = fingerprints();
  for (size_t i = 0; i < size(); ++i)
    if (now[i] != remembered_[i]) return names_[i];
  return std::nullopt;
}

void SharedTensors::paint_margins(size_t i, uint8_t pattern) const {
  if (on_device_) {
    for (const DeviceRange& margin : margins(i))
      device_runtime(device_).fill(margin.address, std::byte{pattern}, margin.size_bytes);
    return;
  }
  each_margin(places_[i], base_, [&](std::byte* from, std::byte* to) {
    std::fill(from, to, std::byte{pattern});
    return true;
  });
}

bool SharedTensors::margins_intact(size_t i, uint8_t pattern) const {
  return each_margin(places_[i], base_, [&](const std::byte* from, const std::byte* to) {
    auto bytes = static_cast<size_t>(to - from);
    return bytes == 0 || (*from == std::byte{pattern} && std::memcmp(from, from + 1, bytes - 1) == 0);
  });
}

MappedTensors::MappedTensors(int fd, std::vector<TensorPlace> places, Access access, Device device, void* wanted)
    : places_(std::move(places)), device_(device) {
  if (device == kCpu) {
    map_between_guards(fd, access, wanted);
    return;
  }
  for (const TensorPlace& p : places_) {
    starts_.push_back(p.extent_offset);
    bytes_ = p.extent_offset + p.extent_bytes;
  }
  on_device_ = device_runtime(device).judging().open_memory(fd, std::max<size_t>(bytes_, 1));
  base_ = static_cast<std::byte*>(on_device_->address());
}

void MappedTensors::map_between_guards(int fd, Access access, void* wanted) {
  size_t guard = page_bytes();
  bytes_ = guard;
  for (const TensorPlace& p : places_) {
    starts_.push_back(bytes_);
    bytes_ += p.extent_bytes + guard;
  }
  void* reserved = mmap(wanted, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    close(fd);
    throw Error("The runner could not reserve {:.1f} MiB of addresses.", static_cast<double>(bytes_) / 0x1p20);
  }
  base_ = static_cast<std::byte*>(reserved);
  int protection = PROT_READ | (access == Access::kWritable ? PROT_WRITE : 0);
  bool mapped = true;
  for (size_t i = 0; i < places_.size() && mapped; ++i)
    mapped = mmap(base_ + starts_[i], places_[i].extent_bytes, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd,
                  static_cast<off_t>(places_[i].extent_offset)) != MAP_FAILED;
  close(fd);
  if (!mapped) {
    munmap(base_, bytes_);
    throw Error("The runner could not map its tensors.");
  }
}

MappedTensors::~MappedTensors() {
  if (!on_device_) munmap(base_, bytes_);
}

View MappedTensors::view(size_t i) const {
  const TensorPlace& p = places_[i];
  std::byte* data = base_ + starts_[i] + p.data_offset;
  return on_device_ ? View(data, p.spec, device_) : view_with_gaps(data, p.spec, p.row_gap);
}

// For the layout of map_between_guards.
TensorNeighbour tensor_near(const std::vector<TensorPlace>& places, uint64_t distance) {
  size_t guard = page_bytes(), start = guard;
  for (size_t i = 0; i < places.size(); ++i) {
    size_t end = start + places[i].extent_bytes;
    if (distance < start) return {true, i, false};  // only before the first
    if (distance < end) return {true, i, true};
    if (distance < end + guard) return {true, i, false};
    start = end + guard;
  }
  return {};
}

}  // namespace fk
