// Communicator: the ranks that run one model together, and the collective operations between them.
//
// It stands beside DeviceRuntime: one rank, one device, one communicator. All ranks call the same functions in the same
// order, with tensors of the same sizes. Tensors are contiguous and on the communicator's device; work on a device is
// done in the order of the stream. Every rank gets the same bits. On the CPU sums are added in rank order, in f32 or
// wider, and rounded once. Every function throws Error if a rank is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace fk {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::string_view name() const = 0;  // "shared memory": how the ranks reach each other
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  // out = the sum of all ranks' x; out may be x.
  virtual void all_reduce(const View& x, const View& out, void* stream) = 0;
  // out = the ranks' x, one behind the other.
  virtual void all_gather(const View& x, const View& out, void* stream) = 0;
  // x is size() blocks; out = the sum of all ranks' block rank().
  virtual void reduce_scatter(const View& x, const View& out, void* stream) = 0;
  // x and out are size() blocks: block i of x goes to rank i, block i of out comes from rank i.
  virtual void all_to_all(const View& x, const View& out, void* stream) = 0;
  // x of every rank = x of `root`.
  virtual void broadcast(const View& x, int64_t root, void* stream) = 0;
  // Waits until every rank has called it.
  virtual void barrier() = 0;
};

// One rank alone: sums and blocks are copies. On any device.
Communicator& single_rank();

// Ranks that a launcher like mpirun has started; a module registers it where its library was found.
struct LauncherDriver {
  // How many ranks the launcher has started; 0 where this process was not started by it.
  int64_t (*started)() = nullptr;
  int64_t (*on_this_machine)() = nullptr;  // of them
  // Throws Error that says what is missing.
  std::unique_ptr<Communicator> (*join)() = nullptr;
};
bool register_launcher(const LauncherDriver& driver);
const LauncherDriver* launcher();  // nullptr: none is registered

// The communicator of a device, which the ranks of `host` make together: `host` carries what they tell each other
// first. A backend registers it where its library was found.
using DeviceCommunicatorMaker = std::unique_ptr<Communicator> (*)(Communicator& host, Device device);
bool register_device_communicator(DeviceKind kind, DeviceCommunicatorMaker make);
// Throws Error that says what is missing. Not for the CPU, where `host` itself is the communicator.
std::unique_ptr<Communicator> device_communicator(Communicator& host, Device device);

}  // namespace fk
