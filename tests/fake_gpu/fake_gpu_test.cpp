// The judge on a simulated GPU: shared memory, masks, checksums, and the verdicts.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench/kernels/fresh_inputs.h"
#include "bench/kernels/kernel_bench.h"
#include "bench/kernels/pair_timer.h"
#include "candidate/compile.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/json.h"
#include "sandbox/device_walls.h"
#include "sandbox/process_subject.h"
#include "tests/sanitizer.h"
#include "validate/judge.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr Device kGpu{DeviceKind::kCuda, 0};

class FakeGpu : public testing::Test {
 protected:
  void SetUp() override {
    setenv("FASTKERNELS_RUNNER", FK_BINARY_DIR "/tests/fake-gpu-runner", 1);
    device_runtime(kGpu);  // before any tree is built: it registers kernels
    folder_ = fs::temp_directory_path() / fmt::format("fk-fake-gpu-{}", getpid());
    fs::create_directories(folder_ / "L1");
    init_ = Registry::instance().at("rms_norm").default_init();
    for (Field& f : init_) {
      if (f.name == "hidden_size") f.value = int64_t{64};
      if (f.name == "dtype") f.value = std::string("f32");
    }
    workload_ = Workload::tokens(3);
    workload_.dtype = DType::kF32;
    FK_NOT_UNDER_A_SANITIZER(kNeedsTheSandbox);
  }
  void TearDown() override {
    unsetenv("FASTKERNELS_RUNNER");
    fs::remove_all(folder_);
  }

  std::string compile(const std::string& body) {
    fs::path path = folder_ / "L1" / "rms_norm.cpp";
    std::ofstream(path) << R"(#include <fastkernels/candidate.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>
static void right(fk::View x, fk::OptView residual, fk::View out, fk::OptView sums, const float* w, double eps) {
  int64_t D = x.size(1);
  for (int64_t t = 0; t < x.size(0); ++t) {
    const float* in = x.row<float>(t);
    if (residual) {
      for (int64_t i = 0; i < D; ++i) sums->row<float>(t)[i] = in[i] + residual->row<float>(t)[i];
      in = sums->row<float>(t);
    }
    double sum = 0;
    for (int64_t i = 0; i < D; ++i) sum += double(in[i]) * in[i];
    double scale = 1 / sqrt(sum / double(D) + eps);
    for (int64_t i = 0; i < D; ++i) out.row<float>(t)[i] = float(in[i] * scale * w[i]);
  }
}
static fk::View g_out;
class RMSNorm : public fk::RMSNorm {
 public:
  using fk::RMSNorm::RMSNorm;
  void forward(fk::Context& ctx, fk::View x, fk::OptView residual, fk::View out, fk::OptView sums) override {
    if (ctx.device() != fk::Device::kCuda || x.device() != fk::Device::kCuda) throw fk::Error("it is told the CPU");
    float* w = weight("weight").ptr<float>();
    (void)w, (void)residual, (void)sums, (void)out;
)" << body << "}\n};\nFK_CANDIDATE(RMSNorm)\n";
    CompileResult result = compile_candidate({&Registry::instance().at("rms_norm"), path});
    if (result.failure) throw Error("{}\n{}", result.failure->sentence, result.log);
    return result.so_path;
  }

  RunnerOptions options(std::string library) const {
    RunnerOptions o;
    o.op = "rms_norm";
    o.init = init_;
    o.library = std::move(library);
    o.timeout_ns = timeout_ns_;
    o.device = kGpu;
    return o;
  }

  Judgement judged(const std::string& body) {
    ProcessSubject baseline(options("")), candidate(options(body.empty() ? "" : compile(body)));
    return judge(Registry::instance().at("rms_norm"), init_, workload_, candidate, baseline, {.seed = 7});
  }
  void expect(const std::string& body, Verdict verdict, std::string_view words) {
    Judgement j = judged(body);
    EXPECT_EQ(verdict_name(j.verdict), verdict_name(verdict)) << j.sentence;
    EXPECT_NE(j.sentence.find(words), std::string::npos) << j.sentence;
  }

  fs::path folder_;
  Fields init_;
  Workload workload_;
  int64_t timeout_ns_ = 60'000'000'000;  // the machine may be busy
};

constexpr const char* kRight = "right(x, residual, out, sums, w, init_.eps);";

TEST_F(FakeGpu, StandsBehindAllWalls) { EXPECT_EQ(usable_walls(kGpu), Walls::kAll); }

TEST_F(FakeGpu, BaselineAndRightCandidatePass) {
  Judgement j = judged("");
  EXPECT_TRUE(j.passed()) << j.sentence;
  j = judged(kRight);
  EXPECT_TRUE(j.passed()) << j.sentence;
  EXPECT_GT(j.elements, 1000);
}

TEST_F(FakeGpu, NamesWhatWentWrong) {
  std::string right(kRight);
  expect(right + "x.ptr<float>()[5] = 0;", Verdict::kInputMutated, "'x'");
  expect(right + "w[3] += 1;", Verdict::kInputMutated, "'weight'");
  expect(right + "out.ptr<float>()[out.numel()] = 0;", Verdict::kOutOfBounds, "'out'");
  expect(right + "out.ptr<float>()[-1] = 0;", Verdict::kOutOfBounds, "'out'");
  expect(right + "out.ptr<float>()[1] = 0;", Verdict::kIncorrectNumerical, "'out'");
  expect("throw fk::Error(\"too hot\");", Verdict::kCrashed, "too hot");
  expect("_exit(0);", Verdict::kTampered, "exit code 0");
  timeout_ns_ = 2'000'000'000;
  expect("for (;;) {}", Verdict::kTimeout, "did not return");
}

// The thread writes from before the call returns until its process is stopped, and so after the checksum in the stream.
TEST_F(FakeGpu, SeesWorkThatIsDoneLate) {
  const std::string late = std::string(kRight) + R"(
    g_out = out;
    static volatile bool writes;
    writes = false;
    pthread_t t;
    auto late = [](void*) -> void* {
      for (auto* first = static_cast<volatile unsigned*>(static_cast<void*>(g_out.ptr<float>()));; writes = true) ++*first;
    };
    pthread_create(&t, nullptr, late, nullptr);
    pthread_detach(t);
    while (!writes) usleep(20);)";
  // If other programs have both cores between the checksum and the stop, nothing is written there, and the output is
  // merely wrong. It is never right.
  Judgement j;
  for (int i = 0; i < 10 && j.verdict != Verdict::kRewardHack; ++i) {
    j = judged(late);
    EXPECT_FALSE(j.passed());
  }
  EXPECT_EQ(verdict_name(j.verdict), verdict_name(Verdict::kRewardHack)) << j.sentence;
  EXPECT_NE(j.sentence.find("after the work on its stream was done"), std::string::npos) << j.sentence;
}

TEST_F(FakeGpu, TimesPairsWarmAndCold) {
  TimingOptions timing;
  timing.device = kGpu;
  timing.pairs = 12;
  timing.launches = 2;
  timing.warmups = 2;
  for (bool cold : {false, true}) {
    timing.cold = cold;
    TimingResult r =
        time_pairs(Registry::instance().at("rms_norm"), init_, workload_, compile(kRight), timing, [](double) {});
    ASSERT_FALSE(r.failure) << r.failure->sentence;
    EXPECT_GT(r.paired.candidate.median, 0);
    EXPECT_GE(r.calls_per_sample, 1);
    EXPECT_TRUE(r.held);
    EXPECT_EQ(r.clock_mhz, 1000);
  }
}

TEST_F(FakeGpu, ChecksTimedCalls) {
  TimingOptions timing;
  timing.device = kGpu;
  timing.pairs = 12;
  timing.launches = 1;
  TimingResult r = time_pairs(Registry::instance().at("rms_norm"), init_, workload_,
                              compile(std::string(kRight) + "x.ptr<float>()[0] = 1;"), timing, [](double) {});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(verdict_name(r.failure->verdict), "INPUT_MUTATED") << r.failure->sentence;
}

TEST_F(FakeGpu, RunsAScenarioAndDoubtsAFloorItsBaselineIsBelow) {
  Scenario scenario{.op = "rms_norm", .name = "a case", .init = init_, .workload = workload_};
  KernelOptions options;
  options.timing.pairs = 6;
  options.timing.launches = 1;
  options.timing.warmups = 2;
  ThreadPool pool(1);
  std::string library = compile(kRight);
  KernelResult result = KernelBench(pool, kGpu).run(scenario, library, options, [](std::string_view) {});
  EXPECT_TRUE(result.passed()) << result.sentence;
  Json json = to_json(result);
  EXPECT_EQ(json["timing"]["held"], true);
  setenv("FAKE_GPU_SLOW", "1", 1);
  result = KernelBench(pool, kGpu).run(scenario, library, options, [](std::string_view) {});
  unsetenv("FAKE_GPU_SLOW");
  EXPECT_TRUE(result.passed()) << result.sentence;
  EXPECT_NE(result.floor_note.find("floor is too high"), std::string::npos) << result.floor_note;
  EXPECT_EQ(to_json(result)["floor_note"], result.floor_note);
}

constexpr int kSecond[] = {1};  // of two slots

// Inputs built on the GPU equal those built by the judge.
TEST_F(FakeGpu, HasTheInputsTheJudgeComparesWith) {
  std::unique_ptr<Node> root = Registry::instance().at("rms_norm").build(init_, {});
  workload_ = Workload::tokens(70, true);
  FreshInputs inputs(*root, contract_inputs(), workload_, 3);
  CallMemory memory(*root, inputs.base(), 2, 1, kGpu);
  for (int round = 0; round < 40; ++round) {
    for (int slot : {0, 1}) inputs.next(slot);
    memory.stage_pieces([&](int slot) -> const CallData& { return inputs.base(slot); },
                        [&](int slot, size_t tensor) { return inputs.pieces(slot, tensor); });
    memory.fill(
        kSecond, 0, [&](int) -> const CallData& { return inputs.base(); }, 0xFF, 0);
    const SharedTensors& shared = memory.inputs();
    device_runtime(kGpu).judging().mask(std::vector{range_of(shared.view(shared.size() / 2))}, 0);
    View x = shared.view(shared.size() / 2), want = *inputs.current(1).given[0];
    EXPECT_EQ(std::memcmp(x.data(), want.data(), want.size_bytes()), 0) << inputs.kind(1) << " in round " << round;
    EXPECT_NE(std::memcmp(x.data(), inputs.base(1).given[0]->view().data(), want.size_bytes()), 0);
  }
}

// Before the stream reaches a call, the runner does not see the data of the call.
TEST_F(FakeGpu, MasksInputsUntilTheCall) {
  std::unique_ptr<Node> root = Registry::instance().at("rms_norm").build(init_, {});
  CallData data = make_call_inputs(*root, workload_, 3);
  CallMemory memory(*root, data, 2, 1, kGpu);
  memory.stage(1, data);
  memory.fill(
      kSecond, 0, [&](int) -> const CallData& { return data; }, 0xFF, 99);
  EXPECT_TRUE(memory.check_inputs(1, data));
  EXPECT_FALSE(memory.check_margins(kSecond, 0, 0xFF));
  std::vector<DeviceRange> inputs;
  for (size_t i = memory.inputs().size() / 2; i < memory.inputs().size(); ++i)
    inputs.push_back(range_of(memory.inputs().view(i)));
  device_runtime(kGpu).judging().mask(inputs, 99);
  EXPECT_FALSE(memory.check_inputs(1, data));
}

}  // namespace
}  // namespace fk
