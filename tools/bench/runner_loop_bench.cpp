// What a call of a runner costs beside its kernel, and so what a candidate would save that makes the calls of a sample
// itself: runner_loop_bench
//
// The same kernel is called by the loop of a runner, through a ready call, and directly, in turn, in random order. It
// leaves less and less of the runner in the caches: it runs through code and reads memory of its own.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "candidate/bridge.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "measure/statistics.h"
#include "measure/timer.h"
#include "ops/node.h"
#include "ops/registry.h"

namespace {

using namespace fk;

constexpr size_t kLine = 64, kCalls = 64, kPairs = 300;

// A function that returns at once, at the start of every cache line of a page of code.
class Code {
 public:
  explicit Code(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FK_CHECK(made != MAP_FAILED);
    at_ = static_cast<unsigned char*>(made);
#if defined(__aarch64__)
    const std::array<unsigned char, 4> ret = {0xC0, 0x03, 0x5F, 0xD6};
#else
    const std::array<unsigned char, 1> ret = {0xC3};
#endif
    for (size_t i = 0; i < bytes; i += kLine) std::memcpy(at_ + i, ret.data(), ret.size());
    FK_CHECK(mprotect(made, bytes, PROT_READ | PROT_EXEC) == 0);
    __builtin___clear_cache(reinterpret_cast<char*>(at_), reinterpret_cast<char*>(at_ + bytes));
  }
  ~Code() {
    if (at_ != nullptr) munmap(at_, bytes_);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  void run() const {
    for (size_t i = 0; i < bytes_; i += kLine) reinterpret_cast<void (*)()>(at_ + i)();
  }

 private:
  size_t bytes_;
  unsigned char* at_ = nullptr;
};

const Code* code = nullptr;
std::vector<unsigned char> memory;

void kernel() {
  if (code != nullptr) code->run();
  unsigned sum = 0;
  for (size_t i = 0; i < memory.size(); i += kLine) sum += memory[i];
  asm volatile("" : : "r"(sum));
}

int create(const fk_field*, size_t, void** object, char*, size_t) {
  *object = &memory;
  return 0;
}
void destroy(void*) {}
int bind(void*, const char* const*, const fk_view*, size_t, char*, size_t) { return 0; }
int forward(void*, const fk_context*, const fk_view*, size_t, char*, size_t) {
  kernel();
  return 0;
}

const fk_candidate kTable{.abi_version = FK_ABI_VERSION,
                          .size = sizeof(fk_candidate),
                          .operator_name = nullptr,
                          .signature = nullptr,
                          .create = create,
                          .destroy = destroy,
                          .bind = bind,
                          .refuse = nullptr,
                          .forward = forward};

// The calls of a sample, each with tensors of its own.
class Sample {
 public:
  Sample() : pool_(1), ctx_{.pool = pool_, .arena = arena_} {
    const OperatorInfo& op = Registry::instance().at("rms_norm");
    Registry::instance().add_foreign("rms_norm", "candidate", DeviceKind::kCpu, bridge_to(kTable, op));
    node_ = op.build(op.default_init(), {});
    for (size_t i = 0; i < kCalls; ++i) {
      Tensor x(TensorSpec{{1, 64}, DType::kF32}), out(TensorSpec{{1, 64}, DType::kF32});
      args_.push_back({x.view(), std::nullopt, out.view(), std::nullopt});
      tensors_.push_back(std::move(x)), tensors_.push_back(std::move(out));
    }
    std::string refusal;
    for (const auto& args : args_) ready_.push_back(node_->ready(ctx_, args, refusal));
  }

  void by_the_loop() {
    for (const auto& call : ready_) {
      arena_.reset();
      call->make();
    }
  }
  static void directly() {
    for (size_t i = 0; i < kCalls; ++i) kernel();
  }

 private:
  ThreadPool pool_;
  Arena arena_;
  Context ctx_;
  std::unique_ptr<Node> node_;
  std::vector<Tensor> tensors_;
  std::vector<std::array<OptView, 4>> args_;
  std::vector<std::unique_ptr<ReadyCall>> ready_;
};

}  // namespace

int main() {
  struct Kernel {
    size_t code_kib, memory_kib;
  };
  Sample sample;
  std::mt19937 random(1);
  fmt::print("code KiB  memory KiB  ns a call  beside the kernel\n");
  for (const Kernel k : {Kernel{0, 0}, {16, 16}, {64, 64}, {256, 512}, {256, 4096}}) {
    const Code own(k.code_kib << 10);
    code = &own;
    memory.assign(k.memory_kib << 10, 1);
    std::vector<double> by_loop, beside;
    for (size_t pair = 0; pair < kPairs; ++pair) {
      std::array<double, 2> ns{};  // by the loop, and directly
      const size_t first = random() % 2;
      for (const size_t which : {first, 1 - first}) {
        const int64_t start = now_ns();
        which == 0 ? sample.by_the_loop() : Sample::directly();
        ns[which] = static_cast<double>(now_ns() - start) / kCalls;
      }
      by_loop.push_back(ns[0]);
      beside.push_back(ns[0] - ns[1]);
    }
    fmt::print("{:8}  {:10}  {:9.0f}  {:17.0f}\n", k.code_kib, k.memory_kib, median(by_loop), median(beside));
  }
  code = nullptr;
}
