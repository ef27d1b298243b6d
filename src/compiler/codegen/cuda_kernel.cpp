#include "compiler/codegen/cuda_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/cuda_attention.h"
#include "compiler/codegen/cuda_attention_prelude.h"
#include "compiler/codegen/cuda_prelude.h"
#include "compiler/codegen/cuda_printer.h"
#include "compiler/codegen/cuda_product.h"
#include "compiler/codegen/cuda_product_prelude.h"
#include "compiler/codegen/statement_text.h"

namespace fk {
namespace {

struct CudaTexts {
  std::string tables, kernel, launcher;
};

CudaTexts texts_of(const RegionText& region, const std::string& name) {
  if (region.products != nullptr) {
    ProductTexts texts = product_texts(region, name);
    return {std::move(texts.tables), std::move(texts.kernel), std::move(texts.launcher)};
  }
  if (region.attention != nullptr) {
    AttentionTexts texts = attention_texts(region, name);
    return {"", std::move(texts.kernel), std::move(texts.launcher)};
  }
  const LoopProgram& loops = *region.loops;
  CudaPrinter printer(loops, region.constants, region.updated);
  CudaTexts texts;
  const std::string body = printer.body();
  std::string parameters, arguments;
  auto pass = [&](const std::string& parameter, const std::string& argument) {
    parameters += (parameters.empty() ? "" : ", ") + parameter;
    arguments += ", " + argument;
  };
  for (size_t k = 0; k < region.names.size(); ++k) {
    const std::string& array = region.names[k];
    auto use = loops.arrays.find(array);
    if (use == loops.arrays.end()) continue;
    const std::string type = fmt::format("{}{}*", use->second.written ? "" : "const ", element_name(use->second.dtype));
    pass(fmt::format("{} {}_p", type, array), fmt::format("static_cast<{}>(arrays[{}].data)", type, k));
    for (size_t d = 0; d < use->second.rank; ++d)
      if (body.find(fmt::format("* {}_s{}", array, d)) != body.npos)
        pass(fmt::format("int64_t {}_s{}", array, d), fmt::format("arrays[{}].strides[{}]", k, d));
    if (body.find(array + "_n") != body.npos)
      pass(fmt::format("int64_t {}_n", array), fmt::format("arrays[{}].sizes[0]", k));
  }
  std::string pointers;
  for (size_t t = 0; t < loops.tables.size(); ++t) {
    texts.tables +=
        fmt::format("__constant__ const double {}_table{}[] = {{{}}};\n", name, t, table_text(loops.tables[t]));
    pointers += fmt::format("  const double* const table{0} = {1}_table{0};\n", t, name);
  }
  const ThreadLayout& layout = printer.layout();
  texts.kernel =
      fmt::format("template <bool kAligned>\n__global__ void __launch_bounds__({}) {}_kernel({}) {{\n{}{}}}\n",
                  layout.threads, name, parameters, pointers, body);
  texts.launcher = fmt::format(
      "FK_LAUNCHER {0}(const Array* arrays, int64_t rows, int aligned, int dependent, void* stream) {{\n"
      "  return launch(aligned != 0 ? {0}_kernel<true> : {0}_kernel<false>, rows{1}, {2}, dependent, stream{3});\n}}\n",
      name, layout.pieces > 1 ? fmt::format(" * {}", layout.pieces) : "", layout.threads, arguments);
  return texts;
}

}  // namespace

std::string cuda_refusal(const LoopProgram& loops, const std::map<std::string, std::string>& updated) {
  try {
    CudaPrinter(loops, {}, updated).body();
    return {};
  } catch (const NoLoops& why) {
    return why.what();
  }
}

std::string cuda_region_body(const RegionText& region) {
  CudaTexts texts = texts_of(region, "region");
  return texts.tables + texts.kernel + texts.launcher;
}

std::string cuda_region_source(const std::vector<RegionText>& regions, const std::string& prelude) {
  std::string kernels;
  for (const RegionText& region : regions) {
    CudaTexts texts = texts_of(region, region.name);
    kernels += fmt::format("\nnamespace {{\n{}{}{}}}  // namespace\n{}", texts.tables, in_comment(region.comment),
                           texts.kernel, texts.launcher);
  }
  // Emulated devices have their own prelude for all kinds of kernels.
  std::string needed(prelude.empty() ? kCudaPrelude : std::string_view(prelude));
  const bool multiplies =
      std::any_of(regions.begin(), regions.end(), [](const auto& r) { return r.products != nullptr; });
  const bool attends =
      std::any_of(regions.begin(), regions.end(), [](const auto& r) { return r.attention != nullptr; });
  if ((multiplies || attends) && prelude.empty()) needed += kCudaProductPrelude;
  if (attends && prelude.empty()) needed += kCudaAttentionPrelude;
  needed += kCudaPacks;
  if (multiplies) needed += kCudaProducts;
  if (attends) needed += kCudaAttention;
  return fmt::format(
      "// Kernels written by fastkernels: each computes several calls of a model, a block one row of all of them.\n"
      "// Names: x inputs, y outputs, r results that exist for one row; l0 the row, l1, l2, ... and i the element.\n"
      "{}\nnamespace {{\n\n{}\n}}  // namespace\n{}",
      needed, cuda_functions_in(kernels), kernels);
}

std::string cuda_functions_version() { return std::string(kCudaPrelude) + std::string(kCudaPacks) + cuda_functions(); }

std::string cuda_attention_version() {
  return std::string(kCudaProductPrelude) + std::string(kCudaAttentionPrelude) + std::string(kCudaAttention);
}

std::string cuda_products_version() { return std::string(kCudaProductPrelude) + std::string(kCudaProducts); }

}  // namespace fk
