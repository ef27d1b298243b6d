#include "bench/profile/kernel_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace fk {
namespace {

constexpr double kBusy = 60;      // % of a unit's peak: it is what limits
constexpr double kVeryBusy = 80;  // ... and there is little left to gain

std::optional<double> percent(const ProfiledKernel& k, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    if (std::optional<double> v = k.metric(name)) return v;
  return std::nullopt;
}

struct Numbers {
  std::optional<double> dram, l2, compute, tensor, occupancy, possible, hit_rate, used_of_sector, conflicts, spilled;

  explicit Numbers(const ProfiledKernel& k)
      : dram(percent(k, {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                         "dram__throughput.avg.pct_of_peak_sustained_elapsed"})),
        l2(percent(k, {"lts__throughput.avg.pct_of_peak_sustained_elapsed",
                       "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"})),
        compute(percent(k, {"sm__throughput.avg.pct_of_peak_sustained_elapsed"})),
        tensor(percent(k, {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"})),
        occupancy(percent(k, {"sm__warps_active.avg.pct_of_peak_sustained_active"})),
        possible(percent(k, {"sm__maximum_warps_per_active_cycle_pct"})),
        hit_rate(percent(k, {"lts__t_sector_hit_rate.pct"})) {
    if (!tensor) tensor = k.largest({"pipe_tensor", ".avg.pct_of_peak_sustained"});
    // Of the 32 bytes of every fetched sector.
    used_of_sector = k.metric("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct");
    if (!used_of_sector)
      if (auto bytes = k.metric("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"))
        used_of_sector = 100 * *bytes / 32;
    auto conflict_waves = k.metric("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
         waves = k.metric("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum");
    if (conflict_waves && waves && *waves > 0) conflicts = 100 * *conflict_waves / *waves;
    // Older versions do not distinguish spilled registers from other local variables.
    spilled = k.metric("sass__inst_executed_register_spilling");
    if (!spilled)
      for (const char* access :
           {"smsp__sass_inst_executed_op_local_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum"})
        if (auto v = k.metric(access)) spilled = std::max(*v, spilled.value_or(0));
  }
};

std::string text_of(const std::optional<double>& v) { return v ? fmt::format("{:.0f} %", *v) : "-"; }

// Which resource limits the number of blocks on a multiprocessor.
std::string occupancy_limiter(const ProfiledKernel& k) {
  const std::pair<std::string_view, std::string_view> kLimits[] = {
      {"launch__occupancy_limit_registers", "registers"},
      {"launch__occupancy_limit_shared_mem", "shared memory"},
      {"launch__occupancy_limit_warps", "the size of its blocks"},
      {"launch__occupancy_limit_blocks", "the number of blocks a multiprocessor takes"}};
  std::string limiter;
  double least = 1e30;
  for (const auto& [metric, words] : kLimits)
    if (auto v = k.metric(metric); v && *v < least) {
      least = *v;
      limiter = words;
    }
  return limiter;
}

// The most frequent stall reason, with the average number of stalled warps.
std::pair<std::string, double> main_stall(const ProfiledKernel& k) {
  constexpr std::string_view kBefore = "smsp__average_warps_issue_stalled_", kAfter = "_per_issue_active.ratio";
  std::pair<std::string, double> most{"", 0};
  for (const auto& [name, value] : k.metrics) {
    if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) continue;
    std::string reason = name.substr(kBefore.size(), name.size() - kBefore.size() - kAfter.size());
    if (reason == "selected" || value <= most.second) continue;
    most = {reason, value};
  }
  return most;
}

std::string stall_words(std::string_view reason) {
  const std::pair<std::string_view, std::string_view> kWords[] = {
      {"long_scoreboard", "loads from memory: have more of them in flight, or read less"},
      {"short_scoreboard", "shared memory or special functions: fewer round trips, fewer exponentials"},
      {"barrier", "__syncthreads: smaller blocks, or fewer barriers"},
      {"membar", "memory fences: fewer of them"},
      {"mio_throttle", "the queue of shared memory: fewer, wider accesses"},
      {"lg_throttle", "the queue of memory: wider loads and stores"},
      {"math_pipe_throttle", "arithmetic units that are busy: a good sign near the roof"},
      {"wait", "the fixed latency of instructions: more independent work per thread"},
      {"not_selected", "their turn: enough warps are ready"},
      {"no_instruction", "instructions to be fetched: a smaller, straighter kernel"},
      {"drain", "stores to leave: fewer or wider stores at the end"},
      {"imc_miss", "constants: pass fewer parameters by address"}};
  for (const auto& [key, words] : kWords)
    if (reason == key) return std::string(words);
  return std::string(reason);
}

}  // namespace

std::string short_name(const ProfiledKernel& k) {
  // Template arguments and parameters begin behind a letter; "<unnamed>" and "(anonymous namespace)" do not.
  size_t end = 0;
  do end = k.name.find_first_of("<(", end + 1);
  while (end != std::string::npos && std::isalnum(static_cast<unsigned char>(k.name[end - 1])) == 0 &&
         k.name[end - 1] != '_');
  std::string name = k.name.substr(0, end);
  return name.substr(name.find_last_of(": ") + 1);
}

std::vector<KernelNumber> kernel_numbers(const ProfiledKernel& k) {
  Numbers n(k);
  auto count = [&](std::string_view name) {
    auto v = k.metric(name);
    return v ? fmt::format("{:.0f}", *v) : "-";
  };
  return {{"time", fmt::format("{:.2f} us", k.seconds() * 1e6)},
          {"DRAM", text_of(n.dram)},
          {"L2", text_of(n.l2)},
          {"L2 hits", text_of(n.hit_rate)},
          {"arithmetic", text_of(n.compute)},
          {"tensor pipe", text_of(n.tensor)},
          {"occupancy", text_of(n.occupancy)},
          {"used of loads", text_of(n.used_of_sector)},
          {"registers", count("launch__registers_per_thread")},
          {"blocks", count("launch__grid_size")},
          {"threads", count("launch__block_size")}};
}

std::vector<std::string> describe_kernel(const ProfiledKernel& k) {
  Numbers n(k);
  std::vector<std::string> lines;
  double waves = k.metric("launch__waves_per_multiprocessor").value_or(0);
  bool memory_bound = n.dram && *n.dram >= kBusy && (!n.compute || *n.dram >= *n.compute);
  if (n.dram && *n.dram >= kVeryBusy)
    lines.push_back(
        fmt::format("Memory limits it: DRAM runs at {:.0f} % of its peak. Only moving less data helps.", *n.dram));
  else if (memory_bound)
    lines.push_back(fmt::format(
        "Memory is its busiest unit, with DRAM at {:.0f} % of its peak: some time is lost waiting.", *n.dram));
  else if (n.l2 && *n.l2 >= kBusy)
    lines.push_back(fmt::format(
        "The L2 cache limits it, at {:.0f} % of its peak: keep more in registers or shared memory.", *n.l2));
  else if (n.tensor && *n.tensor >= kBusy)
    lines.push_back(fmt::format("The tensor cores limit it: their pipe is {:.0f} % busy.", *n.tensor));
  else if (n.compute && *n.compute >= kBusy)
    lines.push_back(
        fmt::format("Arithmetic limits it: the multiprocessors run at {:.0f} % of their peak.", *n.compute));
  else if (n.dram || n.compute)
    lines.push_back(fmt::format("Nothing is busy (DRAM {}, L2 {}, arithmetic {}): latency limits it.", text_of(n.dram),
                                text_of(n.l2), text_of(n.compute)));
  if (waves > 0 && waves < 1)
    lines.push_back(
        fmt::format("Its blocks fill {:.0f} % of the GPU once: share the work out over more of them.", 100 * waves));
  if (n.occupancy && *n.occupancy < 50 && !(n.dram && *n.dram >= kVeryBusy)) {
    // If all warps fit, only the number of blocks limits them.
    std::string limiter = n.possible && *n.possible > 95 ? "" : occupancy_limiter(k);
    lines.push_back(fmt::format("{:.0f} % of the warps a multiprocessor can hold are there{}{}.", *n.occupancy,
                                n.possible ? fmt::format(" ({:.0f} % could be)", *n.possible) : "",
                                limiter.empty() ? "" : ", limited by " + limiter));
  }
  if (auto [reason, warps] = main_stall(k); warps > 1)
    lines.push_back(fmt::format("Its warps wait most for {}.", stall_words(reason)));
  if (n.used_of_sector && *n.used_of_sector < 75)
    lines.push_back(
        fmt::format("Of the bytes its loads fetch it uses {:.0f} %: neighbouring threads should read neighbours.",
                    *n.used_of_sector));
  if (n.conflicts && *n.conflicts > 10)
    lines.push_back(
        fmt::format("{:.0f} % of its shared memory accesses wait for a bank: pad or swizzle the tile.", *n.conflicts));
  if (n.spilled && *n.spilled > 0)
    lines.emplace_back(
        "It keeps variables in memory for lack of registers (spills): smaller tiles, or fewer threads a block.");
  return lines;
}

}  // namespace fk
