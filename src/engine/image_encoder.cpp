// The driver of image encoders: stacks the pixels of all images in the model's dtype and numbers their patches.
#include <fmt/format.h>

#include "core/error.h"
#include "core/rng.h"
#include "engine/encoder.h"
#include "engine/host_staging.h"
#include "models/convert.h"

namespace fk {
namespace {

class ImageEncoder final : public Encoder {
 public:
  ImageEncoder(const Model& model, ThreadPool& pool)
      : Encoder(model, pool), facts_(model.config.facts), pixels_(model.device) {}

  std::string_view noun() const override { return "image"; }

  std::vector<Sequence> sequences(const EncoderInput& input) const override {
    return std::vector<Sequence>(input.images.size(), {facts_.num_patches(), 0});
  }

  EncoderInput random_input(int64_t count, int64_t, uint64_t seed) const override {
    EncoderInput input;
    for (int64_t i = 0; i < count; ++i) {
      Stream stream(seed, fmt::format("image {}", i));
      Tensor& image = input.images.emplace_back(image_shape(), DType::kF32);
      for (int64_t k = 0; k < image.view().numel(); ++k)
        image.ptr<float>()[k] = static_cast<float>(2 * stream.uniform(static_cast<uint64_t>(k)) - 1);
    }
    return input;
  }

 protected:
  void check(const EncoderInput& input) const override {
    if (!input.texts.empty()) throw Error("{} takes images, not texts.", model_.name);
    for (const Tensor& image : input.images) {
      const View& pixels = image.view();
      if (pixels.shape() != image_shape() || pixels.dtype() != DType::kF32)
        throw Error("{} takes images of {} channels and {} x {} pixels, and one is {}; bring it to that size first.",
                    model_.name, facts_.num_channels, facts_.image_size, facts_.image_size, pixels.str());
    }
  }

  void fill_arguments(const EncoderInput& input, std::vector<OptView>& arguments) override {
    auto count = static_cast<int64_t>(input.images.size());
    int64_t patches = facts_.num_patches(), each = image_shape().numel();
    View pixels = pixels_.grown({count, facts_.num_channels, facts_.image_size, facts_.image_size}, facts_.dtype);
    View positions = grown(positions_, {count * patches}, DType::kI64);
    pool_.parallel_for(count * facts_.num_channels, 1, [&](int64_t begin, int64_t end) {
      const int64_t plane = each / facts_.num_channels;
      for (int64_t i = begin; i < end; ++i) {
        const View& image = input.images[static_cast<size_t>(i / facts_.num_channels)].view();
        const auto* from = image.ptr<float>() + i % facts_.num_channels * plane;
        auto* to = static_cast<std::byte*>(pixels.data()) + i * plane * static_cast<int64_t>(dtype_size(facts_.dtype));
        convert_elements(from, DType::kF32, to, facts_.dtype, plane);
      }
    });
    for (int64_t i = 0; i < count * patches; ++i) positions.ptr<int64_t>()[i] = i % patches;
    arguments = {pixels, positions};
  }

 private:
  Shape image_shape() const { return {facts_.num_channels, facts_.image_size, facts_.image_size}; }

  const ModelFacts& facts_;
  HostStaging pixels_;
  Tensor positions_;
};

const RegisterEncoder kImageEncoder(Task::kImageEncoder,
                                    [](const Model& model, ThreadPool& pool) -> std::unique_ptr<Encoder> {
                                      return std::make_unique<ImageEncoder>(model, pool);
                                    });

}  // namespace
}  // namespace fk
