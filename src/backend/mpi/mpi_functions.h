// What fastkernels-mpi.so offers: MPI on bytes. A library of its own, loaded only by ranks that mpirun started, so that
// the program runs where MPI is not installed and starts as fast as without it.
#pragma once

#include <cstddef>

extern "C" {

// Functions return 0, or MPI's error code.
struct FkMpiFunctions {
  int (*start)();  // once, before the others
  int (*rank)();
  int (*size)();
  // `out` has size() blocks of `bytes`, at most 2^31 - 1.
  int (*all_gather)(const void* x, size_t bytes, void* out);
  int (*all_to_all)(const void* x, size_t bytes, void* out);
  int (*broadcast)(void* x, size_t bytes, int root);
  int (*barrier)();
  int (*end)();  // waits for all ranks
};

// The one symbol of the library.
const FkMpiFunctions* fk_mpi_functions();
}
