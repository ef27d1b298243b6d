#include "core/communicator.h"

#include "core/check.h"
#include "core/device_runtime.h"
#include "core/error.h"

namespace fk {
namespace {

class SingleRank final : public Communicator {
 public:
  std::string_view name() const override { return "a single rank"; }
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }

  void all_reduce(const View& x, const View& out, void*) override { copy(x, out); }
  void all_gather(const View& x, const View& out, void*) override { copy(x, out); }
  void reduce_scatter(const View& x, const View& out, void*) override { copy(x, out); }
  void all_to_all(const View& x, const View& out, void*) override { copy(x, out); }
  void broadcast(const View&, int64_t root, void*) override { FK_CHECK(root == 0); }
  void barrier() override {}

 private:
  static void copy(const View& x, const View& out) {
    FK_CHECK(x.contiguous() && out.contiguous() && x.size_bytes() == out.size_bytes());
    if (x.data() == out.data() || x.numel() == 0) return;
    if (x.device() == kCpu)
      copy_between(x.reshape({x.numel()}), out.reshape({out.numel()}));
    else
      device_runtime(x.device()).copy(out.data(), x.data(), x.size_bytes());
  }
};

LauncherDriver g_launcher;
DeviceCommunicatorMaker g_cuda = nullptr;

}  // namespace

Communicator& single_rank() {
  static SingleRank alone;
  return alone;
}

bool register_launcher(const LauncherDriver& driver) {
  g_launcher = driver;
  return true;
}

const LauncherDriver* launcher() { return g_launcher.join != nullptr ? &g_launcher : nullptr; }

bool register_device_communicator(DeviceKind kind, DeviceCommunicatorMaker make) {
  FK_CHECK(kind == DeviceKind::kCuda);
  g_cuda = make;
  return true;
}

std::unique_ptr<Communicator> device_communicator(Communicator& host, Device device) {
  FK_CHECK(device != kCpu);
  if (g_cuda == nullptr)
    throw Error(
        "This build has no NCCL, which ranks on GPUs need; install libnccl-dev and build with CUDA again, or use "
        "--tp 1.");
  return g_cuda(host, device);
}

}  // namespace fk
