#include "compiler/codegen/cuda_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/cuda_printer.h"
#include "compiler/codegen/element_text.h"
#include "compiler/codegen/statement_text.h"

namespace fk {
namespace {

constexpr int kTileRows = 16;                   // of weights, that are multiplied at once
constexpr int64_t kMostRowBytes = 96 * 1024;    // of one row, so that two blocks fit a multiprocessor
constexpr int64_t kMostRowsBytes = 160 * 1024;  // of several
constexpr int kWarpThreads = 32;

constexpr ProductCut kProductCuts[] = {
    {8, 2, 3, true, false},  {16, 2, 1, true, false}, {8, 4, 2, true, false}, {16, 4, 1, true, false},
    {8, 2, 3, false, false}, {8, 4, 2, false, false}, {8, 2, 2, true, true},  {16, 2, 1, true, true},
    {8, 4, 2, true, true},   {8, 2, 2, false, true},
};

// Sums of an element in a tile: a power of two.
int places_of(const ProductTask& task) {
  int places = 1;
  while (places < static_cast<int>(task.sums.size())) places *= 2;
  return places;
}
int elements_of_tile(const ProductTask& task) { return kTileRows / places_of(task); }
int64_t tiles_of(const ProductTask& task) {
  return (task.elements() + elements_of_tile(task) - 1) / elements_of_tile(task);
}

// Lines further in; those of the preprocessor stay.
std::string further_in(const std::string& lines, size_t by) {
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    const size_t end = lines.find('\n', at) + 1;
    if (lines[at] != '#') text += std::string(by, ' ');
    text += lines.substr(at, end - at);
    at = end;
  }
  return text;
}

class ProductPrinter {
 public:
  ProductPrinter(const RegionText& region, const ProductProgram& program) : region_(region), program_(program) {
    std::set<std::string> kept(program.kept.begin(), program.kept.end());
    kept.insert(program.x);
    for (const auto& [name, local] : program.rows.locals)
      if (is_read_after(name)) kept.insert(name);
    for (const ProductCut& cut : kProductCuts) {
      const int threads = cut.several ? kWarpThreads : cut.warps * kWarpThreads;
      if (rows_.count(threads) > 0) continue;
      const SharedRow row{threads, kept};
      CudaPrinter printer(program.rows, region.constants, row);
      rows_[threads] = printer.row_text();
      packed_.insert(printer.packed_arrays().begin(), printer.packed_arrays().end());
      for (const CudaPrinter::SharedArray& array : printer.shared_arrays()) arrays_.emplace(array.name, array);
    }
    for (const Product& p : program.products) packed_.insert(p.weight);
    place_arrays();
  }

  int64_t slot_bytes() const { return slot_; }
  const std::set<std::string>& packed() const { return packed_; }

  // Everything between the parameters of the kernel and its last brace.
  std::string body() {
    std::string text = "  [[maybe_unused]] constexpr bool kAligned = true;\n  FK_ROW_MEMORY(row_memory);\n";
    text += "  unsigned char* const memory = reinterpret_cast<unsigned char*>(row_memory);\n";
    text += weight_row_text() + compute_rows_text() + finish_text();
    return text + fmt::format(
                      "  stream_products<{}, C, {}, {}>(memory, rows, first_tile_of_block(of_block), "
                      "last_tile_of_block(of_block, {}), weight_row, compute_rows, finish);\n",
                      element_name(program_.dtype), program_.length, slot_, all_tiles());
  }

  int64_t all_tiles() const {
    int64_t tiles = 0;
    for (const ProductTask& t : program_.tasks) tiles += tiles_of(t);
    return tiles;
  }

 private:
  bool is_read_after(const std::string& local) const {
    for (const ProductTask& t : program_.tasks)
      for (const ProductTask::Store& s : t.stores) {
        if (has_word(s.element.value, local)) return true;
        for (const LoopStatement& scalar : s.scalars)
          if (has_word(scalar.value, local)) return true;
      }
    return false;
  }

  // The rows that are multiplied first. Eight rows must be in different banks: a row is 64 bytes more than a multiple
  // of 128.
  void place_arrays() {
    constexpr int64_t kLoad = 16, kBanks = 128, kShift = 64;
    auto place = [&](const CudaPrinter::SharedArray& array) {
      places_[array.name] = slot_;
      const int64_t bytes = array.elements * static_cast<int64_t>(dtype_size(array.dtype));
      slot_ += (bytes + kLoad - 1) / kLoad * kLoad;
    };
    place(arrays_.at(program_.x));
    for (const auto& [name, array] : arrays_)
      if (name != program_.x) place(array);
    slot_ = (slot_ + kBanks - 1 - kShift) / kBanks * kBanks + kShift;
  }

  // Pointers to the results of row l0.
  std::string pointers(const std::string& indent, const std::set<std::string>* only = nullptr) const {
    std::string text;
    for (const auto& [name, array] : arrays_)
      if (only == nullptr || only->count(name) > 0)
        text += fmt::format("{0}[[maybe_unused]] {1}* const {2} = of_row<{1}>(memory, {3}, l0, {4});\n", indent,
                            element_name(array.dtype), name, slot_, places_.at(name));
    return text;
  }

  static std::string indices(const ProductTask& task, const std::string& indent) {
    std::string text;
    int64_t behind = task.elements();
    for (size_t d = 0; d < task.leads.size(); ++d) {
      behind /= task.leads[d];
      text += fmt::format("{}[[maybe_unused]] const int64_t l{} = element / {} % {};\n", indent, d + 1, behind,
                          task.leads[d]);
    }
    return text + fmt::format("{}[[maybe_unused]] const int64_t i = element % {};\n", indent, task.count);
  }

  template <class Text>
  std::string by_task(const Text& text_of) const {
    std::string text;
    int64_t first = 0;
    for (size_t t = 0; t < program_.tasks.size(); ++t) {
      const bool last = t + 1 == program_.tasks.size();
      const std::string inside = text_of(program_.tasks[t], first);
      first += tiles_of(program_.tasks[t]);
      text += last ? fmt::format("    {{\n{}    }}\n", inside)
                   : fmt::format("    if (tile < {}) {{\n{}    }}\n", first, inside);
    }
    return text;
  }

  static std::string tile_of_task(int64_t first) { return first == 0 ? "tile" : fmt::format("(tile - {})", first); }

  // Where a row of a tile is in the weights.
  std::string weight_row_text() const {
    const std::string_view type = element_name(program_.dtype);
    std::string text = fmt::format("  auto weight_row = [&](int tile, int column) -> const {}* {{\n", type);
    text += by_task([&](const ProductTask& task, int64_t first) {
      const int elements = elements_of_tile(task);
      std::string inside =
          fmt::format("      const int element = {} * {} + column % {};\n", tile_of_task(first), elements, elements);
      inside += fmt::format("      if (element >= {}) return nullptr;\n", task.elements()) + indices(task, "      ");
      for (size_t k = 0; k < task.sums.size(); ++k) {
        const std::string row = fmt::format("{}_p + ({}) * int64_t({})", program_.products[task.sums[k].product].weight,
                                            task.sums[k].column, program_.length);
        const bool all = k + 1 == task.sums.size() && places_of(task) == static_cast<int>(task.sums.size());
        inside +=
            all ? fmt::format("      return {};\n", row)
                : fmt::format("      if (column < {}) return {};\n", (k + 1) * static_cast<size_t>(elements), row);
      }
      if (places_of(task) > static_cast<int>(task.sums.size())) inside += "      return nullptr;\n";
      return inside;
    });
    return text + "  };\n";
  }

  std::string compute_rows_text() const {
    std::string text = "  auto compute_rows = [&] {\n";
    for (const auto& [threads, row] : rows_) {
      if (threads == kWarpThreads) {
        text +=
            "    if constexpr (C::kRows > 1) {\n      const int thread = static_cast<int>(threadIdx.x % 32);\n"
            "      for (int64_t l0 = threadIdx.x / 32; l0 < rows; l0 += C::kWarps) {\n";
        text += further_in(pointers("  ") + row, 6) + "      }\n    }\n";
      } else {
        text += fmt::format(
            "    if constexpr (C::kRows == 1 && C::kWarps == {}) {{\n      const int thread = "
            "static_cast<int>(threadIdx.x);\n      constexpr int64_t l0 = 0;\n",
            threads / kWarpThreads);
        text += further_in(pointers("  ") + row, 4) + "    }\n";
      }
    }
    text += "    __syncthreads();\n";
    for (size_t k = 0; k < program_.kept.size(); ++k) {
      const std::string& name = program_.kept[k];
      const CudaPrinter::SharedArray& array = arrays_.at(name);
      text += fmt::format(
          "    if (blockIdx.x == {0} % gridDim.x) store_rows<{1}, {2}>({3}_p, {3}_s0, memory + {4}, {5}, rows);\n", k,
          element_name(array.dtype), array.elements, name, places_.at(name), slot_);
    }
    return text + "  };\n";
  }

  // What becomes of the sums of a tile.
  std::string finish_text() const {
    std::string text = "  auto finish = [&](int tile, const auto& total) {\n";
    text += by_task([&](const ProductTask& task, int64_t first) {
      const int elements = elements_of_tile(task);
      std::string inside = fmt::format(
          "      for (int at = static_cast<int>(threadIdx.x); at < {0} * rows; at += 32 * C::kWarps) {{\n"
          "        const int column = at % {0}, element = {1} * {0} + column;\n"
          "        if (element >= {2}) continue;\n        const int64_t l0 = at / {0};\n",
          elements, tile_of_task(first), task.elements());
      inside += indices(task, "        ");
      std::set<std::string> read;
      for (const auto& [name, array] : arrays_)
        for (const ProductTask::Store& s : task.stores) {
          if (has_word(s.element.value, name)) read.insert(name);
          for (const LoopStatement& scalar : s.scalars)
            if (has_word(scalar.value, name)) read.insert(name);
        }
      inside += pointers("        ", &read);
      for (size_t k = 0; k < task.sums.size(); ++k) {
        const Product& p = program_.products[task.sums[k].product];
        std::string sum = fmt::format("total(column{}, static_cast<int>(l0))",
                                      k == 0 ? "" : fmt::format(" + {}", k * static_cast<size_t>(elements)));
        if (!p.bias.empty()) sum += fmt::format(" + float({}_p[{}])", p.bias, task.sums[k].column);
        inside += fmt::format("        const {} sum{} = {};\n", element_name(p.stored), k, sum);
      }
      for (const ProductTask::Store& s : task.stores) {
        inside += "        {\n";
        for (const LoopStatement& scalar : s.scalars)
          inside += fmt::format("          const {} {} = {};\n", element_name(scalar.dtype), scalar.name, scalar.value);
        inside += fmt::format("          {}\n        }}\n", store_text(s.element, s.element.name + "_p"));
      }
      return inside + "      }\n      return;\n";
    });
    return text + "  };\n";
  }

  const RegionText& region_;
  const ProductProgram& program_;
  std::map<int, std::string> rows_;  // by threads that share a row
  std::set<std::string> packed_;     // arrays that must be aligned
  std::map<std::string, CudaPrinter::SharedArray> arrays_;
  std::map<std::string, int64_t> places_;  // in bytes behind the begin of a row's
  int64_t slot_ = 0;                       // bytes of a row
};

int64_t rows_that_fit(int64_t slot_bytes) {
  int64_t rows = kMostProductRows;
  while (rows > 1 && rows * slot_bytes > kMostRowsBytes) rows /= 2;
  return rows;
}

RegionText text_without_names(const ProductProgram& program) {
  RegionText text;
  text.products = &program;
  return text;
}

}  // namespace

std::string ProductCut::text() const {
  return fmt::format("{} warps x {} loads, {}", warps, unroll,
                     spread ? "blocks that share all tiles" : "a block for each tile");
}

std::span<const ProductCut> product_cuts() { return kProductCuts; }

std::string write_limits(ProductProgram& program) {
  try {
    const RegionText text = text_without_names(program);
    const ProductPrinter printer(text, program);
    const int64_t bytes = printer.slot_bytes();
    if (bytes > kMostRowBytes)
      return fmt::format("a row needs {} KiB of shared memory, and a block has {}", bytes / 1024, kMostRowBytes / 1024);
    program.limits = {rows_that_fit(bytes), printer.packed()};
    return {};
  } catch (const NoLoops& why) {
    return why.what();
  }
}

ProductTexts product_texts(const RegionText& region, const std::string& name) {
  const ProductProgram& program = *region.products;
  ProductPrinter printer(region, program);
  const std::string body = printer.body();
  std::string parameters, arguments, pointers;
  auto pass = [&](const std::string& parameter, const std::string& argument) {
    parameters += ", " + parameter;
    arguments += ", " + argument;
  };
  for (size_t k = 0; k < region.names.size(); ++k) {
    const std::string& array = region.names[k];
    auto use = program.arrays.find(array);
    if (use == program.arrays.end()) continue;
    const std::string type = fmt::format("{}{}*", use->second.written ? "" : "const ", element_name(use->second.dtype));
    pass(fmt::format("{} {}_p", type, array), fmt::format("static_cast<{}>(arrays[{}].data)", type, k));
    for (size_t d = 0; d < use->second.rank; ++d)
      if (has_word(body, fmt::format("{}_s{}", array, d)))
        pass(fmt::format("int64_t {}_s{}", array, d), fmt::format("arrays[{}].strides[{}]", k, d));
    if (has_word(body, array + "_n")) pass(fmt::format("int64_t {}_n", array), fmt::format("arrays[{}].sizes[0]", k));
  }
  ProductTexts texts;
  for (size_t t = 0; t < program.rows.tables.size(); ++t) {
    texts.tables +=
        fmt::format("__constant__ const double {}_table{}[] = {{{}}};\n", name, t, table_text(program.rows.tables[t]));
    pointers += fmt::format("  const double* const table{0} = {1}_table{0};\n", t, name);
  }
  texts.kernel = fmt::format(
      "template <class C>\n__global__ void __launch_bounds__(32 * C::kWarps, C::kBlocks) {}_kernel(int rows, int "
      "of_block{}) {{\n{}{}}}\n",
      name, parameters, pointers, body);
  const int64_t most = rows_that_fit(printer.slot_bytes());
  texts.launcher = fmt::format(
      "FK_LAUNCHER {}(const Array* arrays, int64_t rows, int cut, int dependent, void* stream) {{\n"
      "  auto run = [&](auto* kernel, int warps, bool spread, int most) {{\n"
      "    return launch_products(kernel, {}, spread, 32 * warps, {}, most, rows, dependent, stream{});\n  }};\n"
      "  switch (cut) {{\n",
      name, printer.all_tiles(), printer.slot_bytes(), arguments);
  for (size_t k = 0; k < std::size(kProductCuts); ++k) {
    const ProductCut& cut = kProductCuts[k];
    if (cut.several && most == 1) continue;
    texts.launcher +=
        fmt::format("    case {0}:\n      return run({1}_kernel<Cut<{2}, {3}, {4}, {5}>>, {2}, {6}, {5});\n", k, name,
                    cut.warps, cut.unroll, cut.blocks, cut.several ? most : 1, cut.spread);
  }
  texts.launcher += "    default:\n      return 1;  // cudaErrorInvalidValue\n  }\n}\n";
  return texts;
}

}  // namespace fk
