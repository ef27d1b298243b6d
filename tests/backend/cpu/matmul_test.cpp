// Every matrix product this CPU can run, against a float64 reference, with unreadable memory right behind each buffer.
#include "backend/cpu/matmul/matmul.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/cpu_features.h"
#include "core/element_rows.h"

namespace fk {
namespace {

using Function = void (*)(const MatmulArgs&, ThreadPool&);

struct Product {
  std::string name;
  DType dtype;
  Function run;
};
void PrintTo(const Product& p, std::ostream* os) { *os << p.name; }

std::vector<Product> products_of_this_cpu() {
  std::vector<Product> all = {{"portable_f32", DType::kF32, matmul_portable},
                              {"portable_bf16", DType::kBF16, matmul_portable}};
  [[maybe_unused]] const CpuFeatures& cpu = cpu_features();
#if defined(__x86_64__)
  if (cpu.avx2) all.push_back({"avx2_f32", DType::kF32, matmul_avx2_f32});
  if (cpu.avx2) all.push_back({"avx2_bf16", DType::kBF16, matmul_avx2_bf16});
  if (cpu.avx512) all.push_back({"avx512_f32", DType::kF32, matmul_avx512_f32});
  if (cpu.avx512_bf16) all.push_back({"avx512_bf16", DType::kBF16, matmul_avx512_bf16});
  if (cpu.amx_bf16) all.push_back({"amx_bf16", DType::kBF16, matmul_amx_bf16});
  if (cpu.amx_bf16) all.push_back({"amx_f32", DType::kF32, matmul_amx_f32});
#elif defined(__aarch64__)
  if (cpu.neon) all.push_back({"neon_f32", DType::kF32, matmul_neon_f32});
  if (cpu.neon) all.push_back({"neon_widen_bf16", DType::kBF16, matmul_neon_widen_bf16});
  if (cpu.neon_bf16) all.push_back({"neon_bf16", DType::kBF16, matmul_neon_bf16});
#endif
  return all;
}

// Rows x columns with a gap between rows, ending at the last readable byte before a page that faults. The gaps hold
// NaN: a product that reads them gives NaN.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, int64_t gap, DType dtype)
      : rows_(rows), columns_(columns), stride_(columns + gap), dtype_(dtype) {
    size_t used = rows == 0 ? 0 : static_cast<size_t>((rows - 1) * stride_ + columns) * dtype_size(dtype);
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (used + page - 1) / page * page + page;
    base_ = static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_ + mapped_ - page, page, PROT_NONE), 0);
    data_ = base_ + mapped_ - page - used;
    const std::vector<double> nans(used / dtype_size(dtype), NAN);
    store_elements(data_, dtype, 1, static_cast<int64_t>(nans.size()), nans.data());
  }
  ~Matrix() { munmap(base_, mapped_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  std::byte* at(int64_t r, int64_t c) const {
    return data_ + (r * stride_ + c) * static_cast<int64_t>(dtype_size(dtype_));
  }
  double get(int64_t r, int64_t c) const { return load_element(at(r, c), dtype_); }
  void set(int64_t r, int64_t c, double value) const { store_element(at(r, c), dtype_, value); }
  void* data() const { return data_; }
  int64_t stride() const { return stride_; }

  // Integers of -3 .. 3: products and sums of them are exact in f32, whatever the order.
  void fill_integers(std::mt19937& rng) const {
    std::vector<double> row(static_cast<size_t>(columns_));
    for (int64_t r = 0; r < rows_; ++r) {
      for (double& x : row) x = static_cast<double>(rng() % 7) - 3;
      store_elements(at(r, 0), dtype_, 1, columns_, row.data());
    }
  }
  void fill_normal(std::mt19937& rng) const {
    std::normal_distribution<double> normal;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < columns_; ++c) set(r, c, normal(rng));
  }

  // Row by row, without the gaps; one element more, so that the address of an empty row exists.
  std::vector<double> values() const {
    std::vector<double> all(static_cast<size_t>(rows_ * columns_ + 1));
    for (int64_t r = 0; r < rows_; ++r) load_elements(at(r, 0), dtype_, 1, columns_, all.data() + r * columns_);
    return all;
  }

  // True when the elements between the rows are still what the constructor wrote.
  bool gaps_untouched() const {
    for (int64_t r = 0; r + 1 < rows_; ++r)
      for (int64_t c = columns_; c < stride_; ++c)
        if (!std::isnan(get(r, c))) return false;
    return true;
  }

 private:
  int64_t rows_, columns_, stride_;
  DType dtype_;
  size_t mapped_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

struct Problem {
  Problem(int64_t m_, int64_t n_, int64_t k_, int64_t gap, DType dtype, DType y_dtype, bool with_bias)
      : m(m_), n(n_), k(k_), x(m, k, gap, dtype), w(n, k, gap, dtype), bias(1, n, 0, dtype), y(m, n, gap, y_dtype) {
    args = {m,        n,          k,     x.data(), x.stride(), w.data(), w.stride(), with_bias ? bias.data() : nullptr,
            y.data(), y.stride(), dtype, y_dtype};
  }

  // To be called once the inputs are filled: the reference reads copies in double.
  void run(Function product, ThreadPool& pool) {
    x_values = x.values();
    w_values = w.values();
    product(args, pool);
  }
  double reference(int64_t r, int64_t c) const {
    const double *a = &x_values[static_cast<size_t>(r * k)], *b = &w_values[static_cast<size_t>(c * k)];
    double sum = args.bias == nullptr ? 0 : bias.get(0, c);
    for (int64_t i = 0; i < k; ++i) sum += a[i] * b[i];
    return sum;
  }
  double magnitude(int64_t r, int64_t c) const {
    const double *a = &x_values[static_cast<size_t>(r * k)], *b = &w_values[static_cast<size_t>(c * k)];
    double sum = args.bias == nullptr ? 0 : std::fabs(bias.get(0, c));
    for (int64_t i = 0; i < k; ++i) sum += std::fabs(a[i] * b[i]);
    return sum;
  }
  double rounded(double value) const {
    std::byte slot[8];
    store_element(slot, args.y_dtype, value);
    return load_element(slot, args.y_dtype);
  }

  int64_t m, n, k;
  Matrix x, w, bias, y;
  std::vector<double> x_values, w_values;
  MatmulArgs args;
};

class MatmulTest : public ::testing::TestWithParam<Product> {
 protected:
  static ThreadPool& pool() {
    cpu_features();
    static ThreadPool pool(2);
    return pool;
  }

  // Exact integers: every element must be right to the bit, so one product left out or counted twice shows.
  void expect_exact(int64_t m, int64_t n, int64_t k, int64_t gap, DType y_dtype, bool with_bias) {
    Problem p(m, n, k, gap, GetParam().dtype, y_dtype, with_bias);
    std::mt19937 rng(static_cast<uint32_t>(m * 1000003 + n * 1009 + k));
    p.x.fill_integers(rng);
    p.w.fill_integers(rng);
    p.bias.fill_integers(rng);
    p.run(GetParam().run, pool());
    int64_t samples = 0;
    int64_t step = m * n * k > 4'000'000 ? m * n / 3000 + 1 : 1;  // large products: a few thousand elements
    for (int64_t i = 0; i < m * n; i += step, ++samples) {
      int64_t r = i / n, c = i % n;
      ASSERT_EQ(p.y.get(r, c), p.rounded(p.reference(r, c)))
          << "m=" << m << " n=" << n << " k=" << k << " gap=" << gap << " at " << r << "," << c;
    }
    ASSERT_TRUE(p.y.gaps_untouched()) << "m=" << m << " n=" << n << " k=" << k;
  }
};

TEST_P(MatmulTest, SlowIsExactOnIntegersAtEverySmallSize) {
  for (int64_t m : {1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 33, 50})
    for (int64_t n : {1, 3, 4, 8, 15, 17, 33, 64, 100})
      for (int64_t k : {1, 2, 3, 8, 15, 17, 32, 33, 100}) {
        int64_t gap = (m + n + k) % 3;
        DType y_dtype = (m + n) % 2 == 0 ? DType::kBF16 : DType::kF32;
        expect_exact(m, n, k, gap, y_dtype, (n + k) % 2 == 0);
        if (HasFatalFailure()) return;
      }
}

// Sizes on both sides of every blocking border of the implementations.
TEST_P(MatmulTest, IsExactOnIntegersAcrossBlocks) {
  struct Size {
    int64_t m, n, k;
  };
  for (Size s : {Size{1, 200, 2048}, Size{3, 65, 1025}, Size{16, 64, 512}, Size{17, 70, 511}, Size{32, 96, 1024},
                 Size{33, 97, 1030}, Size{64, 130, 513}, Size{100, 67, 770}, Size{257, 129, 1100}, Size{520, 1100, 40},
                 Size{300, 80, 2090}, Size{1030, 40, 260}, Size{513, 64, 520}, Size{1, 1, 5000}, Size{2, 3000, 7},
                 Size{40, 1, 3000}}) {
    expect_exact(s.m, s.n, s.k, 0, DType::kBF16, true);
    expect_exact(s.m, s.n, s.k, 5, DType::kF32, false);
    if (HasFatalFailure()) return;
  }
}

TEST_P(MatmulTest, SlowIsExactOnIntegersAcrossAllBordersAtOnce) {
  expect_exact(530, 600, 3000, 0, DType::kBF16, true);
  expect_exact(530, 600, 3000, 5, DType::kF32, false);
}

TEST_P(MatmulTest, StaysWithinTheRoundingOfF32Sums) {
  for (int64_t m : {1, 6, 16, 40})
    for (int64_t n : {5, 64})
      for (int64_t k : {33, 512, 1500})
        for (DType y_dtype : {DType::kBF16, DType::kF32}) {
          Problem p(m, n, k, 0, GetParam().dtype, y_dtype, true);
          std::mt19937 rng(7);
          p.x.fill_normal(rng);
          p.w.fill_normal(rng);
          p.bias.fill_normal(rng);
          p.run(GetParam().run, pool());
          for (int64_t r = 0; r < m; ++r)
            for (int64_t c = 0; c < n; ++c) {
              double want = p.reference(r, c);
              // Each of the k + 1 additions rounds by half an ulp of a partial sum no larger than the magnitude.
              double bound = static_cast<double>(k + 1) * 0x1p-24 * p.magnitude(r, c);
              bound += (std::fabs(want) + bound) * dtype_epsilon(y_dtype) / 2;
              double error = std::fabs(p.y.get(r, c) - want);
              ASSERT_TRUE(error <= bound) << m << "x" << n << "x" << k << " at " << r << "," << c << ": " << error;
            }
        }
}

// One factor is a permutation: y is bit-identical to the other one, however it was split for the multiplication.
TEST_P(MatmulTest, KeepsEveryBitOfItsInputs) {
  for (int64_t n : {64, 200}) {
    const int64_t m = 70, k = n;
    std::mt19937 rng(5);
    for (bool x_permutes : {true, false}) {
      Problem p(m, n, k, 0, GetParam().dtype, DType::kF32, false);
      const Matrix &zeros = x_permutes ? p.x : p.w, &kept = x_permutes ? p.w : p.x;
      for (int64_t r = 0; r < (x_permutes ? m : n); ++r) {
        for (int64_t c = 0; c < k; ++c) zeros.set(r, c, 0);
        zeros.set(r, (r * 7 + 3) % k, r % 2 == 0 ? 1 : -2);
      }
      kept.fill_normal(rng);
      p.run(GetParam().run, pool());
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c) ASSERT_EQ(p.y.get(r, c), p.reference(r, c)) << n << " at " << r << "," << c;
    }
  }
}

TEST_P(MatmulTest, PropagatesNanAndInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  for (int64_t m : {1, 5, 20, 70})
    for (int64_t k : {31, 530}) {
      const int64_t n = 67;
      Problem p(m, n, k, 3, GetParam().dtype, DType::kBF16, true);
      std::mt19937 rng(11);
      p.x.fill_integers(rng);
      p.w.fill_integers(rng);
      p.bias.fill_integers(rng);
      p.x.set(m - 1, k - 1, NAN);
      p.x.set(0, 0, inf);
      p.w.set(n - 1, k - 1, -inf);
      p.w.set(1, k / 2, NAN);
      p.bias.set(0, 2, inf);
      p.run(GetParam().run, pool());
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c) {
          double want = p.rounded(p.reference(r, c)), got = p.y.get(r, c);
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
              << m << "x" << n << "x" << k << " at " << r << "," << c << ": " << got << " instead of " << want;
        }
    }
}

TEST_P(MatmulTest, EmptyProducts) {
  expect_exact(0, 5, 7, 0, DType::kF32, true);
  expect_exact(5, 0, 7, 0, DType::kF32, true);
  for (int64_t m : {1, 20, 40}) {
    expect_exact(m, 33, 0, 0, DType::kF32, true);    // the bias
    expect_exact(m, 33, 0, 2, DType::kBF16, false);  // zero
  }
}

TEST_P(MatmulTest, MoreThreadsThanWork) {
  ThreadPool many(5);
  for (int64_t m : {1, 18}) {
    Problem p(m, 3, 70, 0, GetParam().dtype, DType::kF32, false);
    std::mt19937 rng(3);
    p.x.fill_integers(rng);
    p.w.fill_integers(rng);
    p.run(GetParam().run, many);
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < 3; ++c) ASSERT_EQ(p.y.get(r, c), p.reference(r, c));
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, MatmulTest, ::testing::ValuesIn(products_of_this_cpu()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace fk
