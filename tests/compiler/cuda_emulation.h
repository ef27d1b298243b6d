// A prelude with which generated CUDA kernels run on the CPU: every thread of a block is a coroutine that runs until it
// waits for others. Threads run in ascending order and, in a second run, in descending order: a kernel that reads what
// another thread has not written yet, for want of a barrier, is wrong in one of them.
//
// The kernels are compiled without optimization: most of the time of these tests is the compiler's. What emulates the
// threads is optimized.
#pragma once

#include <string_view>

namespace fk {

inline constexpr std::string_view kEmulationPrelude = R"(#undef _FORTIFY_SOURCE  // its longjmp refuses other stacks
#pragma GCC push_options
#pragma GCC optimize("O1")
#include <fastkernels/candidate.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __device__
#define __global__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define FK_ROW_MEMORY(name) static uint4 name[1 << 13]

namespace {

struct Place {
  unsigned x;
};
Place threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

namespace emulated {

constexpr int kMost = 1024, kStack = 1 << 16, kKept = 64;
ucontext_t contexts[kMost];      // where threads begin
jmp_buf scheduler, places[kMost];  // where they go on; swapcontext() would ask the kernel each time
char* stacks;
bool started[kMost], done[kMost];
int threads, arrived, generation;
long shuffles[kMost];
int64_t values[kMost][kKept];  // the bits
long tiles[kMost];             // that a thread has multiplied
float operands[kMost][2][6][2];

void yield() {
  unsigned me = threadIdx.x;
  if (_setjmp(places[me]) == 0) _longjmp(scheduler, 1);
  threadIdx.x = me;
}

// Runs a thread until it waits or ends.
__attribute__((noinline)) void resume(int t) {
  if (_setjmp(scheduler) != 0) return;
  if (started[t]) _longjmp(places[t], 1);
  started[t] = true;
  setcontext(&contexts[t]);
}

template <class Work>
void run_block(const Work& work, int count, bool descending) {
  static const Work* now;
  now = &work;
  threads = count, arrived = 0;
  if (stacks == nullptr) stacks = static_cast<char*>(malloc(size_t(kMost) * kStack));
  for (int t = 0; t < count; ++t) {
    started[t] = done[t] = false, shuffles[t] = 0, tiles[t] = 0;
    getcontext(&contexts[t]);
    contexts[t].uc_stack.ss_sp = stacks + size_t(t) * kStack;
    contexts[t].uc_stack.ss_size = kStack;
    contexts[t].uc_link = nullptr;
    makecontext(&contexts[t], +[] { unsigned me = threadIdx.x; (*now)(); done[me] = true; _longjmp(scheduler, 1); }, 0);
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
      resume(t);
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

// Waits for all threads of the warp, so that none is more than one ahead.
template <class T>
T of_lane(T x, int lane) {
  unsigned me = threadIdx.x, first = me / 32 * 32;
  long number = emulated::shuffles[me]++;
  memcpy(&emulated::values[me][number % emulated::kKept], &x, sizeof x);
  for (unsigned other = first; other < first + 32; ++other)
    while (emulated::shuffles[other] <= number) emulated::yield();
  memcpy(&x, &emulated::values[first + unsigned(lane)][number % emulated::kKept], sizeof x);
  return x;
}

// A shuffle with every distance has waited for all threads of the warp.
inline void __syncwarp() {
  for (int distance = 16; distance > 0; distance /= 2) shuffled(0xffffffffu, 0, distance);
}

// What the tensor cores' instruction m16n8k16 does: a thread has pairs of a in rows group and group + 8, and of b in
// column group, at k = 2 quad and 2 quad + 8.
template <class T>
void multiply_tile(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  const unsigned me = threadIdx.x, first = me / 32 * 32, lane = me % 32;
  const long number = emulated::tiles[me];
  const uint32_t mine[6] = {a0, a1, a2, a3, b0, b1};
  for (int which = 0; which < 6; ++which) {
    T halves[2];
    memcpy(halves, &mine[which], sizeof halves);
    for (int part = 0; part < 2; ++part) emulated::operands[me][number % 2][which][part] = float(halves[part]);
  }
  ++emulated::tiles[me];
  for (unsigned other = first; other < first + 32; ++other)
    while (emulated::tiles[other] <= number) emulated::yield();
  for (int i = 0; i < 4; ++i) {
    const unsigned row = lane / 4, column = lane % 4 * 2 + unsigned(i % 2);
    for (unsigned quad = 0; quad < 4; ++quad) {
      const auto& a = emulated::operands[first + row * 4 + quad][number % 2];
      const auto& b = emulated::operands[first + column * 4 + quad][number % 2];
      for (int pair = 0; pair < 2; ++pair)
        for (int part = 0; part < 2; ++part) sum[i] += a[2 * pair + i / 2][part] * b[4 + pair][part];
    }
  }
  // No one is more than one tile ahead: there are two places.
}

inline uint64_t passing_through() { return 0; }
inline uint4 load_once(const void* address, uint64_t) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    fprintf(stderr, "weights are not aligned\n");
    abort();
  }
  uint4 v;
  memcpy(&v, address, sizeof v);
  return v;
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
  blockDim.x = unsigned(threads);
  gridDim.x = unsigned(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    blockIdx.x = unsigned(b);
    emulated::run_block([&] { kernel(args...); }, threads, dependent != 0);
  }
  return 0;
}

// A device that runs three blocks at once.
template <class... P>
int launch_products(void (*kernel)(int, int, P...), int tiles, bool spread, int threads, int row_bytes, int most,
                    int64_t rows, int dependent, void* stream, P... args) {
  if (rows > most || row_bytes * rows > (1 << 17)) return 1;
  const int of_block = spread ? (tiles + 2) / 3 : 1;
  return launch<int, int, P...>(kernel, (tiles + of_block - 1) / of_block, threads, dependent, stream, int(rows),
                                of_block, args...);
}

}  // namespace
#pragma GCC pop_options
)";

}  // namespace fk
