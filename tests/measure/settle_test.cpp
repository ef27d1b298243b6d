// Waiting for a quiet machine: it ends in time, and says what was in the way.
#include "measure/settle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/json.h"
#include "core/thread_pool.h"

namespace fk {
namespace {

TEST(Settle, SaysThatOthersKeepTheCoresBusy) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  for (int i = 0; i < usable_cores(); ++i)
    busy.emplace_back([&] {
      while (!stop) {
      }
    });
  Settled settled = Settle(kCpu).wait(0.3, usable_cores());
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_FALSE(settled.ready);
  EXPECT_NE(settled.warning.find("cores busy"), std::string::npos) << settled.warning;
  EXPECT_GE(settled.waited_s, 0.3);
  EXPECT_GT(settled.busy_cores, 0.5 * usable_cores());
  EXPECT_EQ(settled.to_json()["ready"], false);
}

TEST(Settle, LooksOnceWhereThereIsNoTimeToWait) {
  Settled settled = Settle(kCpu).wait(0, 1);
  EXPECT_LT(settled.waited_s, 10);  // one look, on a machine that may be busy
  EXPECT_EQ(settled.ready, settled.warning.empty());
  EXPECT_FALSE(gpu_state(kCpu));
}

}  // namespace
}  // namespace fk
