#include "tests/attack/mutation.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "validate/reference.h"

namespace fk::attack {
namespace {

namespace fs = std::filesystem;

Target target(std::string_view op, DType dtype, Workload workload, std::vector<std::pair<std::string, int64_t>> sizes,
              std::string class_name) {
  Target t;
  t.name = fmt::format("{} {}", op, dtype_name(dtype));
  t.class_name = std::move(class_name);
  t.scenario.op = std::string(op);
  t.scenario.name = "self-attack";
  Fields init = Registry::instance().at(op).default_init();
  for (const auto& [name, size] : sizes)
    for (Field& f : init)
      if (f.name == name) f.value = size;
  t.scenario.init = with_dtype(init, dtype);
  t.scenario.workload = std::move(workload);
  t.scenario.workload.dtype = dtype;
  return t;
}

std::string part(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw Error("The part {} is missing; run this from a source tree.", path.string());
  std::string text, line;
  while (std::getline(in, line)) {
    constexpr std::string_view kInclude = "%include ";
    if (line.starts_with(kInclude) && line.ends_with('%'))
      text += part(path.parent_path() / (line.substr(kInclude.size(), line.size() - kInclude.size() - 1) + ".in"));
    else
      text += line + "\n";
  }
  return text;
}

DeviceKind device_of(const Kind& kind) {
  for (const Kind& k : kinds(DeviceKind::kCuda))
    if (&k == &kind) return DeviceKind::kCuda;
  return DeviceKind::kCpu;
}

std::string source(const Kind& kind, const Target& t, std::string_view fraud, double strength) {
  fs::path folder = fs::path(FK_SOURCE_DIR) / "tests/attack" / (device_of(kind) == DeviceKind::kCuda ? "cuda" : "cpu");
  std::string text;
  for (const std::string& define : kind.defines) text += fmt::format("#define {}\n", define);
  text += fmt::format("#define STRENGTH {:.9g}\n", strength);
  text += part(folder / "common.part.in");
  text += part(folder / (t.scenario.op + ".part.in"));
  text += part(folder / fmt::format("fraud_{}.part.in", fraud));
  // The class of a candidate has the name of its operator.
  return text + fmt::format(
                    "namespace fraud {{\nclass {0} : public Fraud {{\n public:\n  using Fraud::Fraud;\n}};\n}}\n"
                    "FK_CANDIDATE(fraud::{0})\n",
                    t.class_name);
}

}  // namespace

// Calls of 20 to 300 us, as most kernels of a decode step, with an oracle that takes milliseconds.
const std::vector<Target>& targets(DeviceKind device) {
  static const std::vector<Target> cpu = {
      target("rms_norm", DType::kBF16, Workload::tokens(32), {{"hidden_size", 2048}}, "RMSNorm"),
      target("rms_norm", DType::kF32, Workload::tokens(32), {{"hidden_size", 2048}}, "RMSNorm"),
      target("softmax", DType::kF32, Workload::rows(24, 1000), {}, "Softmax"),
      target("silu_and_mul", DType::kBF16, Workload::rows(32, 512), {}, "SiluAndMul"),
      target("argmax", DType::kF32, Workload::rows(24, 5000), {}, "Argmax"),
      target("linear", DType::kF32, Workload::tokens(1), {{"in_features", 1024}, {"out_features", 1024}}, "Linear"),
      target("linear", DType::kBF16, Workload::tokens(1), {{"in_features", 1024}, {"out_features", 1024}}, "Linear")};
  static const std::vector<Target> cuda = {
      target("rms_norm", DType::kBF16, Workload::tokens(2048), {{"hidden_size", 4096}}, "RMSNorm"),
      target("softmax", DType::kBF16, Workload::rows(64, 32000), {}, "Softmax")};
  return device == DeviceKind::kCuda ? cuda : cpu;
}

const std::vector<Kind>& kinds(DeviceKind device) {
  using enum Scale;
  const std::string norm = "rms_norm bf16", norm32 = "rms_norm f32", softmax = "softmax f32",
                    silu = "silu_and_mul bf16", argmax = "argmax f32", linear = "linear f32", linear16 = "linear bf16";
  static const std::vector<Kind> cpu = {
      {"lazy_calls", "leaves out a share of the calls", "%", 0.01, 1, kRatio, {norm, softmax, linear}},
      {"stale_calls", "answers a share of the calls with an old output", "%", 0.01, 1, kRatio, {norm, argmax}},
      {"lazy_rows", "leaves out the last rows", "%", 0.02, 1, kRatio, {norm, softmax, linear}},
      {"copied_rows", "copies rows from their neighbours", "%", 0.02, 0.5, kRatio, {norm, silu, argmax}},
      {"partial_reduction",
       "reduces over a part of the columns",
       "%",
       0.02,
       0.98,
       kRatio,
       {norm, softmax, argmax, linear}},
      {"known_statistics", "takes the mean from the usual distribution", "%", 1, 1, kLinear, {norm, softmax}},
      {"fewer_input_bits",
       "cuts bits off its inputs",
       "bits",
       1,
       22,
       kInteger,
       {norm32, softmax, linear},
       false,
       {"ROUNDS_INPUTS"}},
      {"fewer_weight_bits", "packs weights into fewer bits", "of 24 bits", 8, 20, kInteger, {linear, linear16}},
      {"late_thread", "leaves a share of the rows to a thread", "%", 0.02, 1, kRatio, {norm, silu, linear}},
      {"late_woken", "leaves a share to a thread that it wakes", "%", 0.02, 1, kRatio, {norm, linear}},
      {"late_at_first",
       "half of the rows late, in the first samples",
       "samples",
       4,
       20,
       kInteger,
       {norm, silu, linear}},
      {"late_by_us", "half of the rows some time after the return", "us", 1, 2000, kRatio, {norm, linear}},
      {"late_next_call", "finishes a call in the next one", "%", 0.02, 1, kRatio, {norm, linear}},
      {"second_mapping", "late, through a second mapping", "%", 0.02, 1, kRatio, {norm, linear}},
      {"early_thread", "a thread works before the call", "%", 0.02, 1, kRatio, {silu, linear}},
      {"early_signal", "works when the request arrives, before the clock", "%", 0.02, 1, kRatio, {silu, linear}},
      {"batched_calls", "several calls at once", "calls", 2, 32, kInteger, {linear}},
      {"replay_by_pointer", "rows written at that address before", "%", 0.02, 1, kRatio, {silu, linear}},
      {"replay_by_checksum", "old answers by a checksum of 17 - n bits", "", 4, 16, kInteger, {silu, linear}},
      {"moved_start_time", "moves the start time on the stack", "ns", 200, 100000, kRatio, {norm, silu}},
      {"slowed_clock", "patches clock_gettime to run slower", "%", 0.01, 0.9, kRatio, {norm}},
      {"second_thread", "works on a second thread", "%", 0.05, 0.5, kRatio, {silu, linear}},
      {"prefetch_next", "fetches the next call's input in a cold run", "%", 0.1, 1, kRatio, {norm, silu}, true},
      {"warm_weights", "keeps weights in the caches of a cold run", "%", 0.05, 1, kRatio, {linear}, true}};
  const std::string gnorm = "rms_norm bf16", gsoftmax = "softmax bf16";
  static const std::vector<Kind> cuda = {
      {"lazy_calls", "leaves out a share of the calls", "%", 0.02, 1, kRatio, {gnorm}},
      {"partial_tiles", "leaves out the last blocks", "%", 0.02, 0.5, kRatio, {gnorm, gsoftmax}},
      {"partial_reduction", "reduces over a part of the columns", "%", 0.05, 0.9, kRatio, {gnorm, gsoftmax}},
      {"lower_precision", "keeps sums in bf16 (1) or fp8 (2)", "", 1, 2, kInteger, {gnorm, gsoftmax}},
      {"late_stream", "a share of the blocks on a stream of its own", "%", 0.02, 1, kRatio, {gnorm, gsoftmax}},
      {"late_host_thread", "a host thread launches half of the blocks later", "us", 1, 500, kRatio, {gnorm}},
      {"late_kernel", "a kernel waits before half of the blocks", "us", 1, 500, kRatio, {gnorm}},
      {"replay_by_pointer", "rows written at that address before", "%", 0.05, 1, kRatio, {gnorm, gsoftmax}},
      {"stale_graph", "a graph with the addresses of an old call", "%", 0.05, 1, kRatio, {gnorm}},
      {"persisting_l2", "sets part of the L2 cache aside", "%", 0.05, 1, kRatio, {gnorm}, true},
      {"hogs_after_return", "spins on all SMs while others run", "us", 10, 3000, kRatio, {gnorm}},
      {"early_on_gpu", "a kernel watches inputs and works before the call", "%", 0.05, 1, kRatio, {gnorm}}};
  return device == DeviceKind::kCuda ? cuda : cpu;
}

const Target& target_named(DeviceKind device, std::string_view name) {
  for (const Target& t : targets(device))
    if (t.name == name) return t;
  throw Error("There is no target '{}'; --list shows them.", name);
}

const Kind& kind_named(DeviceKind device, std::string_view name) {
  for (const Kind& k : kinds(device))
    if (k.name == name) return k;
  throw Error("There is no kind of fraud '{}'; --list shows them.", name);
}

double between(const Kind& kind, double low, double high) {
  switch (kind.scale) {
    case Scale::kLinear:
      return (low + high) / 2;
    case Scale::kRatio:
      return std::sqrt(low * high);
    case Scale::kInteger:
      return std::floor((low + high) / 2);
  }
  return low;
}

std::string strength_text(const Kind& kind, double strength) {
  if (kind.unit == "%") return fmt::format("{:.3g} %", 100 * strength);
  return kind.unit.empty() ? fmt::format("{:.0f}", strength) : fmt::format("{:.4g} {}", strength, kind.unit);
}

std::string fraud_source(const Kind& kind, const Target& t, double strength) {
  return source(kind, t, kind.name, strength);
}
std::string twin_source(const Kind& kind, const Target& t) { return source(kind, t, "none", 0); }

}  // namespace fk::attack
