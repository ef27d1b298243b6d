// rotary_emb, third step: sines and cosines depend on the position alone, so they are tables, made once and shared by
// all layers of a model. The baseline computes them for every token of every call.
#include <fastkernels/candidate.h>

#include <memory>
#include <mutex>

#include "../rope_frequencies.h"

namespace {

// Cosines, then sines, of every pair: [positions, 2, rotary_dim / 2].
struct Table {
  std::vector<double> frequencies;
  double factor;  // of every value
  std::vector<float> values;

  const float* row(int64_t position) const { return values.data() + size_t(position) * 2 * frequencies.size(); }
};

constexpr int64_t kPositions = 16384;  // a larger table would need too much memory; calls beyond it are refused

std::shared_ptr<const Table> table_for(const std::vector<double>& frequencies, double factor) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<const Table>> tables;
  std::lock_guard lock(mutex);
  for (const auto& table : tables)
    if (table->frequencies == frequencies && table->factor == factor) return table;
  auto table = std::make_shared<Table>();
  table->frequencies = frequencies;
  table->factor = factor;
  size_t half = frequencies.size();
  table->values.resize(size_t(kPositions) * 2 * half);
  for (int64_t p = 0; p < kPositions; ++p)
    for (size_t i = 0; i < half; ++i) {
      table->values[size_t(p) * 2 * half + i] = float(factor * cos(double(p) * frequencies[i]));
      table->values[size_t(p) * 2 * half + half + i] = float(factor * sin(double(p) * frequencies[i]));
    }
  tables.push_back(table);
  return table;
}

}  // namespace

class RotaryEmbedding : public fk::RotaryEmbedding {
 public:
  explicit RotaryEmbedding(const Init& init)
      : fk::RotaryEmbedding(init), table_(table_for(rope_frequencies(init), init.rope_scaling.attention_factor)) {}

  const char* refuse(fk::Args args) const override {
    for (int64_t t = 0; t < args[0].size(0); ++t)
      if (int64_t p = *args[0].row<int64_t>(t); p < 0 || p >= kPositions) return "a position lies beyond its tables";
    return nullptr;
  }

  void forward(fk::Context& ctx, fk::View positions, fk::View query, fk::OptView key) override {
    int64_t width = query.size(1) + (key ? key->size(1) : 0);
    fk::with_float(query.dtype(), [&]<class T>(T) {
      ctx.parallel_for(positions.size(0), 1 + 16384 / width, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const float* angles = table_->row(*positions.row<int64_t>(t));
          turn(query.row<T>(t), query.size(1), angles);
          if (key) turn(key->row<T>(t), key->size(1), angles);
        }
      });
    });
  }

 private:
  template <class T>
  void turn(T* row, int64_t width, const float* angles) const {
    int64_t half = init_.rotary_dim / 2;
    for (T* head = row + init_.rotary_offset; head < row + width; head += init_.head_size) {
      if (init_.is_neox_style)
        turn_pairs<1>(head, head + half, half, angles);
      else
        turn_pairs<2>(head, head + 1, half, angles);
    }
  }

  template <int kStep, class T>
  static void turn_pairs(T* a, T* b, int64_t half, const float* angles) {
    const float *c = angles, *s = angles + half;
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      float x = a[i * kStep], y = b[i * kStep];
      a[i * kStep] = x * c[i] - y * s[i];
      b[i * kStep] = y * c[i] + x * s[i];
    }
  }

  const std::shared_ptr<const Table> table_;
};

FK_CANDIDATE(RotaryEmbedding)
