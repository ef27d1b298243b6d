#include "compiler/plan/generated_kernel.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "compiler/codegen/statement_text.h"
#include "core/error.h"
#include "core/replace_all.h"

namespace fk {
namespace {

constexpr int64_t kWorthAThread = 16384;  // elements
constexpr size_t kMostArrays = 64;

// What a kernel needs of an array.
struct ArrayNeeds {
  DType dtype = DType::kF32;
  bool dense_rows = false, dense = false, used = false;
};

// Sizes of a batch by their names: "reshape(x0, [T, 16, 128])".
std::string with_symbols(std::string text) {
  const BatchSizes sizes = varying_sizes();
  const int64_t page = sizes[SizeSymbol::kPageSize];
  for (size_t i = 0; i < kNumSizeSymbols; ++i) {
    auto symbol = static_cast<SizeSymbol>(i);
    if (symbol == SizeSymbol::kPageSize) continue;
    replace_all(text, fmt::to_string(sizes[symbol] * page), fmt::format("{} * {}", symbol_name(symbol), page));
    replace_all(text, fmt::to_string(sizes[symbol]), std::string(symbol_name(symbol)));
  }
  for (SizeSymbol all : {SizeSymbol::kTokens, SizeSymbol::kSequences})
    replace_all(text, fmt::to_string(sizes[all] - sizes[SizeSymbol::kDecoding]),
                fmt::format("{} - {}", symbol_name(all), symbol_name(SizeSymbol::kDecoding)));
  return text;
}

class GeneratedKernel final : public RegionKernel {
 public:
  GeneratedKernel(RegionFunction function, const FoundRegion& found, const std::vector<std::string>& names)
      : function_(function), inputs_(found.region.inputs.size()), grain_(0) {
    for (const std::string& name : names) {
      auto use = found.loops.arrays.find(name);
      if (use == found.loops.arrays.end())
        needs_.push_back({});
      else
        needs_.push_back({use->second.dtype, use->second.dense_rows, use->second.dense, true});
    }
    grain_ = std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(row_work(found.loops), 1));
    rows_of_ = rows_array(found.loops, names);
  }

  std::string_view refuse(std::span<const View> inputs, std::span<const View> outputs) const override {
    for (size_t k = 0; k < needs_.size(); ++k) {
      const View& v = k < inputs_ ? inputs[k] : outputs[k - inputs_];
      const ArrayNeeds& needs = needs_[k];
      if (!needs.used) continue;
      if (v.dtype() != needs.dtype) return "an array has another dtype";
      if (v.rank() > 0 && v.stride(-1) != 1 && v.size(-1) > 1) return "elements of a row must be neighbours";
      if (needs.dense && !v.contiguous()) return "a state must be dense";
      if (needs.dense_rows && !is_dense_behind_first(v)) return "rows must be dense";
    }
    return {};
  }

  void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) override {
    RegionArray arrays[kMostArrays];
    int64_t strides[kMostArrays][kMaxRank];
    for (size_t k = 0; k < needs_.size(); ++k) {
      const View& v = k < inputs_ ? inputs[k] : outputs[k - inputs_];
      for (int d = 0; d < v.rank(); ++d) strides[k][d] = v.stride(d);
      arrays[k] = {v.data(), v.shape().extents().data(), strides[k]};
    }
    int64_t rows = arrays[rows_of_].sizes[0];
    ctx.pool.parallel_for(rows, grain_, [&](int64_t begin, int64_t end) { function_(arrays, begin, end); });
  }

 private:
  static bool is_dense_behind_first(const View& v) {
    int64_t stride = 1;
    for (int d = v.rank(); d-- > 1; stride *= v.size(d))
      if (v.size(d) > 1 && v.stride(d) != stride) return false;
    return true;
  }

  // An array whose first extent is the number of rows: one that is read or written row by row.
  static size_t rows_array(const LoopProgram& loops, const std::vector<std::string>& names) {
    for (const LoopNest& nest : loops.nests)
      for (const LoopStatement& s : nest.statements)
        for (size_t k = 0; k < names.size(); ++k) {
          auto use = loops.arrays.find(names[k]);
          if (use == loops.arrays.end() || use->second.dense) continue;
          if (s.value.find(fmt::format("{}_p[l0", names[k])) != s.value.npos) return k;
          if (s.name == names[k] && s.kind == LoopStatement::Kind::kStore) return k;
        }
    throw Error("A generated kernel has no array with its rows.");
  }

  RegionFunction function_;
  size_t inputs_;
  int64_t grain_;
  size_t rows_of_ = 0;
  std::vector<ArrayNeeds> needs_;
};

// Compiles and loads a source with these kernels.
std::map<std::string, RegionFunction> load(const std::string& source, const std::set<std::string>& keys,
                                           const std::string& cache_folder, CompiledRegions& compiled) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(cache_folder.empty() ? default_cache_folder() : cache_folder) / "generated";
  std::error_code error;
  fs::create_directories(folder, error);
  fs::path path = folder / (Fingerprint().add(source).hex() + ".cpp");
  if (error || !write_whole(path.string(), source))
    throw Error("{} cannot be written; set FASTKERNELS_HOME to a folder that can.", path.string());
  CompileResult built = compile_candidate(
      {nullptr, path.string()}, {.cache_folder = cache_folder, .limit_ms = 300'000, .without_operator = true});
  compiled.compile_seconds = built.seconds;
  if (built.failure) throw Error("Generated kernels do not compile: {}", built.failure->sentence);
  // Stays loaded until the process ends, as candidates do.
  void* library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error("Generated kernels cannot be loaded: {}.", dlerror());
  std::map<std::string, RegionFunction> functions;
  for (const std::string& key : keys) {
    auto* function = reinterpret_cast<RegionFunction>(dlsym(library, ("region_" + key).c_str()));
    if (function == nullptr) throw Error("The generated kernel {} is missing in {}.", key, built.so_path);
    functions.emplace(key, function);
  }
  return functions;
}

}  // namespace

RegionDraft draft_of(const FoundRegion& found, const GraphBody& flat) {
  RegionDraft draft;
  for (size_t i = 0; i < found.region.inputs.size(); ++i) draft.names.push_back(fmt::format("x{}", i));
  for (size_t i = 0; i < found.region.outputs.size(); ++i) draft.names.push_back(fmt::format("y{}", i));
  std::vector<std::string> calls;
  for (size_t n : found.region.nodes)
    if (flat.nodes[n].is_call()) calls.push_back(flat.nodes[n].op);
  draft.calls = fmt::format("{}", fmt::join(calls, " + "));
  draft.expression = with_symbols(algebra::program_text(found.program.results));
  std::string body = region_body({"", "", draft.names, &found.loops});
  draft.key = Fingerprint().add(body).add(functions_version()).hex();
  return draft;
}

CompiledRegions compile_regions(const std::vector<const FoundRegion*>& found, const GraphBody& flat,
                                const std::string& cache_folder) {
  CompiledRegions compiled;
  compiled.kernels.resize(found.size());
  // Phases of one model share most of their kernels.
  static std::mutex mutex;
  static std::map<std::string, RegionFunction> loaded;  // by key
  std::lock_guard lock(mutex);
  std::vector<RegionDraft> drafts;
  std::vector<RegionText> all, missing;
  std::set<std::string> seen, wanted;
  for (const FoundRegion* f : found) {
    drafts.push_back(draft_of(*f, flat));
    const RegionDraft& draft = drafts.back();
    if (draft.names.size() > kMostArrays)
      throw Error("A generated kernel has {} arrays; {} are the most.", draft.names.size(), kMostArrays);
    if (!seen.insert(draft.key).second) continue;
    all.push_back({"region_" + draft.key, draft.calls + "\n" + draft.expression, draft.names, &f->loops});
    if (loaded.count(draft.key) > 0) continue;
    wanted.insert(draft.key);
    missing.push_back(all.back());
  }
  compiled.source = region_source(all);
  if (!missing.empty())
    for (auto& [key, function] : load(region_source(missing), wanted, cache_folder, compiled))
      loaded.emplace(key, function);
  for (size_t i = 0; i < found.size(); ++i) {
    compiled.kernels[i] = std::make_shared<GeneratedKernel>(loaded.at(drafts[i].key), *found[i], drafts[i].names);
  }
  return compiled;
}

}  // namespace fk
