// Run ids, times, and the path of the history: the part that needs no database.
#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "core/environment_variable.h"
#include "core/error.h"
#include "track/store.h"

namespace fk {
namespace {

std::tm utc(int64_t time_us) {
  auto seconds = static_cast<std::time_t>(time_us / 1'000'000);
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  return fields;
}

}  // namespace

int64_t now_us() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::string make_run_id(int64_t now_us) {
  uint32_t tail = 0;
  if (getrandom(&tail, sizeof tail, 0) != sizeof tail)
    throw Error("This system gives no random numbers; run ids need them.");
  char text[32];
  std::tm fields = utc(now_us);
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &fields);
  return fmt::format("{}-{:06}-{:08x}", text, now_us % 1'000'000, tail);
}

std::string utc_text(int64_t time_us) {
  char text[32];
  std::tm fields = utc(time_us);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &fields);
  return text;
}

std::string default_store_path() {
  if (std::string home = environment_variable("FASTKERNELS_HOME"); !home.empty()) return home + "/history.db";
  if (std::string data = environment_variable("XDG_DATA_HOME"); !data.empty()) return data + "/fastkernels/history.db";
  std::string home = environment_variable("HOME");
  if (home.empty()) return fmt::format("/tmp/fastkernels-{}/history.db", getuid());
  return home + "/.local/share/fastkernels/history.db";
}

}  // namespace fk
