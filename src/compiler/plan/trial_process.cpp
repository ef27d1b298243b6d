#include "compiler/plan/trial_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "candidate/compile_cache.h"
#include "core/error.h"
#include "core/json.h"
#include "core/undo_at_end.h"
#include "graph/graph_json.h"
#include "measure/timer.h"

extern char** environ;

namespace fk {
namespace {

Json region_to_json(const Region& region) {
  Json json = {{"nodes", region.nodes}, {"inputs", region.inputs}, {"outputs", Json::array()}};
  for (const Region::Output& o : region.outputs) json["outputs"].push_back({o.value, o.updates});
  return json;
}

Region region_from_json(const Json& json) {
  Region region;
  region.nodes = json.at("nodes").get<std::vector<size_t>>();
  region.inputs = json.at("inputs").get<std::vector<ValueId>>();
  for (const Json& o : json.at("outputs")) region.outputs.push_back({o.at(0).get<ValueId>(), o.at(1).get<int>()});
  return region;
}

std::string request_text(const GraphBody& flat, const std::vector<TrialRequest>& requests, size_t first,
                         const TrialOptions& options) {
  Json json = {{"graph", graph_to_json({"", options.phase, {flat}})},
               {"parent", getpid()},
               {"device", static_cast<int>(options.device.kind)},
               {"index", static_cast<int>(options.device.index)},
               {"rows", options.rows},
               {"threads", options.threads},
               {"seed", options.seed},
               {"kernels", Json::array()}};
  for (size_t i = first; i < requests.size(); ++i)
    json["kernels"].push_back({{"number", i},
                               {"key", requests[i].key},
                               {"library", requests[i].library},
                               {"products", requests[i].found->product_nodes},
                               {"region", region_to_json(requests[i].found->region)}});
  return dump_json(json, -1);
}

// The program that was started, and the end of its output that this one reads.
class Served {
 public:
  explicit Served(std::vector<std::string> command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error("A trial needs a pipe, and there is none left.");
    out_ = ends[0];
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int failed = 0;
    process_.make(
        [&] {
          failed = posix_spawn(&child_, command[0].c_str(), &files, &attributes, argv.data(), environ);
          if (failed != 0) child_ = -1;
        },
        [this] {
          if (child_ > 0) kill(child_, SIGKILL);
        });
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    if (failed != 0) {
      close(out_);
      throw Error("A trial needs a process of its own, and {} cannot be started ({}).", command[0], strerror(failed));
    }
  }
  ~Served() {
    close(out_);
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  // The next line; nothing where the process has ended, or has printed none for that long.
  std::optional<std::string> line(int limit_s) {
    Stopwatch watch;
    for (;;) {
      if (size_t end = text_.find('\n'); end != text_.npos) {
        std::string first = text_.substr(0, end);
        text_.erase(0, end + 1);
        return first;
      }
      int left = static_cast<int>(limit_s * 1000 - watch.elapsed_ns() / 1'000'000);
      pollfd ready{out_, POLLIN, 0};
      int found = left <= 0 ? 0 : poll(&ready, 1, left);
      if (found < 0 && errno == EINTR) continue;
      if (found == 0) {
        hung = true;
        return {};
      }
      char buffer[4096];
      ssize_t n = read(out_, buffer, sizeof buffer);
      if (n <= 0) return {};
      text_.append(buffer, static_cast<size_t>(n));
    }
  }

  // How it ended.
  TrialResult end(int limit_s) {
    if (hung) kill(child_, SIGKILL);
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return hung ? unfinished_trial(limit_s) : ended_trial(status);
  }

  bool hung = false;

 private:
  pid_t child_ = -1;
  int out_ = -1;
  std::string text_;
  UndoAtEnd process_;
};

// A file that is gone when this is.
class RequestFile {
 public:
  explicit RequestFile(const std::string& text)
      : path_(temporary_name((std::filesystem::temp_directory_path() / "fastkernels-trials").string())) {
    file_.make([&] { written_ = write_whole(path_, text); }, [path = path_] { unlink(path.c_str()); });
    if (!written_) throw Error("{} cannot be written; set TMPDIR to a folder that can.", path_);
  }
  ~RequestFile() { file_.undo(); }
  RequestFile(const RequestFile&) = delete;
  RequestFile& operator=(const RequestFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool written_ = false;
  UndoAtEnd file_;
};

}  // namespace

std::vector<TrialResult> try_kernels(const GraphBody& flat, const std::vector<TrialRequest>& requests,
                                     const TrialOptions& options, const std::vector<std::string>& command,
                                     const std::function<void(size_t)>& begin) {
  std::vector<TrialResult> results(requests.size());
  if (command.empty()) {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (begin) begin(i);
      std::shared_ptr<RegionKernel> kernel =
          load_region(requests[i].library, *requests[i].found, flat, options.device.kind);
      results[i] = try_kernel_here(flat, *requests[i].found, *kernel, options);
    }
    return results;
  }
  for (size_t next = 0; next < requests.size();) {
    RequestFile file(request_text(flat, requests, next, options));
    std::vector<std::string> words = command;
    words.push_back(file.path());
    Served served(words);
    bool begun = false;
    // A device takes its time to start.
    while (std::optional<std::string> line = served.line(options.limit_s)) {
      if (line->starts_with("begin ")) {
        begun = true;
        if (begin) begin(next);
      } else if (line->starts_with("{")) {
        results[next++] = trial_from_json(parse_json(*line, "the result of a trial"));
        begun = false;
        if (next == requests.size()) break;
      }
    }
    if (next == requests.size()) break;
    TrialResult ended = served.end(options.limit_s);
    if (!begun && next == 0)
      throw Error("The process for trials of kernels failed before the first one: {}.", ended.failure);
    // One that ended after a result has broken the device, and says so itself.
    if (begun) results[next++] = std::move(ended);
  }
  return results;
}

void serve_trials(const std::string& path) {
  std::optional<std::string> text = file_text(path);
  if (!text) throw Error("{} is not a file that can be read.", path);
  Json json = parse_json(*text, path);
  // Trials do not outlive who waits for them, however that ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != json.at("parent").get<pid_t>()) throw Error("Who asked for these trials has ended.");
  Graph graph = graph_from_json(json.at("graph"));
  const GraphBody& flat = graph.root();
  TrialOptions options{.phase = graph.phase,
                       .rows = json.at("rows").get<std::vector<int64_t>>(),
                       .threads = json.at("threads").get<int>(),
                       .seed = json.at("seed").get<uint64_t>(),
                       .device = {static_cast<DeviceKind>(json.at("device").get<int>()),
                                  static_cast<int8_t>(json.at("index").get<int>())}};
  for (const Json& wanted : json.at("kernels")) {
    std::printf("begin %s\n", wanted.at("key").get<std::string>().c_str());
    std::fflush(stdout);
    TrialResult result;
    bool broken = false;
    try {
      FoundRegion found = region_in_graph(flat, region_from_json(wanted.at("region")), options.device.kind,
                                          wanted.at("products").get<std::set<size_t>>());
      std::shared_ptr<RegionKernel> kernel =
          load_region(wanted.at("library").get<std::string>(), found, flat, options.device.kind);
      result = try_kernel_here(flat, found, *kernel, options);
    } catch (const std::exception& e) {
      result = failed_trial(TrialEnd::kFailed, e.what());
      broken = true;
    }
    std::printf("%s\n", dump_json(trial_to_json(result), -1).c_str());
    std::fflush(stdout);
    // What a device does after an error says nothing about other kernels.
    if (broken) _exit(1);
  }
}

}  // namespace fk
