// The communicator of GPUs: NCCL, loaded when ranks need it, so that the program starts where it is not installed. Not
// compiled where nccl.h is missing (module.cmake).
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include "backend/cuda/device/status.h"
#include "core/check.h"
#include "core/communicator.h"
#include "core/error.h"

namespace fk::cuda {
namespace {

struct Nccl {
  decltype(&ncclGetErrorString) error_string;
  decltype(&ncclGetUniqueId) unique_id;
  decltype(&ncclCommInitRank) init_rank;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclAllReduce) all_reduce;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclReduceScatter) reduce_scatter;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Error("libnccl.so.2 has no function {}; install a newer NCCL.", name);
}

Nccl load_nccl() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error("NCCL is not on this machine ({}); install libnccl2, or use --tp 1.", dlerror());
  Nccl nccl{};
  find(library, "ncclGetErrorString", nccl.error_string);
  find(library, "ncclGetUniqueId", nccl.unique_id);
  find(library, "ncclCommInitRank", nccl.init_rank);
  find(library, "ncclCommDestroy", nccl.destroy);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclAllGather", nccl.all_gather);
  find(library, "ncclReduceScatter", nccl.reduce_scatter);
  find(library, "ncclBroadcast", nccl.broadcast);
  find(library, "ncclSend", nccl.send);
  find(library, "ncclRecv", nccl.receive);
  find(library, "ncclGroupStart", nccl.group_start);
  find(library, "ncclGroupEnd", nccl.group_end);
  return nccl;
}

const Nccl& nccl() {
  static const Nccl functions = load_nccl();
  return functions;
}

void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw Error("NCCL failed in {}: {}.", what, nccl().error_string(result));
}

ncclDataType_t sum_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return ncclFloat64;
    case DType::kF32:
      return ncclFloat32;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    default:
      throw Error("Ranks cannot add up {}; use f64, f32, f16, bf16, i32 or i64.", dtype_name(dtype));
  }
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Communicator& host, Device device) : host_(host), device_(device) {
    fk::cuda::check(cudaSetDevice(device.index), "cudaSetDevice");
    ncclUniqueId id{};
    if (host.rank() == 0) check(nccl().unique_id(&id), "ncclGetUniqueId");
    host.broadcast(View(&id, Shape{static_cast<int64_t>(sizeof id)}, DType::kU8), 0, nullptr);
    check(nccl().init_rank(&ranks_, static_cast<int>(host.size()), id, static_cast<int>(host.rank())),
          "ncclCommInitRank");
  }
  ~NcclCommunicator() override { nccl().destroy(ranks_); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::string_view name() const override { return "NCCL"; }
  int64_t rank() const override { return host_.rank(); }
  int64_t size() const override { return host_.size(); }

  void all_reduce(const View& x, const View& out, void* stream) override {
    check_views(x, out);
    check(nccl().all_reduce(x.data(), out.data(), count(x), sum_type(x.dtype()), ncclSum, ranks_, native(stream)),
          "ncclAllReduce");
  }
  void all_gather(const View& x, const View& out, void* stream) override {
    check_views(x, out);
    check(nccl().all_gather(x.data(), out.data(), x.size_bytes(), ncclUint8, ranks_, native(stream)), "ncclAllGather");
  }
  void reduce_scatter(const View& x, const View& out, void* stream) override {
    check_views(x, out);
    check(nccl().reduce_scatter(x.data(), out.data(), count(out), sum_type(x.dtype()), ncclSum, ranks_, native(stream)),
          "ncclReduceScatter");
  }
  void all_to_all(const View& x, const View& out, void* stream) override {
    check_views(x, out);
    const size_t block = x.size_bytes() / static_cast<size_t>(size());
    check(nccl().group_start(), "ncclGroupStart");
    for (int64_t r = 0; r < size(); ++r) {
      size_t at = static_cast<size_t>(r) * block;
      check(nccl().send(static_cast<std::byte*>(x.data()) + at, block, ncclUint8, static_cast<int>(r), ranks_,
                        native(stream)),
            "ncclSend");
      check(nccl().receive(static_cast<std::byte*>(out.data()) + at, block, ncclUint8, static_cast<int>(r), ranks_,
                           native(stream)),
            "ncclRecv");
    }
    check(nccl().group_end(), "ncclGroupEnd");
  }
  void broadcast(const View& x, int64_t root, void* stream) override {
    check_views(x, x);
    check(
        nccl().broadcast(x.data(), x.data(), x.size_bytes(), ncclUint8, static_cast<int>(root), ranks_, native(stream)),
        "ncclBroadcast");
  }
  // Of the host: work on the device is in the order of its stream anyway.
  void barrier() override { host_.barrier(); }

 private:
  void check_views(const View& x, const View& out) const {
    FK_CHECK(x.contiguous() && out.contiguous() && x.device() == device_ && out.device() == device_ &&
             x.dtype() == out.dtype());
  }
  static size_t count(const View& view) { return static_cast<size_t>(view.numel()); }
  static cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

  Communicator& host_;
  Device device_;
  ncclComm_t ranks_ = nullptr;
};

[[maybe_unused]] const bool kRegistered = register_device_communicator(
    DeviceKind::kCuda, [](Communicator& host, Device device) -> std::unique_ptr<Communicator> {
      return std::make_unique<NcclCommunicator>(host, device);
    });

}  // namespace
}  // namespace fk::cuda
