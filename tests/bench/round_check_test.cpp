// Checking outputs must not make one side faster than the others.
#include "bench/kernels/round_check.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "ops/materialize.h"

namespace fk {
namespace {

constexpr size_t kPage = 4096;

// Forgets which pages of a memory this process has read; their contents stay, since others share them.
void forget(const SharedTensors& memory) {
  const auto begin = reinterpret_cast<uintptr_t>(memory.view(0).data()) / kPage * kPage;
  const View last = memory.view(memory.size() - 1);
  const auto end = reinterpret_cast<uintptr_t>(last.data()) + last.size_bytes();
  ASSERT_EQ(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED), 0);
}

// The bytes of its pages that were read since: Linux maps 64 KiB at a time.
size_t bytes_read(const SharedTensors& memory) {
  const int pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  EXPECT_GE(pages, 0);
  size_t read = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    const View tensor = memory.view(i);
    const size_t first = reinterpret_cast<uintptr_t>(tensor.data()) / kPage;
    std::vector<uint64_t> entries(tensor.size_bytes() / kPage);
    const auto bytes = static_cast<ssize_t>(entries.size() * 8);
    EXPECT_EQ(pread(pages, entries.data(), entries.size() * 8, static_cast<off_t>(first * 8)), bytes);
    read += kPage * static_cast<size_t>(std::count_if(entries.begin(), entries.end(), [](uint64_t e) { return e >> 63; }));
  }
  close(pages);
  return read;
}

// What was read last is in the caches when it is written the next time.
TEST(RoundCheck, EverySideIsReadEquallyOften) {
  constexpr int kRows = 2048, kRounds = 16, kSlots = 2;
  const OperatorInfo& op = Registry::instance().at("rms_norm");
  Fields init = op.default_init();
  for (Field& f : init) {
    if (f.name == "hidden_size") f.value = int64_t{1024};
    if (f.name == "dtype") f.value = std::string("f32");
  }
  Workload workload = Workload::tokens(kRows);
  workload.dtype = DType::kF32;
  const uint64_t seed = 7;
  std::unique_ptr<Node> root = op.build(init, {});
  const InputMaker& maker = contract_inputs();
  SharedParams weights = maker.params(*root, seed);
  size_t bound = 0;
  root->bind([&](const std::string&) { return (*weights)[bound++].view(); });
  FreshInputs inputs(*root, maker, workload, seed);
  JudgeOptions judging;
  judging.seed = seed;
  Judge judge(op, init, workload, judging);
  CallMemory memory(*root, inputs.base(), kSlots, LaunchSides::kTimed);
  RoundCheck check(op, *root, workload, judge, inputs, seed);
  ThreadPool pool(1);
  Arena arena;

  const std::vector<int> calls = {0, 1};
  std::array<double, LaunchSides::kTimed> read{};
  for (int round = 0; round < kRounds; ++round) {
    for (int slot : calls) inputs.next(slot);
    check.prepare(calls, false);
    for (int writer = 0; writer < LaunchSides::kTimed; ++writer) {
      memory.fill(calls, writer, [&](int slot) -> const CallData& { return inputs.current(slot); }, 0xFF, 0);
      for (int slot : calls) {
        std::vector<OptView> args;
        for (const auto& t : inputs.current(slot).given) args.push_back(t ? OptView(t->view()) : std::nullopt);
        args.emplace_back(memory.written_tensors(slot, writer)[0]);
        args.emplace_back();
        Context ctx{.pool = pool, .arena = arena};
        root->call(ctx, args);
      }
    }
    for (int writer = 0; writer < LaunchSides::kTimed; ++writer) forget(memory.written(writer));
    const std::array<int, LaunchSides::kTimed> writers = {0, 1, 2};
    std::optional<Failure> failure = check.check({memory, calls, writers, 0xFF, false});
    ASSERT_FALSE(failure) << failure->sentence;
    for (int side = 0; side < LaunchSides::kTimed; ++side)
      read[static_cast<size_t>(side)] += static_cast<double>(bytes_read(memory.written(side)));
  }
  const auto [least, most] = std::minmax_element(read.begin(), read.end());
  EXPECT_GT(*least, 0);
  // Positions are random, and a page that two looks have in common counts once.
  EXPECT_LT(*most, 1.05 * *least) << "baseline " << read[0] << ", candidate " << read[1] << ", control " << read[2];
}

}  // namespace
}  // namespace fk
