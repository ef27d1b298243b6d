#include "candidate/compiler_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "measure/child_output.h"

extern char** environ;

namespace fk {
namespace {

constexpr size_t kLogLimit = 256 << 10;

// Ours, except that messages come in English: they are searched.
std::vector<char*> english_environment(std::string& locale) {
  std::vector<char*> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    if (!text.starts_with("LC_") && !text.starts_with("LANG")) list.push_back(*entry);
  }
  list.push_back(locale.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

CompilerRun run_compiler(const std::vector<std::string>& command, int limit_ms) {
  CompilerRun run;
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::string locale = "LC_ALL=C";
  std::vector<char*> environment = english_environment(locale);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return run;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  // A group of its own: a driver that is killed leaves its compiler proper behind otherwise.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = 0;
  int failed = posix_spawnp(&child, words[0], &actions, &attributes, words.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  run.started = failed == 0;
  // Keeps the head of what is said and reads on, since a compiler that cannot write does not end.
  if (run.started)
    run.timed_out = !read_blocks(ends[0], limit_ms, [&](std::string_view block) {
      run.log += block.substr(0, kLogLimit - run.log.size());
      return true;
    });
  close(ends[0]);
  if (!run.started) return run;
  if (run.timed_out) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  return run;
}

}  // namespace fk
