// Sample on CPU: no sort of the vocabulary. Filters become a cut in the order of probabilities, found by selection
// among the few relevant tokens.
#include "ops/l1/sample.h"

#include <atomic>

#include "backend/cpu/l1/row_max.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "core/rng.h"
#include "ops/register.h"

namespace fk {
namespace {

// Tokens whose largest probability is kept, so that searches skip most of the vocabulary.
constexpr int64_t kBlock = 256;

struct Token {
  float p;
  int32_t index;
};

// Larger probabilities first, of equals the lower index.
bool before(const Token& a, const Token& b) { return a.p > b.p || (a.p == b.p && a.index < b.index); }

// A token is kept if it comes before the cut or is the cut itself.
using Cut = Token;
FK_INLINE bool kept(float p, int32_t index, Cut cut) { return (p > cut.p) | ((p == cut.p) & (index <= cut.index)); }

// Probabilities relative to the largest, and the largest of every block. A NaN counts as impossible.
template <class T>
FK_INLINE void relative_body(const T* logits, float largest, float inverse_temperature, int64_t n, float* p,
                             float* block_max) {
  for (int64_t first = 0; first < n; first += kBlock) {
    int64_t last = std::min(first + kBlock, n);
    int32_t best = 0;  // numbers that are not negative are ordered as their bits
#pragma omp simd reduction(max : best)
    for (int64_t i = first; i < last; ++i) {
      float e = vexp((load(logits[i]) - largest) * inverse_temperature);
      p[i] = e >= 0 ? e : 0.0f;
      best = std::max(best, std::bit_cast<int32_t>(p[i]));
    }
    block_max[first / kBlock] = std::bit_cast<float>(best);
  }
}

FK_SIMD_CLONES void relative_probabilities(const bf16* logits, float largest, float inverse_temperature, int64_t n,
                                           float* p, float* block_max) {
  relative_body(logits, largest, inverse_temperature, n, p, block_max);
}
FK_SIMD_CLONES void relative_probabilities(const f16* logits, float largest, float inverse_temperature, int64_t n,
                                           float* p, float* block_max) {
  relative_body(logits, largest, inverse_temperature, n, p, block_max);
}
FK_SIMD_CLONES void relative_probabilities(const float* logits, float largest, float inverse_temperature, int64_t n,
                                           float* p, float* block_max) {
  relative_body(logits, largest, inverse_temperature, n, p, block_max);
}

FK_SIMD_CLONES float kept_sum(const float* p, int64_t first, int64_t last, Cut cut) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = first; i < last; ++i) sum += kept(p[i], static_cast<int32_t>(i), cut) ? p[i] : 0.0f;
  return sum;
}

// One row's probabilities and the memory to search them, reused from row to row.
class Row {
 public:
  static int64_t scratch_bytes(int64_t n) {
    return n * static_cast<int64_t>(sizeof(float) + sizeof(Token)) +
           2 * blocks_of(n) * static_cast<int64_t>(sizeof(float));
  }

  Row(std::byte* scratch, int64_t n)
      : n_(n),
        blocks_(blocks_of(n)),
        tokens_(reinterpret_cast<Token*>(scratch)),
        p_(reinterpret_cast<float*>(tokens_ + n)),
        block_max_(p_ + n),
        block_scratch_(block_max_ + blocks_) {}

  template <class T>
  int64_t draw(const T* logits, float temperature, int64_t top_k, float top_p, float min_p, double u) {
    // A temperature too small to invert leaves the largest token at 0 and all others at -infinity.
    float inverse = std::min(1.0f / temperature, std::numeric_limits<float>::max());
    relative_probabilities(logits, row_max_number(logits, n_), inverse, n_, p_, block_max_);
    // The largest is 1, so that min_p needs no scaling; without it, every token with a probability above zero.
    Cut cut = min_p > 0 ? Cut{std::min(min_p, 1.0f), INT32_MAX} : Cut{0, -1};
    found_ = -1;
    if (top_k > 0 && top_k < n_) cut = cut_top_k(cut, top_k);
    if (top_p < 1) cut = cut_top_p(cut, static_cast<double>(top_p));
    return walk(cut, u);
  }

 private:
  static int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

  // Lists the kept tokens with a probability of at least `least`.
  void collect(Cut cut, float least) {
    found_ = 0;
    for (int64_t b = 0; b < blocks_; ++b) {
      if (block_max_[b] < least || block_max_[b] < cut.p) continue;
      for (int64_t i = b * kBlock, last = std::min(i + kBlock, n_); i < last; ++i)
        if (p_[i] >= least && kept(p_[i], static_cast<int32_t>(i), cut))
          tokens_[found_++] = {p_[i], static_cast<int32_t>(i)};
    }
  }

  Cut cut_top_k(Cut cut, int64_t k) {
    float least = 0;
    if (k <= blocks_) {
      // The k largest block maxima are k tokens, so the k-th largest token is no smaller than the last of them.
      std::copy_n(block_max_, blocks_, block_scratch_);
      std::nth_element(block_scratch_, block_scratch_ + k - 1, block_scratch_ + blocks_, std::greater<>());
      least = block_scratch_[k - 1];
    }
    collect(cut, least);
    if (found_ < k) return cut;
    std::nth_element(tokens_, tokens_ + k - 1, tokens_ + found_, before);
    found_ = k;
    return tokens_[k - 1];
  }

  Cut cut_top_p(Cut cut, double top_p) {
    double total = 0;
    if (found_ >= 0) {
      for (int64_t i = 0; i < found_; ++i) total += static_cast<double>(tokens_[i].p);
    } else {
      for (int64_t b = 0; b < blocks_; ++b) total += static_cast<double>(sum_of_block(b, cut));
      // All tokens below this share together hold less than 1 - top_p, so none of them is needed (with a margin for
      // rounding).
      collect(cut, static_cast<float>(0.999 * (1 - top_p) * total / static_cast<double>(n_)));
    }
    if (found_ == 0) return cut;
    // Halve the list until only a few tokens are left, among them the one at which the running sum reaches its target.
    double aim = top_p * total, sum = 0;
    Token *first = tokens_, *last = tokens_ + found_;
    while (last - first > 32) {
      Token* middle = first + (last - first) / 2;
      std::nth_element(first, middle, last, before);
      double half = 0;
      for (Token* t = first; t < middle; ++t) half += static_cast<double>(t->p);
      if (sum + half >= aim) {
        last = middle;
      } else {
        sum += half;
        first = middle;
      }
    }
    std::sort(first, last, before);
    for (; first + 1 < last; ++first) {
      sum += static_cast<double>(first->p);
      if (sum >= aim) break;
    }
    return *first;
  }

  float sum_of_block(int64_t b, Cut cut) const {
    return block_max_[b] < cut.p ? 0.0f : kept_sum(p_, b * kBlock, std::min((b + 1) * kBlock, n_), cut);
  }

  // The token at which the running sum over kept tokens, in index order, passes u times their total.
  int64_t walk(Cut cut, double u) {
    double total = 0;
    for (int64_t b = 0; b < blocks_; ++b) {
      block_scratch_[b] = sum_of_block(b, cut);
      total += static_cast<double>(block_scratch_[b]);
    }
    double left = u * total;
    int64_t block = -1;
    bool passed = false;
    for (int64_t b = 0; b < blocks_ && !passed; ++b) {
      auto sum = static_cast<double>(block_scratch_[b]);
      if (sum == 0) continue;
      block = b;
      passed = left < sum;
      if (!passed) left -= sum;
    }
    if (block < 0) return 0;  // a row without any possible token
    // If the sum is not reached because of rounding, the last token is taken.
    int64_t token = 0;
    for (int64_t i = block * kBlock, last = std::min(i + kBlock, n_); i < last; ++i) {
      if (!kept(p_[i], static_cast<int32_t>(i), cut)) continue;
      token = i;
      if (passed && left < static_cast<double>(p_[i])) break;
      left -= static_cast<double>(p_[i]);
    }
    return token;
  }

  int64_t n_;
  int64_t blocks_;
  Token* tokens_;
  float* p_;
  float* block_max_;
  float* block_scratch_;
  int64_t found_ = -1;  // tokens listed; -1: not computed yet
};

class SampleSelection final : public Sample {
 public:
  using Sample::Sample;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (args[0]->size(1) < 1 || args[0]->size(1) > INT32_MAX) return "a row must have between 1 and 2^31 - 1 logits";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View logits, View temperature, View top_k, View top_p, View min_p, View seeds, View steps,
               View out) override {
    int64_t rows = logits.size(0), V = logits.size(1), bytes = Row::scratch_bytes(V);
    int64_t workers = std::min<int64_t>(rows, ctx.pool.threads());
    auto* scratch = static_cast<std::byte*>(ctx.arena.make({{workers, bytes}, DType::kU8}).data());
    std::atomic<int64_t> next{0};
    auto work = [&](int64_t worker) {
      if (worker >= workers) return;
      Row row(scratch + worker * bytes, V);
      for (int64_t r = next++; r < rows; r = next++) {
        with_float(logits.dtype(), [&]<class T>(T) {
          const T* x = row_of<T>(logits, r);
          float heat = at<float>(temperature, r);
          double u = Stream(static_cast<uint64_t>(at<int64_t>(seeds, r)))
                         .uniform(static_cast<uint64_t>(at<int64_t>(steps, r)));
          at<int64_t>(out, r) =
              heat == 0 ? row_max(x, V).index
                        : row.draw(x, heat, at<int32_t>(top_k, r), at<float>(top_p, r), at<float>(min_p, r), u);
        });
      }
    };
    if (workers <= 1)
      work(0);
    else
      ctx.pool.on_all(work);
  }

 private:
  template <class T>
  static T& at(const View& v, int64_t r) {
    return v.ptr<T>()[r * v.stride(0)];
  }
};

FK_IMPLEMENTATION(Sample, SampleSelection, "cpu.selection", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
