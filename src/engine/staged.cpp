#include "engine/staged.h"

namespace fk {

StagingTurns::StagingTurns(Device device) : device_(device) {}

void StagingTurns::begin() {
  if (device_ == kCpu) return;
  buffer_ = 1 - buffer_;
  if (uploaded_[buffer_]) uploaded_[buffer_]->wait();
}

void StagingTurns::end() {
  if (device_ == kCpu) return;
  auto& event = uploaded_[buffer_];
  if (!event) event = device_runtime(device_).make_event();
  event->record();
}

PinnedBuffer::PinnedBuffer(size_t size_bytes, Device device)
    : runtime_(device_runtime(device)), data_(runtime_.allocate_host(size_bytes)) {}

PinnedBuffer::~PinnedBuffer() { runtime_.release_host(data_); }

}  // namespace fk
