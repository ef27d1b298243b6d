// fastkernels-mpi.so: the functions of mpi_functions.h by the MPI library it was compiled with.
#include "backend/mpi/mpi_functions.h"

#include <mpi.h>

namespace {

int start() {
  int provided = 0;
  int failed = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (failed == MPI_SUCCESS) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  return failed;
}

int rank() {
  int value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &value);
  return value;
}

int size() {
  int value = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &value);
  return value;
}

int all_gather(const void* x, size_t bytes, void* out) {
  int count = static_cast<int>(bytes);
  return MPI_Allgather(x, count, MPI_BYTE, out, count, MPI_BYTE, MPI_COMM_WORLD);
}

int all_to_all(const void* x, size_t bytes, void* out) {
  int count = static_cast<int>(bytes);
  return MPI_Alltoall(x, count, MPI_BYTE, out, count, MPI_BYTE, MPI_COMM_WORLD);
}

int broadcast(void* x, size_t bytes, int root) {
  return MPI_Bcast(x, static_cast<int>(bytes), MPI_BYTE, root, MPI_COMM_WORLD);
}

int barrier() { return MPI_Barrier(MPI_COMM_WORLD); }

int end() { return MPI_Finalize(); }

constexpr FkMpiFunctions kFunctions{start, rank, size, all_gather, all_to_all, broadcast, barrier, end};

}  // namespace

const FkMpiFunctions* fk_mpi_functions() { return &kFunctions; }
