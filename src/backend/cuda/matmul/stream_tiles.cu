// Up to 16 rows times a large matrix: the weights go through a ring buffer in shared memory to tensor cores
// (tile_block.cuh). Here: how a product is split, and the launch.
#include "backend/cuda/matmul/stream_tiles.h"

#include <algorithm>
#include <map>

#include "backend/cuda/matmul/tile_block.cuh"
#include "core/check.h"

namespace fk::cuda {
namespace {

using namespace tiles;

template <class T, class Out, StreamEpilogue kEpilogue>
__global__ void __launch_bounds__(kThreads)
    multiply_tiles(const __grid_constant__ StreamPointers<T> p, const __grid_constant__ StreamSizes s,
                   const __grid_constant__ TilePlan plan) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte tiles_shared[];
  const auto start = static_cast<uint32_t>(__cvta_generic_to_shared(tiles_shared));
  const TileBlock<T, Out, kEpilogue> block(p, s, plan, (start + kPatternBytes - 1) / kPatternBytes * kPatternBytes);
  if (threadIdx.x == 0) block.start_barriers();
  __syncthreads();
  arrive_at_cluster();
  let_next_start();
  if (threadIdx.x < kWarpgroup) {
    block.multiply();
  } else {
    block.fetch();
    wait_for_cluster();
  }
#endif
}

// The number of clusters of each size that run at once if a block fills a multiprocessor: the blocks of a cluster must
// be in one GPC, so some multiprocessors stay unused.
template <class T, class Out, StreamEpilogue kEpilogue>
int clusters_at_once(int size) {
  static const std::map<int, int> known = [] {
    auto* kernel = multiply_tiles<T, Out, kEpilogue>;
    allow_shared_memory("multiply_tiles", kernel, shared_memory_of_block());
    std::map<int, int> counts;
    for (int blocks = 2; blocks <= kMostCluster; blocks *= 2) {
      cudaLaunchAttribute attribute{};
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = static_cast<unsigned>(blocks);
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = dim3(static_cast<unsigned>(blocks));
      config.blockDim = dim3(kThreads);
      config.dynamicSmemBytes = shared_memory_of_block();
      config.attrs = &attribute;
      config.numAttrs = 1;
      check(cudaOccupancyMaxActiveClusters(&counts[blocks], kernel, &config), "Counting clusters");
    }
    return counts;
  }();
  return known.at(size);
}

// The split with the least work per block.
template <class T, class Out, StreamEpilogue kEpilogue>
TilePlan plan_tiles(const StreamSizes& s) {
  auto up_to = [](int n, int multiple) { return (n + multiple - 1) / multiple * multiple; };
  TilePlan best;
  for (int cluster = 2; cluster <= kMostCluster; cluster *= 2) {
    TilePlan plan{.cluster = cluster, .clusters = clusters_at_once<T, Out, kEpilogue>(cluster)};
    plan.panels = up_to(s.length, kPanel) / kPanel;
    plan.slice = up_to((plan.panels + cluster - 1) / cluster, kStagePanels);
    while (plan.stages < kMostStages && Places::bytes(plan.slice, plan.stages + 1) <= shared_memory_of_block())
      ++plan.stages;
    if (plan.panels < cluster || plan.stages < kFewestStages || plan.clusters == 0) continue;
    const int each = (s.features + plan.clusters - 1) / plan.clusters, most = most_features(kEpilogue);
    plan.rounds = (each + most - 1) / most;
    plan.features = up_to((each + plan.rounds - 1) / plan.rounds, cluster);
    plan.clusters = std::min(plan.clusters, (s.features + plan.features - 1) / plan.features);
    if (best.cluster == 0 || plan.cost() < best.cost()) best = plan;
  }
  return best;
}

}  // namespace

std::string_view stream_tiles_refusal(const MatmulProblem& p, const MatmulOperands& o, StreamEpilogue epilogue) {
  if (p.rows > kMostTiledRows) return "it takes at most 16 rows";
  if (std::string_view why = wgmma_unavailable(); !why.empty()) return why;
  if (std::string_view why = stream_refusal(p, o, epilogue); !why.empty()) return why;
  if (p.in_features <= kPanel) return "rows are too short to be shared";
  const int64_t panels = (p.in_features + kPanel - 1) / kPanel, slice = (panels + kMostCluster - 1) / kMostCluster;
  const int64_t x_bytes = (slice + kStagePanels) * kXPanelBytes;  // that stay in shared memory
  if (x_bytes + static_cast<int64_t>(Places::bytes(0, kFewestStages)) > static_cast<int64_t>(shared_memory_of_block()))
    return "rows are too long";
  return {};
}

void stream_tiles(const MatmulProblem& problem, const MatmulOperands& operands, StreamEpilogue epilogue, void* stream) {
  FK_CHECK(problem.rows <= kMostTiledRows && (epilogue == StreamEpilogue::kPlain || problem.out_features % 2 == 0));
  if (problem.rows == 0 || problem.out_features == 0) return;
  with_stream_types(problem, epilogue, [&]<class T, class Out, StreamEpilogue kEpilogue>() {
    const StreamSizes sizes = stream_sizes(problem, kEpilogue);
    const TilePlan plan = plan_tiles<T, Out, kEpilogue>(sizes);
    FK_CHECK(plan.cluster > 0);
    launch("multiply_tiles", multiply_tiles<T, Out, kEpilogue>,
           LaunchShape{.grid = static_cast<unsigned>(plan.clusters * plan.cluster),
                       .block = kThreads,
                       .shared_bytes = Places::bytes(plan.slice, plan.stages),
                       .cluster = static_cast<unsigned>(plan.cluster)},
           stream, stream_pointers<T>(problem, operands), sizes, plan);
  });
}

}  // namespace fk::cuda
