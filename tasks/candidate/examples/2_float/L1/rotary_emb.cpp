// rotary_emb, second step: frequencies once per model, angles once per token instead of once per head.
#include <fastkernels/candidate.h>

#include "../../rope_frequencies.h"

class RotaryEmbedding : public fk::RotaryEmbedding {
 public:
  explicit RotaryEmbedding(const Init& init) : fk::RotaryEmbedding(init), frequencies_(rope_frequencies(init)) {}

  void forward(fk::Context& ctx, fk::View positions, fk::View query, fk::OptView key) override {
    size_t half = frequencies_.size();
    fk::with_float(query.dtype(), [&]<class T>(T) {
      ctx.parallel_for(positions.size(0), 16, [&](int64_t begin, int64_t end) {
        std::vector<float> cosines(half), sines(half);
        for (int64_t t = begin; t < end; ++t) {
          for (size_t i = 0; i < half; ++i) {
            double angle = double(*positions.row<int64_t>(t)) * frequencies_[i];
            cosines[i] = float(init_.rope_scaling.attention_factor * cos(angle));
            sines[i] = float(init_.rope_scaling.attention_factor * sin(angle));
          }
          turn(query.row<T>(t), query.size(1), cosines.data(), sines.data());
          if (key) turn(key->row<T>(t), key->size(1), cosines.data(), sines.data());
        }
      });
    });
  }

 private:
  template <class T>
  void turn(T* row, int64_t width, const float* c, const float* s) const {
    int64_t half = init_.rotary_dim / 2, step = init_.is_neox_style ? 1 : 2, other = init_.is_neox_style ? half : 1;
    for (T* head = row + init_.rotary_offset; head < row + width; head += init_.head_size) {
      for (int64_t i = 0; i < half; ++i) {
        float x = head[i * step], y = head[i * step + other];
        head[i * step] = x * c[i] - y * s[i];
        head[i * step + other] = y * c[i] + x * s[i];
      }
    }
  }

  const std::vector<double> frequencies_;
};

FK_CANDIDATE(RotaryEmbedding)
