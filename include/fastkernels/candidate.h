// fastkernels/candidate.h: everything a candidate needs, in one header.
//
//   #include <fastkernels/candidate.h>
//
//   class RMSNorm : public fk::RMSNorm {
//    public:
//     using fk::RMSNorm::RMSNorm;
//     void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out)
//     override;
//   };
//   FK_CANDIDATE(RMSNorm)
//
// fk::RMSNorm and the other operators are in fastkernels/operators.h, which is generated from the operators' contracts.
// Of the standard library only <new> is included here: other headers take longer to compile than most kernels. The
// header works with g++ (.cpp, on the CPU) and nvcc (.cu, on the GPU), where the element types work on host and device.
#pragma once

#include <new>

#include <fastkernels/kernel_abi.h>

extern "C" int snprintf(char*, size_t, const char*, ...) noexcept;

#ifdef __CUDACC__
#define FK_HOST_DEVICE __host__ __device__
#include <cuda_runtime_api.h>  // nvcc has included it already
struct __half;
struct __nv_bfloat16;
#else
#define FK_HOST_DEVICE
#endif

namespace fk {

enum class DType : int32_t { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI8, kU8, kI32, kI64, kBool };

// The upper half of a float; conversion to it rounds to nearest, ties to even, and keeps NaN. In a loop meant to be
// vectorised assign the float itself (`out[i] = x`): GCC 12 keeps the temporary of `out[i] = bf16(x)` in memory.
struct bf16 {
  uint16_t bits;

  bf16() = default;
  FK_HOST_DEVICE bf16(float x) : bits(rounded(x)) {}
  FK_HOST_DEVICE bf16& operator=(float x) {
    bits = rounded(x);
    return *this;
  }
  FK_HOST_DEVICE operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

 private:
  FK_HOST_DEVICE static uint16_t rounded(float x) {
    uint32_t u = __builtin_bit_cast(uint32_t, x);
    uint32_t up = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return static_cast<uint16_t>(x != x ? (u >> 16) | 0x40 : up);
  }
};

#ifdef __CUDACC__
// IEEE half precision. Converted on the GPU only; cuda_fp16.h has more, and View::ptr<__half>() works too.
struct f16 {
  uint16_t bits;

  f16() = default;
  __device__ f16(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ f16& operator=(float x) { return *this = f16(x); }
  __device__ operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
#elif defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13
using f16 = __fp16;  // GCC 12 has the other name on x86 only
#else
using f16 = _Float16;
#endif

inline const char* dtype_text(int dtype) {
  constexpr const char* kNames[] = {"f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i32", "i64", "bool"};
  return dtype >= 0 && dtype <= static_cast<int>(DType::kBool) ? kNames[dtype] : "an unknown dtype";
}

template <class T>
inline constexpr int kDTypeOf = -1;
template <>
inline constexpr int kDTypeOf<double> = 0;
template <>
inline constexpr int kDTypeOf<float> = 1;
template <>
inline constexpr int kDTypeOf<f16> = 2;
template <>
inline constexpr int kDTypeOf<bf16> = 3;
template <>
inline constexpr int kDTypeOf<int8_t> = 6;
template <>
inline constexpr int kDTypeOf<uint8_t> = 7;
template <>
inline constexpr int kDTypeOf<int32_t> = 8;
template <>
inline constexpr int kDTypeOf<int64_t> = 9;
template <>
inline constexpr int kDTypeOf<bool> = 10;
#ifdef __CUDACC__
template <>
inline constexpr int kDTypeOf<__half> = 2;
template <>
inline constexpr int kDTypeOf<__nv_bfloat16> = 3;
#endif

// A candidate throws this to report an error with a message; other exceptions are reported without their text.
struct Error {
  char text[240];
  template <class... A>
  explicit Error(const char* format, A... args) {
    if constexpr (sizeof...(A) == 0)
      snprintf(text, sizeof text, "%s", format);
    else
      snprintf(text, sizeof text, format, args...);
  }
};

enum class Device : int32_t { kCpu, kCuda };

// A strided view of memory that the host owns. On CUDA data() is a device pointer.
class View {
 public:
  View() = default;
  explicit View(const fk_view& v) : v_(v) {}

  void* data() const { return v_.data; }
  DType dtype() const { return static_cast<DType>(v_.dtype); }
  Device device() const { return static_cast<Device>(v_.device); }
  int rank() const { return v_.rank; }
  int64_t size(int dim) const { return v_.shape[dim < 0 ? dim + v_.rank : dim]; }
  int64_t stride(int dim) const { return v_.stride[dim < 0 ? dim + v_.rank : dim]; }  // in elements
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < v_.rank; ++i) n *= v_.shape[i];
    return n;
  }
  bool contiguous() const {
    int64_t expected = 1;
    for (int i = v_.rank - 1; i >= 0; --i) {
      if (v_.shape[i] > 1 && v_.stride[i] != expected) return false;
      expected *= v_.shape[i];
    }
    return true;
  }

  template <class T>
  T* ptr() const {
    if (kDTypeOf<T> != v_.dtype)
      throw Error("a view of %s was read as another type; to see its bits, cast data()", dtype_text(v_.dtype));
    return static_cast<T*>(v_.data);
  }
  // Row t of the first dimension.
  template <class T>
  T* row(int64_t t) const {
    return ptr<T>() + t * v_.stride[0];
  }

 private:
  fk_view v_{};
};

// A View that may be absent.
class OptView {
 public:
  OptView() = default;
  explicit OptView(const fk_view& v) : view_(v), present_(v.present != 0) {}
  explicit operator bool() const { return present_; }
  const View& operator*() const { return view_; }
  const View* operator->() const { return &view_; }

 private:
  View view_;
  bool present_ = false;
};

struct SequenceGroup {
  int64_t num_sequences, num_tokens;
  View cu_seqlens_q, cu_seqlens_k, seq_lens, block_table, state_slots;
  explicit SequenceGroup(const fk_sequence_group& g)
      : num_sequences(g.num_sequences),
        num_tokens(g.num_tokens),
        cu_seqlens_q(g.cu_seqlens_q),
        cu_seqlens_k(g.cu_seqlens_k),
        seq_lens(g.seq_lens),
        block_table(g.block_table),
        state_slots(g.state_slots) {}
};

namespace detail {
constexpr bool same_text(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}
template <class>
inline constexpr bool kNever = false;
}  // namespace detail

class Context {
 public:
  explicit Context(const fk_context& c) : c_(c) {}

  int threads() const { return c_.threads; }
  Device device() const { return static_cast<Device>(c_.device); }
#ifdef __CUDACC__
  // The stream for all GPU work of forward. Other streams must wait for it, and it must wait for them.
  cudaStream_t stream() const { return static_cast<cudaStream_t>(c_.stream); }
#endif
  // body(begin, end) over 0 .. n-1, in chunks of `grain`, on the host's threads. An exception of the body is rethrown
  // here.
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, const Body& body) {
    struct Loop {
      const Body& body;
      Error error{"it threw an exception in a parallel loop"};
      int failures = 0;
    } loop{body};
    c_.parallel_for(
        c_.host, n, grain,
        [](void* user, int64_t begin, int64_t end) {
          Loop& of = *static_cast<Loop*>(user);
          try {
            of.body(begin, end);
          } catch (const Error& error) {
            if (__atomic_fetch_add(&of.failures, 1, __ATOMIC_RELAXED) == 0) of.error = error;
          } catch (...) {
            __atomic_fetch_add(&of.failures, 1, __ATOMIC_RELAXED);
          }
        },
        &loop);
    if (loop.failures != 0) throw loop.error;
  }
  // 64-byte aligned, on the device of the call, valid until forward returns (on CUDA: until the work it queued is
  // done). Do not call it inside parallel_for: allocate before, with a part for each thread.
  template <class T>
  T* scratch(int64_t elements) {
    void* memory = c_.scratch(c_.host, static_cast<size_t>(elements) * sizeof(T));
    if (memory == nullptr) throw Error("there is no scratch memory: inside parallel_for, or out of memory");
    return static_cast<T*>(memory);
  }

  // Computes this call with the operator's reference, correct but slow: as a start, or for cases that the kernel does
  // not support yet. On the CPU only, outside parallel_for.
  void reference() {
    Error error("the reference failed");
    if (c_.reference(c_.host, error.text, sizeof error.text) != 0) throw error;
  }

  // The batch, for operators that keep something between calls, or whose parts do.
  bool has_attention() const { return c_.attention != nullptr; }
  SequenceGroup decode() const { return SequenceGroup(attention().decode); }
  SequenceGroup prefill() const { return SequenceGroup(attention().prefill); }
  View slot_mapping() const { return View(attention().slot_mapping); }

  // The states of the operator and its children, which may be read and written: by index, in the order of the tree, or
  // by name relative to the operator ("key_cache", "attn.key_cache", "model.layers.3.self_attn.attn.key_cache").
  int64_t num_states() const { return c_.num_states; }
  View state(int64_t i) const {
    if (i < 0 || i >= c_.num_states) throw Error("there is no state number %lld", static_cast<long long>(i));
    return View(c_.states[i].view);
  }
  View state(int i) const { return state(static_cast<int64_t>(i)); }  // so that 0 is a number
  View state(const char* name) const {
    for (int64_t i = 0; i < c_.num_states; ++i)
      if (detail::same_text(c_.states[i].name, name)) return View(c_.states[i].view);
    throw Error("there is no state '%s'", name);
  }
  const char* state_name(int64_t i) const {
    static_cast<void>(state(i));  // there is one
    return c_.states[i].name;
  }

  // Of version 3 of the boundary.
  template <class Layer>
  View key_cache(Layer) const {
    static_assert(detail::kNever<Layer>,
                  "fastkernels: write ctx.state(\"key_cache\"), with the names of the parts it lies in before it "
                  "(\"attn.key_cache\"), instead of ctx.key_cache(layer): caches are states of their operator now");
    return {};
  }
  template <class Layer>
  View value_cache(Layer) const {
    static_assert(detail::kNever<Layer>,
                  "fastkernels: write ctx.state(\"value_cache\"), with the names of the parts it lies in before it "
                  "(\"attn.value_cache\"), instead of ctx.value_cache(layer): caches are states of their operator now");
    return {};
  }

 private:
  const fk_attention_metadata& attention() const {
    if (c_.attention == nullptr) throw Error("this call has no attention metadata: ask has_attention() first");
    return *c_.attention;
  }

  const fk_context& c_;
};

struct Integers {
  const int64_t* data;
  int64_t size;
  int64_t operator[](int64_t i) const { return data[i]; }
};

// Constructor arguments by name; operators.h reads them into each operator's Init.
class Fields {
 public:
  Fields(const fk_field* fields, size_t n) : fields_(fields), n_(n) {}
  int64_t integer(const char* name) const { return at(name).integer; }
  bool boolean(const char* name) const { return at(name).integer != 0; }
  double real(const char* name) const { return at(name).real; }
  const char* text(const char* name) const { return at(name).text; }
  Integers integers(const char* name) const { return {at(name).integers, at(name).integer}; }
  Fields fields(const char* name) const { return {at(name).fields, static_cast<size_t>(at(name).integer)}; }
  const fk_field& at(const char* name) const {
    for (size_t i = 0; i < n_; ++i)
      if (detail::same_text(fields_[i].name, name)) return fields_[i];
    throw Error("there is no constructor argument '%s'", name);
  }

 private:
  const fk_field* fields_;
  size_t n_;
};

// The arguments of a call by their place in forward, before they are unpacked.
class Args {
 public:
  explicit Args(const fk_view* list) : list_(list) {}
  bool has(int i) const { return list_[i].present != 0; }
  View operator[](int i) const { return View(list_[i]); }

 private:
  const fk_view* list_;
};

// Calls body(T{}) with the element type of a dtype that models are run in.
template <class Body>
void with_float(DType dtype, const Body& body) {
  if (dtype == DType::kBF16)
    body(bf16{});
  else if (dtype == DType::kF32)
    body(float{});
  else if (dtype == DType::kF16)
    body(f16{});
  else
    throw Error("it computes in bf16, f16 and f32 only, not in %s", dtype_text(static_cast<int>(dtype)));
}

#ifdef __CUDACC__
// Throws with CUDA's message if a call failed: fk::check(cudaMalloc(&p, n), "the workspace").
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Error("%s failed: %s", what, cudaGetErrorString(status));
}
// After a launch, which itself returns nothing: fk::launched("rms_norm").
inline void launched(const char* kernel) { check(cudaGetLastError(), kernel); }
#endif

// What all operators have in common.
class Operator {
 public:
  virtual ~Operator() = default;

  // Why this candidate does not support a call with such arguments; null if it does. The baseline runs refused calls. A
  // model asks before every call; a timing asks before and after its calls, so this is not part of their time. Decide
  // by shapes and dtypes: inputs may not have been written yet when this is called, nor weights bound.
  virtual const char* refuse(Args) const { return nullptr; }

  // Called after weights are bound, and again whenever they change. Repack them here.
  virtual void prepare() {}

  void bind(const char* const* names, const fk_view* params, size_t n) {
    names_ = names, params_ = params, count_ = n;
    prepare();
  }

 protected:
  // A weight by its name in the checkpoint, relative to the operator: "weight", "gate_up_proj.weight".
  OptView find_weight(const char* name) const {
    for (size_t i = 0; i < count_; ++i)
      if (detail::same_text(names_[i], name)) return OptView(params_[i]);
    return {};
  }
  View weight(const char* name) const {
    OptView found = find_weight(name);
    if (!found) throw Error("there is no weight '%s'", name);
    return *found;
  }

 private:
  const char* const* names_ = nullptr;
  const fk_view* params_ = nullptr;
  size_t count_ = 0;
};

}  // namespace fk

#include <fastkernels/operators.h>

namespace fk::detail {

template <class Body>
int guarded(char* error, size_t error_size, const Body& body) {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    snprintf(error, error_size, "%s", e.text);
  } catch (const std::bad_alloc&) {
    snprintf(error, error_size, "it asked for more memory than there is");
    return FK_OUT_OF_MEMORY;
  } catch (...) {
    snprintf(error, error_size, "it threw an exception");
  }
  return FK_FAILED;
}

// "mine::RMSNorm" names the class RMSNorm.
constexpr bool names_class(const char* text, const char* name) {
  const char* last = text;
  for (const char* c = text; *c != 0; ++c)
    if (*c == ':') last = c + 1;
  return same_text(last, name);
}

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

// T does not override refuse: the host need not call it before every call.
template <class T>
concept TakesEveryCall = kSame<decltype(&T::refuse), const char* (Operator::*)(Args) const>;

template <class Contract>
const char* refuse(void* object, const fk_view* args, size_t) {
  try {
    return static_cast<Contract*>(object)->refuse(Args(args));
  } catch (...) {
    return "its refuse threw an exception";
  }
}

template <class T>
constexpr fk_candidate candidate_table() {
  using Contract = typename T::Contract;
  return {FK_ABI_VERSION,
          sizeof(fk_candidate),
          Contract::kName,
          Contract::kSignature,
          [](const fk_field* init, size_t n, void** object, char* error, size_t size) {
            return guarded(error, size, [&] {
              // Stored as the contract's class, which is what the other functions cast back to.
              *object = static_cast<Contract*>(new T(typename Contract::Init(Fields(init, n))));
            });
          },
          [](void* object) { delete static_cast<Contract*>(object); },
          [](void* object, const char* const* names, const fk_view* params, size_t n, char* error, size_t size) {
            return guarded(error, size, [&] { static_cast<Contract*>(object)->bind(names, params, n); });
          },
          TakesEveryCall<T> ? nullptr : &refuse<Contract>,
          [](void* object, const fk_context* context, const fk_view* args, size_t, char* error, size_t size) {
            return guarded(error, size, [&] {
              Context ctx(*context);
              Contract::call(*static_cast<Contract*>(object), ctx, args);
            });
          }};
}

}  // namespace fk::detail

// FK_CANDIDATE_OF is the operator the file is named after; fastkernels passes it when it compiles.
#ifdef FK_CANDIDATE_OF
#define FK_DETAIL_TEXT_OF(x) #x
#define FK_DETAIL_TEXT(x) FK_DETAIL_TEXT_OF(x)
#define FK_DETAIL_CHECK_OPERATOR(T)                                                           \
  static_assert(::fk::detail::same_text(T::Contract::kName, FK_DETAIL_TEXT(FK_CANDIDATE_OF)), \
                "fastkernels: this file is named after another operator than the one its class derives from");
#else
#define FK_DETAIL_CHECK_OPERATOR(T)
#endif

// Once, at the end of the file, with the name of the class.
#define FK_CANDIDATE(T)                                                                            \
  FK_DETAIL_CHECK_OPERATOR(T)                                                                      \
  static_assert(::fk::detail::names_class(#T, T::Contract::kClass),                                \
                "fastkernels: the class must have the name of the operator's class");              \
  extern "C" __attribute__((visibility("default"))) const fk_candidate* fk_candidate_entry(void) { \
    static constexpr fk_candidate table = ::fk::detail::candidate_table<T>();                      \
    return &table;                                                                                 \
  }
