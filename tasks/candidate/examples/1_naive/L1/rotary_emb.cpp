// rotary_emb (L1), naive: correct and slow. Make it fast, then run
//   fastkernels kernels --target rotary_emb
//
// The arguments of one call, constructed with head_size=128, rotary_dim=128, rotary_offset=0,
//   max_position_embeddings=8192, base=10000, is_neox_style=true, rope_scaling={type=llama3, factor=8, low_freq_factor=1, high_freq_factor=4,
//   original_max_position_embeddings=64, beta_fast=32, beta_slow=1, truncate=true, attention_factor=1}, dtype=bf16:
//   positions  i64[36]        input
//   query      bf16[36, 384]  read and written
//   key        bf16[36, 128]  read and written, optional
#include <fastkernels/candidate.h>
#include <math.h>
#include <string.h>

// The rotation angle of pair `i` of `dims / 2` per position; sines and cosines are to be multiplied by
// scaling.attention_factor. Scaling: an Init's rope_scaling.
template <class Scaling>
double inverse_frequency(int64_t i, int64_t dims, double base, const Scaling& scaling) {
  double f = pow(base, -2.0 * i / dims);
  if (strcmp(scaling.type, "linear") == 0) return f / scaling.factor;
  if (strcmp(scaling.type, "yarn") == 0) {
    // Pairs that turn often are kept, those that turn seldom are scaled, those between interpolated by their index.
    auto pair = [&](double turns) {
      return dims * log(scaling.original_max_position_embeddings / (turns * 2 * M_PI)) / (2 * log(base));
    };
    double first = pair(scaling.beta_fast), last = pair(scaling.beta_slow);
    if (scaling.truncate) first = floor(first), last = ceil(last);
    first = fmax(first, 0), last = fmin(last, dims - 1.0);
    if (first == last) last += 0.001;
    double divide = fmin(fmax((i - first) / (last - first), 0), 1);
    return (1 - divide) * f + divide * f / scaling.factor;
  }
  if (strcmp(scaling.type, "proportional") == 0)
    return i < static_cast<int64_t>(scaling.partial_rotary_factor * dims / 2) ? f / scaling.factor : 0;
  if (strcmp(scaling.type, "llama3") != 0) return f;
  // Long wavelengths are scaled, short ones kept, those between interpolated.
  double turns = scaling.original_max_position_embeddings * f / (2 * M_PI);
  double keep = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  keep = fmin(fmax(keep, 0), 1);
  return keep * f + (1 - keep) * f / scaling.factor;
}

class RotaryEmbedding : public fk::RotaryEmbedding {
 public:
  using fk::RotaryEmbedding::RotaryEmbedding;

  void forward(fk::Context& ctx, fk::View positions, fk::View query, fk::OptView key) override {
    fk::with_float(query.dtype(), [&]<class T>(T) {
      ctx.parallel_for(positions.size(0), 1, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          double position = double(*positions.row<int64_t>(t));
          turn(query.row<T>(t), query.size(1), position);
          if (key) turn(key->row<T>(t), key->size(1), position);
        }
      });
    });
  }

 private:
  template <class T>
  void turn(T* row, int64_t width, double position) const {
    int64_t half = init_.rotary_dim / 2;
    for (int64_t i = 0; i < half; ++i) {
      double angle = position * inverse_frequency(i, init_.rotary_dim, init_.base, init_.rope_scaling);
      double factor = init_.rope_scaling.attention_factor, c = factor * cos(angle), s = factor * sin(angle);
      for (T* head = row + init_.rotary_offset; head < row + width; head += init_.head_size) {
        T& a = head[init_.is_neox_style ? i : 2 * i];
        T& b = head[init_.is_neox_style ? i + half : 2 * i + 1];
        double x = a, y = b;
        a = T(x * c - y * s);
        b = T(y * c + x * s);
      }
    }
  }
};

FK_CANDIDATE(RotaryEmbedding)
