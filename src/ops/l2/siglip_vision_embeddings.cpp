#include "ops/l2/siglip_vision_embeddings.h"

#include "ops/l1/embedding.h"
#include "ops/l1/scale_add.h"
#include "ops/register.h"

namespace fk {

Workload image_workload(int64_t images, int64_t patches) {
  return Workload::batch(std::vector<Sequence>(static_cast<size_t>(images), {patches, 0}));
}

Conv2d::Init SiglipVisionEmbeddings::patches(const Init& init) {
  return {.in_channels = init.num_channels,
          .out_channels = init.hidden_size,
          .kernel_size = init.patch_size,
          .stride = init.patch_size,
          .image_height = init.image_size,
          .image_width = init.image_size,
          .dtype = init.dtype};
}

OutputSpecs SiglipVisionEmbeddings::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0) * patches(init).places(), init.hidden_size}, given[0]->dtype()}};
}

Inputs SiglipVisionEmbeddings::inputs(const Init& init, const Workload& w) {
  Workload images = w;
  images.sequences = {{w.num_sequences(), 0}};
  Inputs inputs = Conv2d::inputs(patches(init), images);
  inputs.push_back(InputSpec{{{w.num_sequences() * patches(init).places()}, DType::kI64},
                             Generator::integers(0, patches(init).places())});
  return inputs;
}

Cost SiglipVisionEmbeddings::cost(const Init& init, const Workload& w) {
  Workload images = w;
  images.sequences = {{w.num_sequences(), 0}};
  Cost cost = Conv2d::cost(patches(init), images);
  auto table = static_cast<double>(patches(init).places()), D = static_cast<double>(init.hidden_size);
  auto B = static_cast<double>(w.num_sequences());
  cost.read_bytes += distinct_rows(table, table * B) * D * static_cast<double>(dtype_size(w.dtype)) + 8 * table * B;
  cost.vector_flops += table * B * D;
  return cost;
}

Tolerance SiglipVisionEmbeddings::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(patches(init).window()));
}

std::vector<Case<SiglipVisionEmbeddings>> SiglipVisionEmbeddings::cases() {
  return {{"two images", {.hidden_size = 40, .image_size = 12, .patch_size = 4}, image_workload(2, 9)},
          {"a rest of pixels",
           {.hidden_size = 33, .num_channels = 1, .image_size = 31, .patch_size = 7},
           image_workload(3, 16)}};
}

namespace {

class ComposedSiglipVisionEmbeddings final : public SiglipVisionEmbeddings {
 public:
  ComposedSiglipVisionEmbeddings(const Init& c, Builder& builder)
      : SiglipVisionEmbeddings(c),
        patch_embedding(builder.child<Conv2d>("patch_embedding", patches(c))),
        position_embedding(builder.child<Embedding>(
            "position_embedding",
            {.num_embeddings = patches(c).places(), .embedding_dim = c.hidden_size, .dtype = c.dtype})),
        add(builder.child<ScaleAdd>("add", {})) {}

  void forward(Context& ctx, View pixel_values, View positions, View out) override {
    View rows = patch_embedding(ctx, pixel_values).reshape(out.shape());
    add.into(ctx, position_embedding(ctx, positions), rows, out);
  }

 private:
  Op<Conv2d> patch_embedding;
  Op<Embedding> position_embedding;
  Op<ScaleAdd> add;
};

FK_COMPOSITION(SiglipVisionEmbeddings, ComposedSiglipVisionEmbeddings);

}  // namespace
}  // namespace fk
