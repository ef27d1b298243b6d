// Encoder: runs a model without states once over a batch of texts or images. The task of a model decides which driver
// it has; each is one file: text_encoder.cpp, image_encoder.cpp and diffusion_lm.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/device_runtime.h"
#include "core/memory.h"
#include "engine/model.h"
#include "ops/forward_context.h"
#include "ops/l1/sequence_pool.h"
#include "ops/op.h"

namespace fk {

// What an encoder takes: texts as token ids, or images. One of the two is empty.
struct EncoderInput {
  std::vector<std::vector<int64_t>> texts = {};
  std::vector<Tensor> images = {};  // f32 [C, H, W], normalised as the model's preprocessor says

  // Of a diffusion language model: the places in each text whose logits are wanted; empty: all.
  std::vector<std::vector<int64_t>> wanted = {};

  size_t size() const { return texts.size() + images.size(); }
};

// What comes out, on the model's device, valid until the next pass.
struct Encoded {
  // [T, D]: the vectors of all tokens or patches, of one input after the other; of a diffusion language model logits
  // f32 [L, V] of the tokens that are wanted.
  View last_hidden_state;
  OptView pooler_output;  // [S, D]: of the model's own pooling head, where it has one
  View cu_seqlens;        // i32 [S+1]: where the vectors of each input start
};

// How one vector of an input is made from those of its tokens.
struct EmbeddingOptions {
  std::string_view pooling = "cls";  // cls, mean, last, or pooler: the model's own pooling head
  bool normalize = true;
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // One pass over all inputs; waits for the device. Throws Error where one does not fit the model.
  Encoded forward(const EncoderInput& input);
  // Of what forward returned: f32 [S, D] on the host, valid until the next call. Throws Error where the model has no
  // pooling head.
  View embed(const Encoded& encoded, const EmbeddingOptions& options);

  // Inputs made from a seed: `tokens` is the length of a text; images have the size of the model.
  virtual EncoderInput random_input(int64_t count, int64_t tokens, uint64_t seed) const = 0;
  // The workload of a pass over such inputs.
  virtual std::vector<Sequence> sequences(const EncoderInput& input) const = 0;
  // What an input is called: "text" or "image".
  virtual std::string_view noun() const = 0;

  // Observes every operator call from now on; nullptr: no observer.
  void observe(CallObserver* observer) { observer_ = observer; }
  const Model& model() const { return model_; }

 protected:
  Encoder(const Model& model, ThreadPool& pool)
      : model_(model),
        pool_(pool),
        builder_(BuildOptions{.device = model.device}),
        arena_(model.device),
        embedding_arena_(model.device) {}

  // Throws Error with the first input that the model cannot take.
  virtual void check(const EncoderInput& input) const = 0;
  // The arguments of the model that are its own, in order, without cu_seqlens and the outputs; on the host.
  virtual void fill_arguments(const EncoderInput& input, std::vector<OptView>& arguments) = 0;

  // At least this many elements, of memory that is kept from pass to pass.
  static View grown(Tensor& tensor, const Shape& shape, DType dtype, Device device = kCpu);

  const Model& model_;
  ThreadPool& pool_;

 private:
  Context context(Arena& arena);
  // On a device the second pass with the same shapes is recorded, and replayed from then on; the first one is for
  // autotuning and allocation.
  void run(const std::vector<OptView>& arguments);
  void set_starts(const std::vector<Sequence>& sequences);
  // The same numbers on the model's device: `host` itself, or a copy in `copy`.
  View on_device(const View& host, Tensor& copy) const;

  Builder builder_;
  Arena arena_, embedding_arena_;
  AttentionMetadata metadata_;
  Tensor starts_, lengths_, hidden_, pooled_, embeddings_, embeddings_on_device_;
  Tensor starts_on_device_, lengths_on_device_;
  std::vector<Tensor> arguments_on_device_;
  std::vector<std::pair<const void*, Shape>> places_;  // of the arguments of the last pass
  std::unique_ptr<RecordedWork> recorded_;
  CallObserver* observer_ = nullptr;
};

// The driver of the model's task. Throws Error where the model is no encoder.
std::unique_ptr<Encoder> make_encoder(const Model& model, ThreadPool& pool);

// A driver registers itself, as a verb does.
using EncoderFactory = std::unique_ptr<Encoder> (*)(const Model& model, ThreadPool& pool);
struct RegisterEncoder {
  RegisterEncoder(Task task, EncoderFactory factory);
};

}  // namespace fk
