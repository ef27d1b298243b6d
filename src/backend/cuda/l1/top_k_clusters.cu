// TopKPerRow on CUDA for few rows: eight blocks of a cluster share a row. As in top_k_per_row.cu the k-th largest key
// is found by 11 bits at a time. A block counts the digits of its own keys; one warp of each block adds up the counts
// of all blocks, first of groups of 32 digits and then of the digits of one group, which are few enough to be read from
// the other blocks' shared memory.
#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/device/cluster.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/latent_parts.h"
#include "backend/cuda/l1/select_keys.cuh"
#include "ops/l1/top_k_per_row.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kRowBlocks = 8;                     // of a row
constexpr int kDigits = 2048, kDigitGroups = 64;  // of 11 bits; a group has a digit for each lane
constexpr int kDigitRounds = 3;                   // of 11, 11 and 10 bits
constexpr int64_t kMostRows = 16;                 // more rows fill the device with a block for each
constexpr int64_t kMostHeld = 32;                 // keys of a thread
static_assert(kDigits == 32 * kDigitGroups && kDigitGroups == 2 * kSelectWarps);

__device__ __forceinline__ uint32_t shared_address_of(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
// From the shared memory of block `rank`, at the place that `address` has in this block.
__device__ __forceinline__ unsigned load_there(uint32_t address, int rank) {
  unsigned v = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.u32 %0, [%1];"
               : "=r"(v)
               : "r"(shared_of(address, static_cast<uint32_t>(rank)))
               : "memory");
#endif
  return v;
}
__device__ __forceinline__ uint2 load_pair_there(uint32_t address, int rank) {
  uint2 v{0, 0};
#if __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(shared_of(address, static_cast<uint32_t>(rank)))
               : "memory");
#endif
  return v;
}

struct RowDigits {
  unsigned of[kDigitRounds][kDigits];
  uint2 groups[kDigitRounds][kDigitGroups / 2];  // sums of 32 digits
};

struct ChosenDigit {
  unsigned digit, above;  // keys with larger digits
};

// The digit of the wanted-th largest key, counted over all blocks of the cluster. By the lanes of one warp; one of them
// writes the result.
__device__ __forceinline__ void choose_digit(const RowDigits& digits, int round, unsigned wanted, ChosenDigit& chosen) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Two groups for each lane, the largest first.
  const uint32_t pair = shared_address_of(&digits.groups[round][31 - lane]);
  unsigned of_low = 0, of_high = 0;
#pragma unroll
  for (int r = 0; r < kRowBlocks; ++r) {
    const uint2 there = load_pair_there(pair, r);
    of_low += there.x;
    of_high += there.y;
  }
  unsigned before = scan_warp(of_high + of_low) - (of_high + of_low);
  const bool here = before < wanted && wanted <= before + of_high + of_low, is_high = wanted <= before + of_high;
  const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, here))) - 1;
  const int group = __shfl_sync(kAllLanes, is_high ? 63 - 2 * lane : 62 - 2 * lane, owner);
  before = __shfl_sync(kAllLanes, is_high ? before : before + of_high, owner);

  const int digit = group * 32 + 31 - lane;
  const uint32_t place = shared_address_of(&digits.of[round][digit]);
  unsigned count = 0;
#pragma unroll
  for (int r = 0; r < kRowBlocks; ++r) count += load_there(place, r);
  before += scan_warp(count) - count;
  if (before < wanted && wanted <= before + count) chosen = {static_cast<unsigned>(digit), before};
}

// The blocks of a cluster have equal shares of the keys, a thread a run of neighbours.
template <int kHeld>
__global__ void __launch_bounds__(kSelectThreads) select_by_clusters(const __grid_constant__ SelectCall c) {
  __shared__ RowDigits digits;
  __shared__ ChosenDigit chosen;
  __shared__ unsigned totals[kSelectWarps];
  __shared__ unsigned taken;  // of this block: larger keys in the upper half, equal ones in the lower
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, rank = static_cast<int>(blockIdx.x);
  for (int i = tid; i < kDigitRounds * kDigits; i += kSelectThreads) (&digits.of[0][0])[i] = 0;
  let_next_start();
  wait_for_previous();
  const int64_t t = blockIdx.y;
  const int n = c.keys(t);
  int32_t* to = c.indices + t * c.index_stride;
  if (n <= c.k) {  // in all blocks of the cluster
    for (int i = rank * kSelectThreads + tid; i < c.k; i += kRowBlocks * kSelectThreads) to[i] = i < n ? i : -1;
    return;
  }

  auto in_fours = [](int items, int parts) { return (items + 4 * parts - 1) / (4 * parts) * 4; };
  const int share = in_fours(n, kRowBlocks), each = in_fours(share, kSelectThreads);
  const int first = rank * share + tid * each, count = min(each, min(n, (rank + 1) * share) - first);
  const float* x = c.logits + t * c.logit_stride;
  const bool aligned = reinterpret_cast<uintptr_t>(x) % 16 == 0;
  x += first;
  uint32_t keys[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; i += 4) {
    float4 four{0, 0, 0, 0};
    if (aligned && i + 3 < count) {
      four = *reinterpret_cast<const float4*>(x + i);
    } else {
      if (i < count) four.x = x[i];
      if (i + 1 < count) four.y = x[i + 1];
      if (i + 2 < count) four.z = x[i + 2];
      if (i + 3 < count) four.w = x[i + 3];
    }
    keys[i] = select_key(four.x);
    keys[i + 1] = select_key(four.y);
    keys[i + 2] = select_key(four.z);
    keys[i + 3] = select_key(four.w);
  }
  __syncthreads();

  // Of the keys that begin with `prefix`, the wanted-th largest is looked for.
  uint32_t prefix = 0, mask = 0;
  auto wanted = static_cast<unsigned>(c.k);
#pragma unroll
  for (int round = 0; round < kDigitRounds; ++round) {
    const int shift = round == 0 ? 21 : round == 1 ? 10 : 0;
    const uint32_t all_digits = round == 2 ? 1023 : 2047;
    // Many keys have the same first digits, so that lanes would wait for each other: they count them in three places,
    // of which two are those of the later rounds.
    unsigned* counts = digits.of[round == 0 ? lane % kDigitRounds : round];
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (i < count && (keys[i] & mask) == prefix) atomicAdd(&counts[keys[i] >> shift & all_digits], 1u);
    __syncthreads();
    unsigned of_groups[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int digit = (2 * warp + half) * 32 + lane;
      unsigned all = digits.of[round][digit];
      if (round == 0) {
        all += digits.of[1][digit] + digits.of[2][digit];
        digits.of[0][digit] = all;
        digits.of[1][digit] = digits.of[2][digit] = 0;
      }
      of_groups[half] = __reduce_add_sync(kAllLanes, all);
    }
    if (lane == 0) digits.groups[round][warp] = {of_groups[0], of_groups[1]};
    arrive_at_cluster();
    wait_for_cluster();
    if (warp == 0) choose_digit(digits, round, wanted, chosen);
    __syncthreads();
    prefix |= chosen.digit << shift;
    mask |= all_digits << shift;
    wanted -= chosen.above;
  }

  // `wanted` of the keys equal to `prefix` are taken, and all larger ones.
  unsigned mine = 0;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    mine += i < count && keys[i] > prefix ? 1u << 16 : 0;
    mine += i < count && keys[i] == prefix ? 1 : 0;
  }
  const unsigned before = sum_before(mine, totals);
  if (tid == kSelectThreads - 1) taken = before + mine;
  arrive_at_cluster();
  wait_for_cluster();
  const unsigned there = lane < rank ? load_there(shared_address_of(&taken), lane) : 0;
  arrive_at_cluster();  // nothing of other blocks is read after this
  unsigned larger = __reduce_add_sync(kAllLanes, there >> 16) + (before >> 16);
  unsigned equal = __reduce_add_sync(kAllLanes, there & 0xffff) + (before & 0xffff);
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (i >= count || keys[i] < prefix) continue;
    const bool is_equal = keys[i] == prefix;
    if (!is_equal || equal < wanted) to[larger + min(equal, wanted)] = first + i;
    larger += is_equal ? 0 : 1;
    equal += is_equal ? 1 : 0;
  }
  __syncwarp();
  wait_for_cluster();  // no block may exit while another reads its memory
}
// Larger and equal keys of a block are counted in 16 bits each.
static_assert(kMostHeld * kSelectThreads < 1 << 16);

class TopKPerRowClusters final : public TopKPerRow {
 public:
  using TopKPerRow::TopKPerRow;

  std::string_view refuse(Args args) const override {
    if (!has_hopper_launches()) return "it needs clusters of blocks";
    if (args[0]->size(0) > kMostRows) return "many rows have a block each in another kernel";
    if (args[0]->size(1) * args[0]->size(2) > kMostHeld * kRowBlocks * kSelectThreads)
      return "the keys of a row do not fit into registers";
    return refuse_call(args);
  }

  void forward(Context& ctx, View logits, View positions, View indices) override {
    if (init_.top_k == 0) return;
    const SelectCall call = select_call(logits, positions, indices, init_.top_k);
    constexpr int kKeys = kRowBlocks * kSelectThreads;
    auto* kernel = call.row <= 4 * kKeys    ? select_by_clusters<4>
                   : call.row <= 8 * kKeys  ? select_by_clusters<8>
                   : call.row <= 16 * kKeys ? select_by_clusters<16>
                                            : select_by_clusters<kMostHeld>;
    launch("top_k_per_row", kernel,
           LaunchShape{.grid = dim3(kRowBlocks, static_cast<unsigned>(logits.size(0))),
                       .block = kSelectThreads,
                       .cluster = kRowBlocks},
           ctx.stream, call);
  }
};

FK_IMPLEMENTATION(TopKPerRow, TopKPerRowClusters, "cuda.cluster_per_row", DeviceKind::kCuda, 100, nullptr);

}  // namespace

bool top_k_by_clusters(Context& ctx, const TopKPerRow::Init& init, const View& logits, const View& positions,
                       const View& indices) {
  const OptView args[] = {logits, positions, indices};
  TopKPerRowClusters clusters(init);
  if (!clusters.refuse(args).empty()) return false;
  clusters.forward(ctx, logits, positions, indices);
  return true;
}

}  // namespace fk::cuda
