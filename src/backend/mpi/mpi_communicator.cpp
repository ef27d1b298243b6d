// The communicator of ranks that mpirun has started, on one machine or several.
#include <dlfcn.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <limits>

#include "backend/mpi/mpi_functions.h"
#include "core/error.h"
#include "core/host_communicator.h"

namespace fk {
namespace {

int64_t number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoll(text);
}

// By Open MPI's mpirun, by launchers of MPICH, or by Slurm's srun.
int64_t started_ranks() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (int64_t ranks = number_in(variable); ranks > 0) return ranks;
  return std::getenv("PMIX_RANK") != nullptr ? number_in("SLURM_NTASKS") : 0;
}

int64_t ranks_of_this_machine() {
  for (const char* variable : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    if (int64_t ranks = number_in(variable); ranks > 0) return ranks;
  return 1;
}

constexpr const char* kLibrary = "fastkernels-mpi.so";

// Beside the program, as in a build folder, or where `make install` puts it.
const FkMpiFunctions& load_library() {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::path folder = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const fs::path& path : {folder / kLibrary, folder.parent_path() / "lib" / "fastkernels" / kLibrary}) {
    if (!fs::exists(path, failed)) continue;
    // MPI loads modules of its own, which look for its symbols.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
      throw Error("{} cannot be loaded ({}); install MPI on this machine.", path.string(), dlerror());
    auto* functions = reinterpret_cast<const FkMpiFunctions* (*)()>(dlsym(library, "fk_mpi_functions"));
    if (functions == nullptr) throw Error("{} is not a part of this program; build it again.", path.string());
    return *functions();
  }
  throw Error(
      "This build has no MPI, so it cannot join the ranks that mpirun started; install libopenmpi-dev and build again, "
      "or leave mpirun out: --tp starts the ranks of one machine itself.");
}

class MpiCommunicator final : public HostCommunicator {
 public:
  MpiCommunicator() : mpi_(load_library()) {
    check(mpi_.start(), "start");
    rank_ = mpi_.rank();
    size_ = mpi_.size();
  }
  // After an error the other ranks do not come to the end; mpirun ends them.
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() == 0) mpi_.end();
  }

  std::string_view name() const override { return "MPI"; }
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  void barrier() override { check(mpi_.barrier(), "barrier"); }

 protected:
  void gather_bytes(const std::byte* x, size_t bytes, std::byte* out) override {
    check(mpi_.all_gather(x, counted(bytes), out), "all-gather");
  }
  void exchange_bytes(const std::byte* x, size_t bytes, std::byte* out) override {
    check(mpi_.all_to_all(x, counted(bytes), out), "all-to-all");
  }
  void broadcast_bytes(std::byte* x, size_t bytes, int64_t root) override {
    check(mpi_.broadcast(x, counted(bytes), static_cast<int>(root)), "broadcast");
  }

 private:
  static size_t counted(size_t bytes) {
    if (bytes > static_cast<size_t>(std::numeric_limits<int>::max()))
      throw Error("A message of {} bytes is too long for MPI; use shorter prompts.", bytes);
    return bytes;
  }
  static void check(int failed, const char* what) {
    if (failed != 0) throw Error("MPI failed (error {} in {}); mpirun's messages say why.", failed, what);
  }

  const FkMpiFunctions& mpi_;
  int64_t rank_ = 0, size_ = 1;
};

[[maybe_unused]] const bool kRegistered = register_launcher(
    {.started = started_ranks, .on_this_machine = ranks_of_this_machine, .join = []() -> std::unique_ptr<Communicator> {
       return std::make_unique<MpiCommunicator>();
     }});

}  // namespace
}  // namespace fk
