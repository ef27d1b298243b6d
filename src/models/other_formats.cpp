#include "models/other_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "models/in_quotes.h"

namespace fk {
namespace {

struct Format {
  std::string_view ending;
  std::string_view name;
};

constexpr Format kFormats[] = {
    {".gguf", "GGUF, the format of llama.cpp"},
    {".ggml", "GGML, an old format of llama.cpp"},
    {".bin", "PyTorch's pickle format"},
    {".pt", "PyTorch's pickle format"},
    {".pth", "PyTorch's pickle format"},
    {".ckpt", "a pickle or TensorFlow checkpoint"},
    {".h5", "TensorFlow's HDF5"},
    {".msgpack", "Flax's msgpack"},
    {".onnx", "ONNX"},
    {".npz", "NumPy's archive"},
    {".tflite", "TensorFlow Lite"},
    {".mlmodel", "Core ML"},
    {".engine", "a TensorRT engine"},
    {"adapter_model.safetensors", "a LoRA adapter without its model"},
    {"model.safetensors", "safetensors"},
    {"consolidated.safetensors", "Mistral's own layout of tensors"},
    {".safetensors", "safetensors under another name than model.safetensors"},
};

// Names of the files in a directory that hold weights, in order.
std::vector<std::string> weight_files_in(const std::string& directory) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code ignored;
  for (fs::directory_iterator at(directory, ignored), end; at != end; at.increment(ignored)) {
    std::string name = at->path().filename();
    // Not weights, although the extension is the same.
    bool other = name == "training_args.bin" || name == "optimizer.bin" || name == "scheduler.pt";
    if (!other && !weight_format_of(name).empty()) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string weight_format_of(const std::string& file_name) {
  std::string name = file_name;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Format& format : kFormats)
    if (name.ends_with(format.ending)) return std::string(format.name);
  return "";
}

std::string other_weights_in(const std::string& directory) {
  const std::vector<std::string> files = weight_files_in(directory);
  if (files.empty()) return "";
  return fmt::format(" (it holds {}, which is {}{})", in_quotes(files[0]), weight_format_of(files[0]),
                     files.size() > 1 ? fmt::format("; and {} more", files.size() - 1) : "");
}

std::string advice_on_weights_in(const std::string& directory) {
  for (const std::string& file : weight_files_in(directory))
    if (file.ends_with(".gguf"))
      return fmt::format("name a GGUF file to read it, as --model {}",
                         in_quotes((std::filesystem::path(directory) / file).string()));
  return "put the weights there as safetensors";
}

}  // namespace fk
