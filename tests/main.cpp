// The main function of all test programs. With --apart every test runs in a process of its own, as if it were started
// alone, but without loading the program again; what a test prints is shown where it fails.
//
//   test_core --apart --gtest_filter='Json.*'    the tests of a suite
//   test_core --apart --part=1/3                 every third test, from the second on
//   test_core --apart --together                 tests of one subject in one process
//
// FASTKERNELS_TEST_TIMES=FILE adds a line to FILE for each test: its processor time and the time that passed in
// milliseconds, and its name. tools/test_times.py adds them up.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr unsigned kLimitSeconds = 1200;  // for one test; ctest gives up after 1500

struct Options {
  bool apart = false;
  bool together = false;
  size_t part = 0, parts = 1;
};

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--apart") options.apart = true;
    if (std::string_view(argv[i]) == "--together") options.together = true;
    if (std::string_view(argv[i]).substr(0, 7) != "--part=") continue;
    char more = 0;  // a part misread would leave tests out, or run them for ever
    if (std::sscanf(argv[i], "--part=%zu/%zu%c", &options.part, &options.parts, &more) != 2 ||
        options.part >= options.parts) {
      std::fprintf(stderr, "%s is no part; give I/N with I from 0 to N - 1.\n", argv[i]);
      std::exit(2);
    }
  }
  return options;
}

// Temporary files in memory, where there is room and programs may run from it: tests of histories would wait for the
// disk most of their time. The folder is locked while this program lives. A program that was killed leaves its folder,
// without the lock, and the next one removes it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    struct statvfs room {};
    if (getenv("TMPDIR") != nullptr || statvfs(kMemory, &room) != 0 || (room.f_flag & ST_NOEXEC) != 0) return;
    remove_those_left();
    if (statvfs(kMemory, &room) != 0 || room.f_bavail * room.f_frsize < kLeastRoom) return;
    for (int attempt = 0; attempt < 10 && path_.empty(); ++attempt) make();
    if (path_.empty()) return;
    chmod(path_.c_str(), 01777);  // as /tmp: some tests are other users for a while
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
    if (lock_ >= 0) close(lock_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  static constexpr unsigned long kLeastRoom = 2ul << 30;
  static constexpr const char* kMemory = "/dev/shm";
  static constexpr std::string_view kPrefix = "fastkernels-tests-";  // also in memory_folder.py

  // A descriptor that holds the lock of a folder, or -1 where another process has it. A forked test shares it.
  static int locked(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    close(file);
    return -1;
  }

  void make() {
    std::string path = std::string(kMemory) + "/" + std::string(kPrefix) + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return;
    lock_ = locked(path);
    if (lock_ >= 0 && std::filesystem::exists(path)) {
      path_ = path;
      return;
    }
    if (lock_ >= 0) close(lock_);  // another program took it for one that was left, before it was locked
    lock_ = -1;
  }

  static void remove_those_left() {
    std::error_code error;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(kMemory, error)) {
      if (entry.path().filename().string().substr(0, kPrefix.size()) != kPrefix) continue;
      const int lock = locked(entry.path());
      struct stat owner {};
      if (lock >= 0 && fstat(lock, &owner) == 0 && owner.st_uid == geteuid())
        std::filesystem::remove_all(entry.path(), error);
      if (lock >= 0) close(lock);
    }
  }

  std::string path_;
  int lock_ = -1;
};

// '*' is any text, '?' any character.
bool fits(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') return fits(name, pattern.substr(1)) || (!name.empty() && fits(name.substr(1), pattern));
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) && fits(name.substr(1), pattern.substr(1));
}

bool fits_one(std::string_view name, std::string_view patterns) {
  for (size_t end; !patterns.empty(); patterns.remove_prefix(std::min(end + 1, patterns.size()))) {
    end = std::min(patterns.find(':'), patterns.size());
    if (fits(name, patterns.substr(0, end))) return true;
  }
  return false;
}

// The tests that GoogleTest's own filter selects.
std::vector<std::string> selected_tests() {
  const std::string filter = GTEST_FLAG_GET(filter);
  const size_t dash = std::min(filter.find('-'), filter.size());
  const std::string wanted = dash == 0 ? "*" : filter.substr(0, dash);
  const std::string unwanted = dash < filter.size() ? filter.substr(dash + 1) : "";
  std::vector<std::string> names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s)
    for (int t = 0; t < all.GetTestSuite(s)->total_test_count(); ++t) {
      const testing::TestInfo& test = *all.GetTestSuite(s)->GetTestInfo(t);
      std::string name = std::string(test.test_suite_name()) + "." + test.name();
      if (fits_one(name, wanted) && !fits_one(name, unwanted)) names.push_back(std::move(name));
    }
  return names;
}

// Tests that run in one process.
using Group = std::vector<std::string>;

// The operator or the model of a test that is made for many of them: "Suite.Test/linear_by_cpu_tiles" is of "linear".
std::string subject_of(const std::string& test) {
  const size_t slash = test.rfind('/');
  if (slash == std::string::npos || slash < test.find('.')) return test;
  const std::string parameter = test.substr(slash + 1);
  return parameter.substr(0, parameter.find("_by_"));
}

// Tests of one subject share references and models that are kept once made, which cost more than what they test.
std::vector<Group> groups_of(const Options& options) {
  std::vector<Group> groups;
  std::map<std::string, size_t> known;
  for (const std::string& test : selected_tests()) {
    const size_t at =
        options.together ? known.try_emplace(subject_of(test), groups.size()).first->second : groups.size();
    if (at == groups.size()) groups.emplace_back();
    groups[at].push_back(test);
  }
  std::vector<Group> part;
  for (size_t i = options.part; i < groups.size(); i += options.parts) part.push_back(std::move(groups[i]));
  return part;
}

struct Outcome {
  bool passed = false;  // all of them, or they were skipped
  size_t skipped = 0;
  std::string how;  // it failed
  std::string output;
};

// With the processes that it waited for.
double processor_ms(const rusage& usage) {
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

void write_time(const std::string& name, const rusage& usage, double passed_ms) {
  const char* path = getenv("FASTKERNELS_TEST_TIMES");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "ae");
  if (file == nullptr) return;
  std::fprintf(file, "%.1f %.1f %s\n", processor_ms(usage), passed_ms, name.c_str());
  std::fclose(file);
}

std::string content_of(int file) {
  std::string text;
  char some[4096];
  off_t at = 0;
  for (ssize_t n; (n = pread(file, some, sizeof some, at)) > 0; at += n) text.append(some, static_cast<size_t>(n));
  return text;
}

// The number of GoogleTest's summary that follows the text, or 0; names of tests, which may follow it too, begin with a
// letter.
size_t number_after(const std::string& output, const std::string& text) {
  for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
    if (std::isdigit(static_cast<unsigned char>(output[at + text.size()])) != 0)
      return std::strtoull(output.c_str() + at + text.size(), nullptr, 10);
  return 0;
}

Outcome run_apart(const Group& group) {
  std::string filter;
  for (const std::string& name : group) filter += (filter.empty() ? "" : ":") + name;
  const int output = memfd_create("output", MFD_CLOEXEC);
  std::fflush(nullptr);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with this program
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    signal(SIGALRM, SIG_DFL);
    GTEST_FLAG_SET(filter, filter);
    std::exit(RUN_ALL_TESTS());
  }
  Outcome outcome;
  if (output < 0 || child < 0) {
    outcome.how = std::string("could not be started: ") + std::strerror(errno);
    return outcome;
  }
  int status = 0;
  bool late = false;
  rusage usage{};
  alarm(kLimitSeconds);
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
    late = true;
    kill(child, SIGKILL);
  }
  alarm(0);
  write_time(group.size() == 1 ? group[0] : group[0] + " and others", usage,
             std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  outcome.output = content_of(output);
  close(output);
  outcome.passed = !late && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (outcome.passed) outcome.skipped = number_after(outcome.output, "[  SKIPPED ] ");
  if (late)
    outcome.how = "did not end within " + std::to_string(kLimitSeconds) + " s";
  else if (WIFSIGNALED(status))
    outcome.how = std::string("crashed: ") + strsignal(WTERMSIG(status));
  else
    outcome.how = "failed with exit code " + std::to_string(WEXITSTATUS(status));
  // No test may pass because its name was misread.
  if (outcome.passed && number_after(outcome.output, "[  PASSED  ] ") + outcome.skipped != group.size()) {
    outcome.passed = false;
    outcome.how = "was not run";
  }
  return outcome;
}

int run_all_apart(const Options& options) {
  struct sigaction wake {};  // without SA_RESTART: the alarm interrupts the wait
  wake.sa_handler = [](int) {};
  sigaction(SIGALRM, &wake, nullptr);
  const TemporaryFolder folder;
  size_t passed = 0, skipped = 0;
  std::vector<std::string> failures;
  // Counts a group that passed or whose only test failed; returns whether it was one of these.
  auto done = [&](const Group& group) {
    const Outcome outcome = run_apart(group);
    if (!outcome.passed || outcome.skipped > 0) std::printf("%s\n", outcome.output.c_str());
    if (!outcome.passed && group.size() > 1) return false;
    if (!outcome.passed) failures.push_back(group[0] + " " + outcome.how);
    skipped += outcome.skipped;
    passed += outcome.passed ? group.size() - outcome.skipped : 0;
    return true;
  };
  for (const Group& group : groups_of(options)) {
    if (done(group)) continue;
    // Which of them is it, and does none hide another?
    const size_t before = failures.size();
    for (const std::string& test : group) done({test});
    if (failures.size() > before) continue;
    --passed;
    failures.push_back(group[0] + " or one of the " + std::to_string(group.size() - 1) +
                       " others of its subject failed in one process with them, and passed alone");
  }
  for (const std::string& failure : failures) std::printf("[  FAILED  ] %s\n", failure.c_str());
  std::printf("passed %zu, skipped %zu, failed %zu\n", passed, skipped, failures.size());
  return failures.empty() && passed + skipped > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // Memory that was freed is used again instead of given back and cleared by the kernel: a tenth of what tests of
  // kernels cost. What they start is not affected.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // glibc takes no more
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 32 << 20);
  testing::InitGoogleTest(&argc, argv);
  const Options options = read_options(argc, argv);
  return options.apart ? run_all_apart(options) : RUN_ALL_TESTS();
}
