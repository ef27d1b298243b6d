#include "compiler/plan/generated_kernel.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "compiler/codegen/cpu_attention.h"
#include "compiler/codegen/cuda_attention.h"
#include "compiler/codegen/cuda_product.h"
#include "compiler/codegen/statement_text.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/replace_all.h"
#include "core/thread_pool.h"
#include "measure/timer.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWorthAThread = 16384;  // elements
constexpr size_t kMostArrays = 64;

// What a kernel needs of an array.
struct ArrayNeeds {
  DType dtype = DType::kF32;
  bool dense_rows = false, dense = false, used = false;
  bool packed = true;  // it is read by packs where it is aligned
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

std::vector<std::string> array_names(const FoundRegion& found) {
  std::vector<std::string> names;
  for (size_t i = 0; i < found.region.inputs.size(); ++i) names.push_back(fmt::format("x{}", i));
  for (size_t i = 0; i < found.region.outputs.size(); ++i) names.push_back(fmt::format("y{}", i));
  return names;
}

// What kernels for all devices have in common: which arrays they take.
template <class Base>
class GeneratedKernel : public Base {
 public:
  explicit GeneratedKernel(const FoundRegion& found) : inputs_(found.region.inputs.size()) {
    const std::vector<std::string> names = array_names(found);
    constexpr size_t kMostNamed = kMostArrays - kCpuAttentionArrays;  // attention has more, for its parts
    if (names.size() > kMostNamed)
      throw Error("A generated kernel has {} arrays; {} are the most.", names.size(), kMostNamed);
    for (const std::string& name : names) {
      auto use = found.loops.arrays.find(name);
      if (use == found.loops.arrays.end())
        needs_.push_back({});
      else
        needs_.push_back({use->second.dtype, use->second.dense_rows, use->second.dense, true});
      if (found.products != nullptr) needs_.back().packed = found.products->limits.aligned.count(name) > 0;
      if (found.attention != nullptr) needs_.back().packed = found.attention->packed.count(name) > 0;
    }
    auto number_of = [&](const std::string& name) {
      return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    };
    rows_of_ = found.products != nullptr    ? number_of(found.products->rows_of)
               : found.attention != nullptr ? number_of(found.attention->out)
                                            : rows_array(found.loops, names);
    if (auto use = found.loops.arrays.find(names[rows_of_]); use != found.loops.arrays.end())
      row_axis_ = static_cast<size_t>(use->second.row_axis);
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

 protected:
  // Arrays as a kernel gets them.
  struct Call {
    RegionArray arrays[kMostArrays];
    int64_t strides[kMostArrays][kMaxRank];
    int64_t rows;
    bool aligned;  // to 16 bytes
  };
  void fill_call(Call& call, std::span<const View> inputs, std::span<const View> outputs) const {
    constexpr int64_t kPackBytes = 16;
    call.aligned = true;
    for (size_t k = 0; k < needs_.size(); ++k) {
      const View& v = k < inputs_ ? inputs[k] : outputs[k - inputs_];
      for (int d = 0; d < v.rank(); ++d) call.strides[k][d] = v.stride(d);
      call.arrays[k] = {v.data(), v.shape().extents().data(), call.strides[k]};
      if (!needs_[k].used || !needs_[k].packed) continue;
      call.aligned = call.aligned && reinterpret_cast<uintptr_t>(v.data()) % kPackBytes == 0;
      for (int d = 0; d + 1 < v.rank(); ++d)
        if (v.size(d) > 1)
          call.aligned = call.aligned && v.stride(d) * static_cast<int64_t>(dtype_size(v.dtype())) % kPackBytes == 0;
    }
    call.rows = call.arrays[rows_of_].sizes[row_axis_];
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
    // An input may have more rows than are computed: bounds of sequences. A result that is stored in order has as many.
    for (const LoopNest& nest : loops.nests)
      for (size_t k = 0; k < names.size(); ++k)
        if (auto use = loops.arrays.find(names[k]);
            nest.rows_of == names[k] && use != loops.arrays.end() && !use->second.dense)
          return k;
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

  size_t inputs_;
  size_t rows_of_ = 0, row_axis_ = 0;
  std::vector<ArrayNeeds> needs_;
};

class CpuKernel final : public GeneratedKernel<RegionKernel> {
 public:
  CpuKernel(RegionFunction function, const FoundRegion& found)
      : GeneratedKernel(found),
        function_(function),
        grain_(std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(row_work(found.loops), 1))) {}

  void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) override {
    Call call;
    fill_call(call, inputs, outputs);
    ctx.pool.parallel_for(call.rows, grain_, [&](int64_t begin, int64_t end) { function_(call.arrays, begin, end); });
  }

 private:
  RegionFunction function_;
  int64_t grain_;
};

class CudaKernel final : public GeneratedKernel<RegionKernel> {
 public:
  CudaKernel(CudaRegionFunction launcher, const FoundRegion& found, bool dependent)
      : GeneratedKernel(found), launcher_(launcher), dependent_(dependent) {}

  void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) override {
    Call call;
    fill_call(call, inputs, outputs);
    const int status = launcher_(call.arrays, call.rows, call.aligned ? 1 : 0, dependent_ ? 1 : 0, ctx.stream);
    if (status != 0) throw Error("A generated kernel could not be launched: CUDA error {}.", status);
  }

 private:
  CudaRegionFunction launcher_;
  bool dependent_;
};

class ProductKernel final : public GeneratedKernel<CutKernel> {
 public:
  ProductKernel(CudaRegionFunction launcher, const FoundRegion& found, bool dependent)
      : GeneratedKernel(found), launcher_(launcher), dependent_(dependent), most_(found.products->limits.rows) {
    const std::span<const ProductCut> cuts = product_cuts();
    for (size_t k = cuts.size(); k-- > 0;) (cuts[k].several ? several_ : one_) = static_cast<int>(k);
    if (most_ == 1) several_ = kNoCut;
  }

  int64_t most_rows() const override { return most_; }
  void use(int one, int several) override {
    one_ = one;
    several_ = most_ == 1 ? kNoCut : several;
  }

  std::string_view refuse(std::span<const View> inputs, std::span<const View> outputs) const override {
    if (std::string_view why = GeneratedKernel::refuse(inputs, outputs); !why.empty()) return why;
    Call call;
    fill_call(call, inputs, outputs);
    if (call.rows > most_) return "it takes few rows";
    if (call.rows > 0 && cut_for(call.rows) == kNoCut) return "it is not used for so many rows";
    return call.aligned ? std::string_view() : "arrays must be aligned to 16 bytes";
  }

  void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) override {
    Call call;
    fill_call(call, inputs, outputs);
    const int status = launcher_(call.arrays, call.rows, cut_for(call.rows), dependent_ ? 1 : 0, ctx.stream);
    if (status != 0) throw Error("A generated kernel could not be launched: CUDA error {}.", status);
  }

 private:
  int cut_for(int64_t rows) const { return rows <= 1 && one_ != kNoCut ? one_ : several_; }

  CudaRegionFunction launcher_;
  bool dependent_;
  int64_t most_;
  int one_ = kNoCut, several_ = kNoCut;
};

// What kernels for attention on all devices refuse.
class AnyAttentionKernel : public GeneratedKernel<RegionKernel> {
 public:
  explicit AnyAttentionKernel(const FoundRegion& found)
      : GeneratedKernel(found), names_(array_names(found)), program_(found.attention) {}

  std::string_view refuse(std::span<const View> inputs, std::span<const View> outputs) const override {
    if (std::string_view why = GeneratedKernel::refuse(inputs, outputs); !why.empty()) return why;
    for (size_t k = 0; k < inputs.size(); ++k) {
      auto fixed = program_->fixed.find(names_[k]);
      if (fixed == program_->fixed.end()) continue;
      for (size_t d = 0; d < fixed->second.size(); ++d)
        if (fixed->second[d] < kVaryingExtent && inputs[k].size(static_cast<int>(d)) != fixed->second[d])
          return "it was written for other heads or pages";
    }
    for (const View& out : outputs)
      if (!out.contiguous()) return "results must be dense";
    return {};
  }

 protected:
  std::vector<std::string> names_;
  std::shared_ptr<const AttentionProgram> program_;
};

class CpuAttentionKernel final : public AnyAttentionKernel {
 public:
  CpuAttentionKernel(RegionFunction function, const FoundRegion& found)
      : AnyAttentionKernel(found), function_(function) {}

  void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) override {
    constexpr int64_t kRowsOfAThread = 64, kJoinsOfAThread = 16;
    Call call;
    fill_call(call, inputs, outputs);
    const Arena::Mark scratch = ctx.arena.mark();
    const std::span<CpuSeenKeys> seen = made<CpuSeenKeys>(ctx, call.rows);
    std::span<float> kept;
    auto run_phase = [&](CpuAttentionPhase phase, int64_t count, int64_t grain, std::span<CpuAttentionItem> items) {
      const int64_t phase_size[] = {static_cast<int64_t>(phase)}, item_size[] = {static_cast<int64_t>(items.size())};
      RegionArray* const more = call.arrays + names_.size();
      more[0] = {seen.data(), phase_size, nullptr};
      more[1] = {items.data(), item_size, nullptr};
      more[2] = {kept.data(), nullptr, nullptr};
      ctx.pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) { function_(call.arrays, begin, end); });
    };
    run_phase(CpuAttentionPhase::kSee, call.rows, kRowsOfAThread, {});
    const CpuAttentionWork work =
        cpu_attention_work(*program_, seen, made<CpuAttentionItem>(ctx, most_cpu_attention_items(seen)));
    kept = made<float>(ctx, work.kept * cpu_attention_kept(*program_));
    auto run_items = [&](CpuAttentionPhase phase, int64_t grain, std::span<CpuAttentionItem> items) {
      run_phase(phase, static_cast<int64_t>(items.size()) * program_->kv_heads, grain, items);
    };
    run_items(CpuAttentionPhase::kAttend, 1, work.items);
    run_items(CpuAttentionPhase::kJoin, kJoinsOfAThread, work.joins);
    ctx.arena.release(scratch);
  }

 private:
  template <class T>
  static std::span<T> made(Context& ctx, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    return {static_cast<T*>(ctx.arena.make({Shape({bytes}), DType::kU8}).data()), static_cast<size_t>(count)};
  }

  RegionFunction function_;
};

class AttentionKernel final : public AnyAttentionKernel {
 public:
  AttentionKernel(CudaRegionFunction launcher, const FoundRegion& found, bool dependent)
      : AnyAttentionKernel(found), launcher_(launcher), dependent_(dependent) {}

  void run(Context& ctx, std::span<const View> inputs, std::span<const View> outputs) override {
    Call call;
    fill_call(call, inputs, outputs);
    const AttentionCut cut = attention_cut(*program_, call.rows, most_keys(call), multiprocessors());
    const Arena::Mark scratch = ctx.arena.mark();
    const int64_t sizes[] = {cut.splits, cut.share};
    void* workspace = nullptr;
    if (cut.workspace > 0) workspace = ctx.arena.make({Shape({cut.workspace}), DType::kF32}).data();
    call.arrays[names_.size()] = {workspace, sizes, nullptr};
    const int status = launcher_(call.arrays, call.rows, call.aligned ? 1 : 0, dependent_ ? 1 : 0, ctx.stream);
    ctx.arena.release(scratch);
    if (status != 0) throw Error("A generated kernel could not be launched: CUDA error {}.", status);
  }

 private:
  int64_t most_keys(const Call& call) const {
    const BatchExtent& keys = program_->keys;
    if (keys.array.empty()) return keys.factor;
    const auto at = static_cast<size_t>(std::find(names_.begin(), names_.end(), keys.array) - names_.begin());
    return call.arrays[at].sizes[keys.dim] * keys.factor - keys.minus;
  }

  static int multiprocessors() {
    constexpr Device kFirst{DeviceKind::kCuda, 0};
    constexpr int kWithoutDevice = 132;  // kernels are tried on a CPU: as on an H200
    static const int count = device_missing(kFirst).empty() ? device_runtime(kFirst).facts().multiprocessors : 0;
    return count > 0 ? count : kWithoutDevice;
  }

  CudaRegionFunction launcher_;
  bool dependent_;
};

// Kernels may start before those before them have ended from compute capability 9.0 on.
bool starts_early() {
  constexpr Device kFirst{DeviceKind::kCuda, 0};
  if (!device_missing(kFirst).empty()) return false;
  const std::string& architecture = device_runtime(kFirst).facts().architecture;
  return architecture.size() > 3 && std::atoi(architecture.c_str() + 3) >= 90;
}

std::shared_ptr<RegionKernel> cpu_region_kernel(RegionFunction function, const FoundRegion& found) {
  if (found.attention != nullptr) return std::make_shared<CpuAttentionKernel>(function, found);
  return std::make_shared<CpuKernel>(function, found);
}

std::shared_ptr<RegionKernel> kernel_of(void* function, const FoundRegion& found, DeviceKind device) {
  if (device == DeviceKind::kCpu) return cpu_region_kernel(reinterpret_cast<RegionFunction>(function), found);
  return cuda_region_kernel(reinterpret_cast<CudaRegionFunction>(function), found, starts_early());
}

// Stays loaded until the process ends, as candidates do.
void* function_in(const std::string& path, const std::string& key) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error("Generated kernels cannot be loaded: {}.", dlerror());
  void* function = dlsym(library, ("region_" + key).c_str());
  if (function == nullptr) throw Error("The generated kernel {} is missing in {}.", key, path);
  return function;
}

fs::path sources_folder(const std::string& cache_folder) {
  return fs::absolute(cache_folder.empty() ? default_cache_folder() : cache_folder) / "generated";
}

// The library of a source, and the lock that keeps it.
CompileResult compiled_source(const std::string& source, const std::string& cache_folder, DeviceKind device,
                              const std::vector<std::string>& cxxflags) {
  fs::path folder = sources_folder(cache_folder);
  std::error_code error;
  fs::create_directories(folder, error);
  fs::path path = folder / (Fingerprint().add(source).hex() + (device == DeviceKind::kCpu ? ".cpp" : ".cu"));
  if (error || !write_whole(path.string(), source))
    throw Error("{} cannot be written; name a writable folder with --search-cache or FASTKERNELS_HOME.", path.string());
  CompileResult built = compile_candidate(
      {nullptr, path.string()},
      {.cxxflags = cxxflags, .cache_folder = cache_folder, .limit_ms = 300'000, .without_operator = true});
  if (built.failure) throw Error("Generated kernels do not compile: {}", built.failure->sentence);
  return built;
}

std::string source_of(const std::vector<RegionText>& regions, DeviceKind device) {
  return device == DeviceKind::kCpu ? region_source(regions) : cuda_region_source(regions);
}

// nvcc takes seconds for any source, so it runs as often as there are cores. By kernel the library it is in.
std::vector<std::string> compile_all(const std::vector<RegionText>& regions, const std::string& cache_folder,
                                     DeviceKind device, const std::vector<std::string>& cxxflags) {
  const size_t most = device == DeviceKind::kCpu ? 1 : static_cast<size_t>(std::max(1, usable_cores()));
  const size_t parts = std::min(most, regions.size());
  std::vector<std::vector<RegionText>> part(parts);
  for (size_t i = 0; i < regions.size(); ++i) part[i % parts].push_back(regions[i]);
  static std::vector<std::shared_ptr<void>> locks;  // of all libraries that this process has loaded
  std::vector<CompileResult> results(parts);
  std::vector<std::string> errors(parts);
  std::vector<std::thread> threads;
  auto compile = [&](size_t p) {
    try {
      results[p] = compiled_source(source_of(part[p], device), cache_folder, device, cxxflags);
    } catch (const std::exception& e) {
      errors[p] = e.what();
    }
  };
  for (size_t p = 1; p < parts; ++p) threads.emplace_back(compile, p);
  compile(0);
  for (std::thread& t : threads) t.join();
  for (const std::string& e : errors)
    if (!e.empty()) throw Error("{}", e);
  std::vector<std::string> libraries(regions.size());
  for (size_t i = 0; i < regions.size(); ++i) libraries[i] = results[i % parts].so_path;
  for (CompileResult& r : results) locks.push_back(std::move(r.lock));
  return libraries;
}

}  // namespace

RegionDraft draft_of(const FoundRegion& found, const GraphBody& flat, DeviceKind device) {
  RegionDraft draft;
  draft.names = array_names(found);
  std::vector<std::string> calls;
  for (size_t n : found.region.nodes)
    if (flat.nodes[n].is_call()) calls.push_back(flat.nodes[n].op);
  draft.calls = fmt::format("{}", fmt::join(calls, " + "));
  draft.expression = with_symbols(algebra::program_text(found.program.results));
  for (size_t i = 0; i < found.region.inputs.size(); ++i)
    if (flat.values[static_cast<size_t>(found.region.inputs[i])].kind == ValueKind::kParameter)
      draft.constants.insert(draft.names[i]);
  draft.updated = updated_arrays(found.region);
  RegionText text = text_of(draft, found);
  draft.key = device == DeviceKind::kCpu ? Fingerprint()
                                               .add(region_body(text))
                                               .add(functions_version())
                                               .add(found.attention != nullptr ? cpu_attention_version() : "")
                                               .hex()
                                         : Fingerprint()
                                               .add(cuda_region_body(text))
                                               .add(cuda_functions_version())
                                               .add(found.products != nullptr ? cuda_products_version() : "")
                                               .add(found.attention != nullptr ? cuda_attention_version() : "")
                                               .hex();
  return draft;
}

RegionText text_of(const RegionDraft& draft, const FoundRegion& found) {
  return {"region_" + draft.key, draft.calls + "\n" + draft.expression,
          draft.names,           &found.loops,
          draft.constants,       draft.updated,
          found.products.get(),  found.attention.get()};
}

const RegionDraft& RegionDrafts::of(const FoundRegion& found) {
  auto [at, is_new] = known_.try_emplace(found.kind >= 0 ? found.kind : next_--);
  if (is_new) at->second = draft_of(found, flat_, device_);
  return at->second;
}

CompiledRegions compile_regions(const std::vector<const FoundRegion*>& found, const GraphBody& flat,
                                const std::string& cache_folder, DeviceKind device,
                                const std::vector<std::string>& cxxflags) {
  CompiledRegions compiled;
  // Phases of one model share most of their kernels.
  struct Loaded {
    void* function;
    std::string library;
  };
  static std::mutex mutex;
  static std::map<std::string, Loaded> loaded;  // by key
  std::lock_guard lock(mutex);
  RegionDrafts known(flat, device);
  std::vector<const RegionDraft*> drafts;
  std::vector<RegionText> all, missing;
  std::vector<std::string> wanted;  // keys of those missing
  std::set<std::string> seen;
  for (const FoundRegion* f : found) {
    drafts.push_back(&known.of(*f));
    const RegionDraft& draft = *drafts.back();
    if (!seen.insert(draft.key).second) continue;
    all.push_back(text_of(draft, *f));
    if (loaded.count(draft.key) > 0) continue;
    wanted.push_back(draft.key);
    missing.push_back(all.back());
  }
  compiled.source = source_of(all, device);
  if (!missing.empty()) {
    Stopwatch watch;
    std::vector<std::string> libraries = compile_all(missing, cache_folder, device, cxxflags);
    compiled.compile_seconds = watch.elapsed_s();
    for (size_t i = 0; i < wanted.size(); ++i)
      loaded.emplace(wanted[i], Loaded{function_in(libraries[i], wanted[i]), libraries[i]});
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const Loaded& kernel = loaded.at(drafts[i]->key);
    compiled.kernels.push_back(kernel_of(kernel.function, *found[i], device));
    compiled.libraries.push_back(kernel.library);
  }
  return compiled;
}

RemovedKernels remove_generated(const std::string& cache_folder) {
  const fs::path folder = sources_folder(cache_folder).lexically_normal();
  RemovedKernels removed;
  // Which libraries there are is known by the sources.
  removed.libraries = CompileCache((folder.parent_path() / "candidates").string()).remove_builds_from(folder.string());
  std::error_code error;
  std::vector<fs::path> sources;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) sources.push_back(file.path());
  for (const fs::path& source : sources) removed.sources += fs::remove(source, error) ? 1 : 0;
  return removed;
}

std::shared_ptr<RegionKernel> load_region(const std::string& library, const FoundRegion& found, const GraphBody& flat,
                                          DeviceKind device) {
  return kernel_of(function_in(library, draft_of(found, flat, device).key), found, device);
}

std::shared_ptr<RegionKernel> cuda_region_kernel(CudaRegionFunction launcher, const FoundRegion& found,
                                                 bool dependent) {
  if (found.products != nullptr) return std::make_shared<ProductKernel>(launcher, found, dependent);
  if (found.attention != nullptr) return std::make_shared<AttentionKernel>(launcher, found, dependent);
  return std::make_shared<CudaKernel>(launcher, found, dependent);
}

}  // namespace fk
