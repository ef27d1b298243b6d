// Graphs: a replay uses the current content of memory, and every L1 operator can be recorded.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/tuned_choice.h"
#include "ops/materialize.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

class CudaRecording : public OnDevice {
 protected:
  // Operators run once before they are recorded, as in a decoding loop: that is when they measure and allocate.
  struct Call {
    std::unique_ptr<Node> node;
    std::vector<Tensor> params;
    std::vector<std::optional<Tensor>> given, tensors;  // as the caller gave them, and what the call works on
    std::vector<OptView> args;
    Arena arena{kCuda};
    ThreadPool pool{1};

    void run() {
      arena.reset();
      Context ctx{.pool = pool, .arena = arena, .stream = device_runtime(kCuda).stream()};
      node->call(ctx, args);
    }
    void restore() {
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (!tensors[i]) continue;
        if (i < given.size())
          copy_between(*given[i], *tensors[i]);
        else
          device_runtime(kCuda).fill(tensors[i]->view().data(), std::byte{0x5b}, tensors[i]->view().size_bytes());
      }
    }
  };

  static std::unique_ptr<Call> make(const OperatorInfo& info, const OperatorInfo::ErasedCase& which) {
    auto call = std::make_unique<Call>();
    BuildOptions options;
    options.device = kCuda;
    call->node = info.build(which.init, options);
    CallData data = make_call_data(*call->node, which.workload, 5);
    std::vector<ParamSpec> specs = collect_params(*call->node);
    for (const Tensor& p : data.params) call->params.push_back(uploaded(p));
    call->node->bind([&](const std::string& name) -> View {
      for (size_t i = 0; i < specs.size(); ++i)
        if (specs[i].name == name) return call->params[i];
      throw Error("There is no parameter '{}'.", name);
    });
    call->given = std::move(data.given);
    for (const auto& t : call->given) {
      call->tensors.emplace_back();
      if (t) call->tensors.back() = uploaded(*t);
      call->args.push_back(t ? OptView(call->tensors.back()->view()) : std::nullopt);
    }
    OutputSpecs outputs = call->node->outputs(call->args);
    for (size_t i = 0; call->args.size() < info.args.size(); ++i) {
      call->tensors.emplace_back();
      if (outputs.specs[i]) call->tensors.back().emplace(*outputs.specs[i], kCuda);
      call->args.push_back(outputs.specs[i] ? OptView(call->tensors.back()->view()) : std::nullopt);
    }
    return call;
  }

  static std::vector<std::vector<std::byte>> contents(const Call& call) {
    std::vector<std::vector<std::byte>> all;
    for (const auto& t : call.tensors) all.push_back(t ? bytes_of(*t) : std::vector<std::byte>());
    return all;
  }
};

TEST_F(CudaRecording, EveryOperatorCanBeRecorded) {
  for (const OperatorInfo* info : Registry::instance().operators()) {
    bool on_cuda = std::any_of(info->implementations.begin(), info->implementations.end(),
                               [](const ImplementationInfo& i) { return i.device == DeviceKind::kCuda; });
    if (info->level != 1 || !on_cuda) continue;
    for (const auto& which : info->cases()) {
      SCOPED_TRACE(std::string(info->name) + ", " + which.label);
      std::unique_ptr<Call> call = make(*info, which);
      call->restore();
      call->run();
      auto eager = contents(*call);
      call->restore();
      int64_t before = runtime().recordings();
      runtime().begin_recording();
      try {
        call->run();
      } catch (const std::exception& error) {
        runtime().abandon_recording();
        ADD_FAILURE() << error.what();
        continue;
      }
      std::unique_ptr<RecordedWork> work = runtime().end_recording();
      EXPECT_EQ(runtime().recordings(), before + 1);
      call->restore();
      work->launch();
      EXPECT_EQ(contents(*call), eager);
    }
  }
}

TEST_F(CudaRecording, ReplaysOnNewData) {
  const OperatorInfo& info = Registry::instance().at("silu_and_mul");
  std::unique_ptr<Call> call = make(info, info.cases()[2]);
  call->run();
  runtime().begin_recording();
  call->run();
  std::unique_ptr<RecordedWork> work = runtime().end_recording();
  for (int round = 0; round < 3; ++round) {
    Tensor& x = *call->given[0];
    for (int64_t i = 0; i < x.view().numel(); ++i)
      x.ptr<bf16>()[i] = bf16(static_cast<float>((i * 31 + round * 17) % 101 - 50) / 16);
    call->restore();
    call->run();
    auto eager = contents(*call);
    call->restore();
    work->launch();
    EXPECT_EQ(contents(*call), eager) << round;
  }
}

TEST_F(CudaRecording, TuningFindsTheFasterKernelInRecordedWork) {
  Tensor memory({int64_t{64} << 20}, DType::kI8, kCuda);
  TunedChoice choice;
  choice.contenders = {0, 1, 2};
  int kept = 0;
  choice.keep = [&] { ++kept; };
  const std::array<size_t, 3> bytes{size_t{64} << 20, size_t{1} << 20, size_t{32} << 20};
  auto work = [&] { runtime().fill(memory.view().data(), std::byte{7}, bytes[static_cast<size_t>(use(choice))]); };
  const int64_t recordings = runtime().recordings();
  runtime().tune(work);
  EXPECT_EQ(choice.chosen, 1);
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(runtime().recordings(), recordings) << "trials are not recordings of the caller";
}

}  // namespace
}  // namespace fk
