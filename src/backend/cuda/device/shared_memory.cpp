// Device memory that two processes map: made and exported through the driver's virtual memory functions, which are
// looked up at run time so that the program starts on machines without a driver.
#include <cuda.h>
#include <unistd.h>

#include "backend/cuda/device/judging.h"
#include "backend/cuda/device/status.h"

namespace fk::cuda {
namespace {

template <class Function>
Function* driver_function(const char* name) {
  constexpr unsigned kVersion = 12000;
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &found),
        "Looking for a function of the driver");
  if (address == nullptr || found != cudaDriverEntryPointSuccess)
    throw Error("The NVIDIA driver has no {}; install a newer one.", name);
  return reinterpret_cast<Function*>(address);
}

#define FK_DRIVER(name) (*driver_function<decltype(name)>(#name))

void check_driver(CUresult status, std::string_view what) {
  if (status == CUDA_SUCCESS) return;
  const char* words = nullptr;
  FK_DRIVER(cuGetErrorString)(status, &words);
  throw Error("{} failed on the GPU: {}.", what, words == nullptr ? "unknown error" : words);
}

CUmemAllocationProp properties_for(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

class Memory final : public SharedDeviceMemory {
 public:
  // With `fd`: opens its memory. Without: allocates memory and exports a descriptor.
  Memory(int device, int fd, size_t size_bytes) {
    CUmemAllocationProp properties = properties_for(device);
    size_t granularity = 0;
    check_driver(FK_DRIVER(cuMemGetAllocationGranularity)(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "Asking how memory is shared");
    size_bytes_ = (size_bytes + granularity - 1) / granularity * granularity;
    if (fd < 0) {
      CUresult status = FK_DRIVER(cuMemCreate)(&handle_, size_bytes_, &properties, 0);
      if (status == CUDA_ERROR_OUT_OF_MEMORY)
        throw Error("The GPU has no {:.2f} GiB of memory left for the tensors of a call; use a smaller scenario.",
                    static_cast<double>(size_bytes_) / 0x1p30);
      check_driver(status, "Making shared memory");
    } else {
      CUresult status = FK_DRIVER(cuMemImportFromShareableHandle)(&handle_, reinterpret_cast<void*>(intptr_t{fd}),
                                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
      close(fd);
      check_driver(status, "Opening shared memory");
    }
    try {
      map(device);
      if (fd < 0)
        check_driver(
            FK_DRIVER(cuMemExportToShareableHandle)(&fd_, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            "Exporting shared memory");
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Memory() override { give_back(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* address() const override { return reinterpret_cast<void*>(address_); }
  size_t size_bytes() const override { return size_bytes_; }
  int fd() const override { return fd_; }

 private:
  void map(int device) {
    check_driver(FK_DRIVER(cuMemAddressReserve)(&address_, size_bytes_, 0, 0, 0), "Reserving addresses");
    check_driver(FK_DRIVER(cuMemMap)(address_, size_bytes_, 0, handle_, 0), "Mapping shared memory");
    mapped_ = true;
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check_driver(FK_DRIVER(cuMemSetAccess)(address_, size_bytes_, &access, 1), "Mapping shared memory");
  }

  // Work that still uses the memory would fault otherwise. Errors are ignored.
  void give_back() noexcept {
    try {
      cudaDeviceSynchronize();
      if (mapped_) FK_DRIVER(cuMemUnmap)(address_, size_bytes_);
      if (address_ != 0) FK_DRIVER(cuMemAddressFree)(address_, size_bytes_);
      if (handle_ != 0) FK_DRIVER(cuMemRelease)(handle_);
    } catch (const std::exception&) {
    }
    if (fd_ >= 0) close(fd_);
  }

  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  size_t size_bytes_ = 0;
  bool mapped_ = false;
  int fd_ = -1;
};

}  // namespace

std::unique_ptr<SharedDeviceMemory> make_shared_memory(int device, size_t size_bytes) {
  return std::make_unique<Memory>(device, -1, size_bytes);
}

std::unique_ptr<SharedDeviceMemory> open_shared_memory(int device, int fd, size_t size_bytes) {
  return std::make_unique<Memory>(device, fd, size_bytes);
}

}  // namespace fk::cuda
