#include "cli/own_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/json.h"
#include "core/undo_at_end.h"

extern char** environ;

namespace fk {
namespace {

// Reads an unnamed temporary file.
std::string content(int file) {
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(file, 0, SEEK_END), 0)), '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t got = pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

// "fastkernels: error: <sentence>" as its last line.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// A candidate may print too, before or after the result.
std::string object_in(const std::string& text) {
  size_t begin = text.find("{\n"), end = text.rfind("\n}\n");
  return begin == text.npos || end == text.npos || end < begin ? text : text.substr(begin, end + 2 - begin);
}

}  // namespace

Json json_of_own_process(const std::vector<std::string>& arguments, const std::string& what) {
  OwnProcess process = run_own_process(arguments);
  if (process.exit_code != 0) {
    std::string words = last_line(process.err);
    if (words.empty()) words = fmt::format("it ended with code {} and printed nothing", process.exit_code);
    throw Error("{} failed: {}", what, words);
  }
  return parse_json(object_in(process.out), "what a run printed");
}

OwnProcess run_own_process(const std::vector<std::string>& arguments) {
  int out = memfd_create("stdout", MFD_CLOEXEC), err = memfd_create("stderr", MFD_CLOEXEC);
  if (out < 0 || err < 0) throw Error("The system gave no memory for a process's output ({}).", strerror(errno));
  std::vector<std::string> words = {"fastkernels"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  // This program blocks the signals that its thread waits for; unblock them, since the child blocks them itself.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  int failed = 0;
  UndoAtEnd process;
  process.make(
      [&] {
        failed = posix_spawn(&child, "/proc/self/exe", &files, &attributes, argv.data(), environ);
        if (failed != 0) child = -1;
      },
      [&] {
        if (child > 0) kill(child, SIGKILL);
      });
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  OwnProcess result;
  int status = 0;
  if (failed == 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  process.forget();
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.out = content(out);
  result.err = content(err);
  close(out);
  close(err);
  if (failed != 0) throw Error("A process to measure in could not be started ({}).", strerror(failed));
  return result;
}

}  // namespace fk
