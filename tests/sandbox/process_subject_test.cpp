#include "sandbox/process_subject.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "candidate/compile.h"
#include "core/error.h"
#include "sandbox/address_layout.h"
#include "tests/sanitizer.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

Fields rms_norm_init(int64_t hidden) {
  Fields init = Registry::instance().at("rms_norm").default_init();
  for (Field& f : init)
    if (f.name == "hidden_size") f.value = hidden;
  return init;
}

class ProcessSubjectTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("fk-subject-{}", getpid());
    fs::create_directories(folder_ / "L1");
    FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A candidate of rms_norm whose forward is `body`, or `body` as the whole file if it contains a class.
  std::string compile(const std::string& body, const std::string& before = "") {
    fs::path path = folder_ / "L1" / "rms_norm.cpp";
    std::ofstream(path) << "#include <fastkernels/candidate.h>\n#include <math.h>\n"
                        << before << R"(
class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;
  void right(fk::View x, fk::View out) {
    for (int64_t t = 0; t < x.size(0); ++t) {
      const float* in = x.row<float>(t);
      double sum = 0;
      for (int64_t i = 0; i < init_.hidden_size; ++i) sum += double(in[i]) * in[i];
      float scale = float(1 / sqrt(sum / double(init_.hidden_size) + init_.eps));
      for (int64_t i = 0; i < init_.hidden_size; ++i)
        out.row<float>(t)[i] = in[i] * scale * weight("weight").ptr<float>()[i];
    }
  }
  void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView residual_out) override {
    (void)ctx, (void)residual, (void)residual_out;
)" << body << "}\n};\nFK_CANDIDATE(RMSNorm)\n";
    CompileResult result = compile_candidate({&Registry::instance().at("rms_norm"), path});
    if (result.failure) throw Error("{}\n{}", result.failure->sentence, result.log);
    return result.so_path;
  }

  RunnerOptions options(std::string library = "") const {
    RunnerOptions o;
    o.op = "rms_norm";
    o.init = rms_norm_init(64);
    for (Field& f : o.init)
      if (f.name == "dtype") f.value = std::string("f32");
    o.library = std::move(library);
    o.timeout_ns = 60'000'000'000;  // the machine may be busy
    return o;
  }

  // One call with weights bound; returns the failure, if any.
  std::optional<Failure> run(const RunnerOptions& o, int calls = 1) {
    ProcessSubject subject(o);
    std::unique_ptr<Node> root = Registry::instance().at(o.op).build(o.init, {});
    Workload w = Workload::tokens(3);
    w.dtype = DType::kF32;
    CallData data = make_call_data(*root, w, 7);
    if (auto f = subject.bind(data.params)) return f;
    for (int i = 0; i < calls; ++i) {
      CallOutcome outcome = subject.call(data, Placement::kSame);
      if (outcome.failure) return outcome.failure;
      out_ = std::move(*outcome.written[2]);
    }
    subject.process().finish();
    protections_ = subject.process().protections();
    return subject.process().failure();
  }

  void expect(const std::string& library, Verdict verdict, std::string_view words) {
    std::optional<Failure> f = run(options(library));
    ASSERT_TRUE(f) << "nothing was noticed";
    EXPECT_EQ(verdict_name(f->verdict), verdict_name(verdict)) << f->sentence;
    EXPECT_NE(f->sentence.find(words), std::string::npos) << f->sentence;
  }

  fs::path folder_;
  Tensor out_;
  std::vector<Protection> protections_;
};

TEST_F(ProcessSubjectTest, BaselineAndRightCandidateAgree) {
  std::optional<Failure> f = run(options());
  ASSERT_FALSE(f) << f->sentence;
  Tensor baseline = std::move(out_);
  f = run(options(compile("right(x, out);")), 3);
  ASSERT_FALSE(f) << f->sentence;
  for (int64_t i = 0; i < baseline.view().numel(); ++i)
    EXPECT_NEAR(baseline.ptr<float>()[i], out_.ptr<float>()[i], 1e-5);
  EXPECT_GE(protections_.size(), 6u);
  for (const Protection& p : protections_) EXPECT_TRUE(p.on || !p.why.empty()) << p.name;
}

// With one, Linux would continue a stopped process in code of the candidate, instead of behind the runner's trap.
TEST_F(ProcessSubjectTest, HasNoRestartableSequences) {
  const std::string so = compile(R"(
    out.ptr<float>()[0] = &__rseq_size == nullptr ? 0.0f : float(__rseq_size);
    static char area[64] __attribute__((aligned(64)));
    out.ptr<float>()[1] = syscall(SYS_rseq, area, 32, 0, 0x53053053) == 0;)",
                                 "#include <sys/syscall.h>\n#include <unistd.h>\n"
                                 "extern \"C\" { [[gnu::weak]] extern const unsigned __rseq_size; }\n");
  std::optional<Failure> f = run(options(so));
  ASSERT_FALSE(f) << f->sentence;
  EXPECT_EQ(out_.ptr<float>()[0], 0) << "bytes the C library registered";
  EXPECT_EQ(out_.ptr<float>()[1], 0) << "registered by the candidate";
}

// Linux puts the stack, the libraries and the memory of every process elsewhere, which changes the times of a kernel
// for as long as its process lives.
TEST_F(ProcessSubjectTest, AddressesAreThoseOfTheLayout) {
  if (!FixedAddresses::possible()) GTEST_SKIP() << "this system forbids personality()";
  // Stack, code and weights, as 24 bits that a float holds exactly. Calls draw the places of inputs and outputs.
  const std::string so = compile(R"(
    static const int code = 0;
    const void* places[] = {__builtin_frame_address(0), &code, weight("weight").ptr<float>()};
    for (int i = 0; i < 3; ++i) out.ptr<float>()[i] = float((uintptr_t(places[i]) >> 4) % (1 << 24));)");
  auto addresses = [&](uint64_t layout) {
    RunnerOptions o = options(so);
    o.layout = layout;
    std::optional<Failure> f = run(o);
    EXPECT_FALSE(f) << f->sentence;
    return std::vector<float>(out_.ptr<float>(), out_.ptr<float>() + 3);
  };
  const std::vector<float> first = addresses(7), again = addresses(7), other = addresses(8);
  EXPECT_EQ(first, again);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], other[i]) << i;
}

// The sides of a comparison have different libraries, but their tensors lie at the same addresses.
TEST_F(ProcessSubjectTest, SlowTensorsLieWhereTheyDoWithAnotherLibrary) {
  const std::string where =
      "out.ptr<float>()[0] = float((uintptr_t(weight(\"weight\").ptr<float>()) >> 4) % (1 << 24));";
  auto tensors_with = [&](const std::string& library) {
    std::optional<Failure> f = run(options(library));
    EXPECT_FALSE(f) << f->sentence;
    return out_.ptr<float>()[0];
  };
  EXPECT_EQ(tensors_with(compile(where)),
            tensors_with(compile(where + "out.ptr<float>()[1] = large[x.numel()];", "volatile float large[1 << 22];")));
}

TEST_F(ProcessSubjectTest, SlowNamesWhatWentWrong) {
  expect(compile("right(x, out); const_cast<float*>(x.row<float>(1))[3] = 0;"), Verdict::kInputMutated, "'x'");
  expect(compile("right(x, out); out.ptr<float>()[x.numel() + 20] = 0;"), Verdict::kOutOfBounds, "'out'");
  expect(compile("right(x, out); out.ptr<float>()[-3] = 0;"), Verdict::kOutOfBounds, "'out'");
  expect(compile("*(volatile int*)16 = 1;"), Verdict::kCrashed, "SIGSEGV");
  expect(compile("_exit(0);", "#include <unistd.h>"), Verdict::kTampered, "exit code 0");
  expect(compile("abort();", "#include <stdlib.h>"), Verdict::kCrashed, "SIGABRT");
  expect(compile("throw fk::Error(\"no %d\", 7);"), Verdict::kCrashed, "no 7");
  expect(compile("fork();", "#include <unistd.h>"), Verdict::kTampered, "new process");
  expect(compile("socket(2, 1, 0);", "#include <sys/socket.h>"), Verdict::kTampered, "network");
  expect(compile("right(x, out);", "struct S { S() { __builtin_trap(); } } s;"), Verdict::kCrashed, "at load");
}

TEST_F(ProcessSubjectTest, EndsWhatHangs) {
  RunnerOptions o = options(compile("for (volatile int i = 0;;) i = i + 1;"));
  o.timeout_ns = 300'000'000;
  std::optional<Failure> f = run(o);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->verdict, Verdict::kTimeout) << f->sentence;
  EXPECT_NE(f->sentence.find("within 0.3 s"), std::string::npos) << f->sentence;
}

TEST_F(ProcessSubjectTest, LimitsMemory) {
  RunnerOptions o = options(
      compile("for (;;) { char* p = (char*)malloc(64 << 20); if (!p) *(volatile int*)8 = 0; memset(p, 1, 64 << 20); }",
              "#include <stdlib.h>\n#include <string.h>"));
  o.private_memory_bytes = size_t{512} << 20;
  std::optional<Failure> f = run(o);
  ASSERT_TRUE(f);
  EXPECT_EQ(verdict_name(f->verdict), "OUT_OF_MEMORY") << f->sentence;
}

// All threads are stopped when the call has returned, so later writes are missing from the output.
TEST_F(ProcessSubjectTest, SlowStopsWorkAtTheReturn) {
  const char* threads = "#include <thread>\n#include <chrono>\n";
  std::string late = compile(R"(std::thread([=, this] {
      auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (std::chrono::steady_clock::now() < until) {}
      right(x, out);
    }).detach();)",
                             threads);
  std::optional<Failure> f = run(options(late));
  ASSERT_FALSE(f) << f->sentence;
  for (int64_t i = 0; i < out_.view().numel(); ++i)
    EXPECT_FALSE(std::abs(out_.ptr<float>()[i]) < 1e30f) << "written after the return";

  ProcessSubject subject(options(late));
  std::unique_ptr<Node> root = Registry::instance().at("rms_norm").build(options().init, {});
  Workload w = Workload::tokens(3);
  w.dtype = DType::kF32;
  CallData data = make_call_data(*root, w, 7);
  ASSERT_FALSE(subject.bind(data.params));
  subject.call(data, Placement::kSame);
  std::optional<CallOutcome> later = subject.look_again();
  ASSERT_TRUE(later);
  EXPECT_LT(std::abs(later->written[2]->ptr<float>()[0]), 1e3f) << "it had the time to finish";

  f = run(
      options(compile("right(x, out); std::thread([] { for (volatile int i = 0;;) i = i + 1; }).detach();", threads)));
  EXPECT_FALSE(f) << "a thread that spins harms nobody while it is stopped: " << f->sentence;
}

// The judge sees a fault before the candidate does.
TEST_F(ProcessSubjectTest, SlowHandlersHideNoFault) {
  const char* handler = R"(
    #include <signal.h>
    #include <setjmp.h>
    static sigjmp_buf g_back;
    static void back(int) { siglongjmp(g_back, 1); }
  )";
  expect(
      compile(
          "right(x, out); signal(SIGSEGV, back); if (sigsetjmp(g_back, 1) == 0) out.ptr<float>()[x.numel() + 20] = 0; "
          "signal(SIGSEGV, SIG_DFL);",
          handler),
      Verdict::kOutOfBounds, "'out'");
  expect(compile("right(x, out); signal(SIGUSR1, back);", handler), Verdict::kIncorrectState, "SIGUSR1");
}

TEST_F(ProcessSubjectTest, SlowSeesHowEveryThreadComputes) {
#if defined(__aarch64__)
  const char* flush = "inline void flush() { asm volatile(\"msr fpcr, %0\" : : \"r\"(1ul << 24)); }\n";
#else
  const char* flush = "#include <xmmintrin.h>\ninline void flush() { _mm_setcsr(_mm_getcsr() | 0x8000); }\n";
#endif
  std::string threads = std::string(flush) + "#include <thread>\n#include <atomic>\n";
  expect(compile("right(x, out);", std::string(flush) + "struct S { S() { flush(); } } s;"), Verdict::kIncorrectState,
         "subnormal");
  expect(compile(R"(right(x, out);
      static std::atomic<bool> ready = false;
      static std::thread worker([] { flush(); ready = true; for (;;) std::this_thread::sleep_for(std::chrono::hours(1)); });
      while (!ready) {})",
                 threads),
         Verdict::kIncorrectState, "subnormal");
}

TEST_F(ProcessSubjectTest, SlowThreadsThatAreDoneMayStay) {
  std::optional<Failure> f =
      run(options(compile(R"(
    static std::mutex m;
    static std::condition_variable wake, done;
    static int64_t asked = 0, made = 0;
    static fk::View from, to;
    static std::thread worker([this] {
      for (std::unique_lock lock(m);;) {
        wake.wait(lock, [] { return asked > made; });
        right(from, to);
        ++made;
        done.notify_one();
      }
    });
    std::unique_lock lock(m);
    from = x, to = out, ++asked;
    wake.notify_one();
    done.wait(lock, [] { return made == asked; });)",
                          "#include <thread>\n#include <mutex>\n#include <condition_variable>\n")),
          10);
  EXPECT_FALSE(f) << f->sentence;
}

// With fewer threads to wake and to stop, the time around its calls would be shorter than what is taken off.
TEST_F(ProcessSubjectTest, SlowItsProcessKeepsItsThreads) {
  RunnerOptions o = options(compile(R"(
    static int alive = 1;
    long caller = syscall(SYS_gettid);
    if (setjmp(back) == 0)
      ctx.parallel_for(1 << 20, 1, [=](int64_t, int64_t) {
        if (syscall(SYS_gettid) != caller) {
          syscall(SYS_set_tid_address, &alive);
          syscall(SYS_exit, 0);
        }
        while (__atomic_load_n(&alive, __ATOMIC_SEQ_CST) != 0) {
        }
        longjmp(back, 1);
      });
    right(x, out);)",
                                    "#include <setjmp.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
                                    "static jmp_buf back;\n"));
  o.threads = 2;
  // The system sets `alive` to 0 when the thread can no longer be stopped before its end.
  std::optional<Failure> f = run(o);
  ASSERT_TRUE(f) << "nothing was noticed";
  EXPECT_EQ(verdict_name(f->verdict), verdict_name(Verdict::kIncorrectState)) << f->sentence;
  EXPECT_NE(f->sentence.find("ended a thread"), std::string::npos) << f->sentence;
}

// What a candidate says must not look like lines of the table.
TEST_F(ProcessSubjectTest, SlowItsWordsStayInOneLine) {
  std::optional<Failure> f = run(options(compile(R"(throw fk::Error("first\nPASSED\033[31m");)")));
  ASSERT_TRUE(f);
  EXPECT_EQ(f->sentence.find_first_of("\n\033"), std::string::npos) << f->sentence;
  EXPECT_NE(f->sentence.find("first\\x0aPASSED"), std::string::npos) << f->sentence;
}

// No process and no folder is left behind, whatever happened. Other runs of the same tests may be active, so temporary
// folders are in a separate folder, and orphaned processes become our children.
TEST_F(ProcessSubjectTest, SlowLeavesNothingBehind) {
  fs::path tmp = folder_ / "tmp";
  fs::create_directories(tmp);
  setenv("TMPDIR", tmp.c_str(), 1);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  run(options(compile("right(x, out); FILE* f = fopen(\"/tmp/fastkernels-left\", \"w\"); if (f) fputs(\"x\", f);",
                      "#include <stdio.h>")));
  run(options(compile("*(volatile int*)16 = 1;")));
  run(options());
  EXPECT_TRUE(fs::is_empty(tmp));
  EXPECT_FALSE(fs::exists("/tmp/fastkernels-left"));
  pid_t child = 0;
  for (int i = 0; i < 6000 && (child = waitpid(-1, nullptr, WNOHANG)) >= 0; ++i)
    if (child == 0) usleep(20000);
  EXPECT_EQ(child, -1) << "a process was left behind";
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace fk
