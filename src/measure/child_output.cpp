// posix_spawn with a pipe and a deadline: safe while other threads run, and a hanging tool cannot block us.
#include "measure/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "measure/timer.h"

extern char** environ;

namespace fk {
bool read_blocks(int file, int limit_ms, const std::function<bool(std::string_view)>& take) {
  Stopwatch watch;
  char block[16384];
  for (;;) {
    int64_t left_ms = limit_ms - watch.elapsed_ns() / 1'000'000;
    if (left_ms <= 0) return false;
    pollfd ready{file, POLLIN, 0};
    int count = poll(&ready, 1, static_cast<int>(left_ms));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    ssize_t got = read(file, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    if (!take({block, static_cast<size_t>(got)})) return false;
  }
}

std::optional<std::string> find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    std::string path(name);
    return access(path.c_str(), X_OK) == 0 ? std::optional(path) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path ? path : "";
  while (!folders.empty()) {
    size_t end = std::min(folders.find(':'), folders.size());
    std::string candidate = std::string(folders.substr(0, end)) + "/" + std::string(name);
    if (end > 0 && access(candidate.c_str(), X_OK) == 0) return candidate;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return std::nullopt;
}

std::optional<std::string> output_of(const std::vector<std::string>& command, int limit_ms, size_t limit_bytes) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int failed = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  bool complete = failed == 0 && read_blocks(ends[0], limit_ms, [&](std::string_view block) {
                    text += block;
                    return text.size() <= limit_bytes;
                  });
  close(ends[0]);
  if (failed != 0) return std::nullopt;
  if (!complete) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!complete || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

}  // namespace fk
