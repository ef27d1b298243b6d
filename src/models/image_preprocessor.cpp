#include "models/image_preprocessor.h"

#include <filesystem>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"
#include "models/json_fields.h"

namespace fk {
namespace {

std::vector<double> numbers(const JsonFields& fields, const char* key, const std::vector<double>& by_default) {
  const Json* list = fields.find(key);
  if (list == nullptr) return by_default;
  std::vector<double> values;
  if (list->is_array())
    for (const Json& value : *list)
      if (value.is_number()) values.push_back(value.get<double>());
  if (!list->is_array() || values.empty() || values.size() != list->size())
    throw Error("{}: {} must be a list of numbers.", fields.what(), key);
  return values;
}

}  // namespace

ImagePreprocessor read_image_preprocessor(const std::string& directory) {
  ImagePreprocessor result;
  std::filesystem::path path = std::filesystem::path(directory) / "preprocessor_config.json";
  std::error_code ignored;
  if (directory.empty() || !std::filesystem::exists(path, ignored)) return result;
  Json json = parse_json_file(path.string());
  JsonFields fields(json, in_quotes(path.string()));
  result.rescale_factor = fields.real("rescale_factor", 1e-9, 1e9).value_or(result.rescale_factor);
  if (!fields.boolean("do_rescale").value_or(true)) result.rescale_factor = 1;
  result.mean = numbers(fields, "image_mean", result.mean);
  result.deviation = numbers(fields, "image_std", result.deviation);
  if (!fields.boolean("do_normalize").value_or(true)) result.mean = {0}, result.deviation = {1};
  for (double deviation : result.deviation)
    if (!(deviation > 0)) throw Error("{}: image_std must be positive.", fields.what());
  return result;
}

Tensor preprocess(const ImagePreprocessor& preprocessor, ImageFile image, const ModelFacts& facts,
                  const std::string& path) {
  const View& pixels = image.pixels.view();
  bool planes = image.normalised;
  int64_t height = pixels.size(planes ? 1 : 0), width = pixels.size(planes ? 2 : 1),
          channels = pixels.size(planes ? 0 : 2);
  if (height != facts.image_size || width != facts.image_size)
    throw Error("The image {} has {} x {} pixels, and the model takes {} x {}; resize it first.", in_quotes(path),
                width, height, facts.image_size, facts.image_size);
  if (channels != facts.num_channels)
    throw Error("The image {} has {} channels, and the model takes {}.", in_quotes(path), channels, facts.num_channels);
  if (image.normalised) return std::move(image.pixels);
  auto of_channel = [&](const std::vector<double>& list, int64_t c) {
    if (list.size() != 1 && static_cast<int64_t>(list.size()) != channels)
      throw Error("The preprocessor has {} means or deviations, and the model has {} channels.", list.size(), channels);
    return list.size() == 1 ? list[0] : list[static_cast<size_t>(c)];
  };
  Tensor result({channels, height, width}, DType::kF32);
  for (int64_t c = 0; c < channels; ++c) {
    double mean = of_channel(preprocessor.mean, c), deviation = of_channel(preprocessor.deviation, c);
    for (int64_t i = 0; i < height * width; ++i)
      result.ptr<float>()[c * height * width + i] = static_cast<float>(
          (pixels.ptr<uint8_t>()[i * channels + c] * preprocessor.rescale_factor - mean) / deviation);
  }
  return result;
}

}  // namespace fk
