// A prelude with which generated CUDA kernels run on the CPU: every thread of a block is a coroutine that runs until it
// waits for others. Threads run in ascending order and, in a second run, in descending order: a kernel that reads what
// another thread has not written yet, for want of a barrier, is wrong in one of them.
#pragma once

#include <string_view>

namespace fk {

inline constexpr std::string_view kEmulationPrelude = R"(#include <fastkernels/candidate.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(threads)

namespace {

struct Place {
  unsigned x;
};
Place threadIdx, blockIdx;

namespace emulated {

constexpr int kMost = 1024, kStack = 1 << 16, kKept = 64;
ucontext_t scheduler, contexts[kMost];
char* stacks;
bool done[kMost];
int threads, arrived, generation;
long shuffles[kMost];
int64_t values[kMost][kKept];  // the bits

void yield() {
  unsigned me = threadIdx.x;
  swapcontext(&contexts[me], &scheduler);
  threadIdx.x = me;
}

template <class Work>
void run_block(const Work& work, int count, bool descending) {
  static const Work* now;
  now = &work;
  threads = count, arrived = 0;
  if (stacks == nullptr) stacks = static_cast<char*>(malloc(size_t(kMost) * kStack));
  for (int t = 0; t < count; ++t) {
    done[t] = false, shuffles[t] = 0;
    getcontext(&contexts[t]);
    contexts[t].uc_stack.ss_sp = stacks + size_t(t) * kStack;
    contexts[t].uc_stack.ss_size = kStack;
    contexts[t].uc_link = &scheduler;
    makecontext(&contexts[t], +[] { unsigned me = threadIdx.x; (*now)(); done[me] = true; }, 0);
  }
  for (int left = count, rounds = 0; left > 0; ++rounds) {
    if (rounds > 100000) {
      fprintf(stderr, "threads wait for each other\n");
      abort();
    }
    for (int n = 0; n < count; ++n) {
      int t = descending ? count - 1 - n : n;
      if (done[t]) continue;
      threadIdx.x = unsigned(t);
      swapcontext(&scheduler, &contexts[t]);
      if (done[t]) --left;
    }
  }
}

}  // namespace emulated

inline void __syncthreads() {
  int mine = emulated::generation;
  if (++emulated::arrived == emulated::threads) {
    emulated::arrived = 0;
    ++emulated::generation;
  }
  while (emulated::generation == mine) emulated::yield();
}

template <class T>
T shuffled(unsigned mask, T x, int distance) {
  unsigned me = threadIdx.x, other = me ^ unsigned(distance);
  if ((mask >> me % 32 & 1) == 0 || (mask >> other % 32 & 1) == 0) {
    fprintf(stderr, "a thread outside of the mask takes part\n");
    abort();
  }
  long number = emulated::shuffles[me]++;
  memcpy(&emulated::values[me][number % emulated::kKept], &x, sizeof x);
  while (emulated::shuffles[other] <= number) emulated::yield();
  memcpy(&x, &emulated::values[other][number % emulated::kKept], sizeof x);
  return x;
}

inline void wait_for_previous() {}
inline void let_next_start() {}

template <int kBytes>
void copy_words(void* to, const void* from) {
  constexpr size_t kWord = kBytes < 16 ? kBytes : 16;
  if (reinterpret_cast<uintptr_t>(to) % kWord != 0 || reinterpret_cast<uintptr_t>(from) % kWord != 0) {
    fprintf(stderr, "a pack is not aligned\n");
    abort();
  }
  memcpy(to, from, kBytes);
}

inline void sincospif(float x, float* s, float* c) {
  *s = float(sin(3.14159265358979323846 * x));
  *c = float(cos(3.14159265358979323846 * x));
}

// `dependent`: in descending order.
template <class... P>
int launch(void (*kernel)(P...), int64_t blocks, int threads, int dependent, void*, P... args) {
  for (int64_t b = 0; b < blocks; ++b) {
    blockIdx.x = unsigned(b);
    emulated::run_block([&] { kernel(args...); }, threads, dependent != 0);
  }
  return 0;
}

}  // namespace
)";

}  // namespace fk
