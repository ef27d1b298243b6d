// mlflow-ui: starts a local MLflow server and sends it all stored runs.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "cli/output.h"
#include "cli/verb.h"
#include "core/error.h"
#include "measure/timer.h"
#include "track/mlflow.h"
#include "track/recorder.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

volatile sig_atomic_t g_stop = 0;

std::string on_path(const std::string& program) {
  std::string path = getenv("PATH") == nullptr ? "" : getenv("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    std::string file = path.substr(begin, end - begin) + "/" + program;
    if (end > begin && access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return "";
}

bool port_is_free(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return free;
}

// The server and its workers, in a process group that is ended with this program.
class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& command, const std::string& log) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) throw Error("The server cannot be started ({}).", strerror(errno));
    if (pid_ > 0) return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_DFL);
    if (std::freopen(log.c_str(), "w", stdout) == nullptr || dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
    unsetenv("MLFLOW_TRACKING_URI");
    // MLflow 3 starts eight more Python processes for jobs that our runs have none of; users who want them set it to true.
    setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false", 0);
    execv(words[0], words.data());
    _exit(127);
  }
  ~ServerProcess() {
    if (ended()) return;
    kill(-pid_, SIGTERM);
    for (int i = 0; i < 100 && !ended(); ++i) std::this_thread::sleep_for(50ms);
    if (!ended()) kill(-pid_, SIGKILL);
    if (!ended_) waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  bool ended() {
    if (!ended_ && waitpid(pid_, nullptr, WNOHANG) == pid_) ended_ = true;
    return ended_;
  }

 private:
  pid_t pid_ = 0;
  bool ended_ = false;
};

class MlflowUi final : public Verb {
 public:
  MlflowUi()
      : Verb("mlflow-ui", "Start a local MLflow server with every stored run in it",
             {"fastkernels mlflow-ui", "fastkernels mlflow-ui --port 5050   # then open http://127.0.0.1:5050"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--port", port_, "Port on this machine").range(1, 65535).type_name("N").show_default();
    flags.option("--db", db_, "History to show [" + default_store_path() + "]").type_name("FILE");
    flags.flag("--once", once_, "Send the runs, then end instead of serving them");
  }

  void run(const CommonOptions& common) override {
    std::string program = on_path("mlflow");
    if (program.empty())
      throw Error(
          "MLflow is not installed; `pip install mlflow` in a virtual environment that is on the PATH gets it, and "
          "everything else works without it.");
    if (std::string why = http_unavailable(); !why.empty()) throw Error("MLflow cannot be reached: {}.", why);
    open_store_reader(db_);  // one that does not exist is an error, not an empty page
    std::unique_ptr<Store> store = open_store(db_);
    close_dead_runs(*store);
    if (!port_is_free(port_)) throw Error("Port {} is taken; give another with --port.", port_);

    fs::path base = fs::absolute(fs::path(store->path()).replace_extension(""));
    std::string backend = base.string() + "-mlflow.db", artifacts = base.string() + "-mlflow-artifacts";
    MlflowServer server;
    server.uri = fmt::format("http://127.0.0.1:{}", port_);
    server.target = "sqlite:///" + backend;  // the same server on any port
    if (!fs::exists(backend)) store->forget_mirrors(server.target);

    struct sigaction stop {};
    stop.sa_handler = [](int) { g_stop = 1; };
    sigaction(SIGINT, &stop, nullptr);
    sigaction(SIGTERM, &stop, nullptr);
    std::string log = base.string() + "-mlflow.log";
    ServerProcess process(
        {program, "server", "--backend-store-uri", server.target, "--artifacts-destination", artifacts,
         "--serve-artifacts", "--host", "127.0.0.1", "--port", std::to_string(port_), "--workers", "1"},
        log);
    wait_until_up(process, server, log, common);
    size_t sent = send_all(*store, server, artifacts, common);
    print_out(fmt::format("MLflow shows {} at {} ({} run{} new to it). Ctrl-C ends it.\n", store->path(), server.uri,
                          sent, sent == 1 ? "" : "s"));
    while (!once_ && g_stop == 0 && !process.ended()) std::this_thread::sleep_for(100ms);
    if (!once_ && g_stop == 0) throw Error("The MLflow server ended by itself; {} says why.", log);
  }

 private:
  // The first start makes its database, which takes a while.
  static void wait_until_up(ServerProcess& process, const MlflowServer& server, const std::string& log,
                            const CommonOptions& common) {
    Progress progress(common);
    Stopwatch watch;
    while (watch.elapsed_s() < 180) {
      if (g_stop != 0) throw Error("Interrupted before the MLflow server was up.");
      if (process.ended()) throw Error("The MLflow server did not start; {} says why.", log);
      progress.show(fmt::format("starting MLflow, {:.0f} s (the first start makes its database)", watch.elapsed_s()));
      if (mlflow_health(server).empty()) return;
      std::this_thread::sleep_for(200ms);
    }
    throw Error("The MLflow server did not answer in three minutes; {} says why.", log);
  }

  static size_t send_all(Store& store, const MlflowServer& server, const std::string& artifacts,
                         const CommonOptions& common) {
    Progress progress(common);
    Stopwatch watch;
    std::vector<std::string> ids = store.unmirrored(server.target);
    return mirror_runs(store, server, ids, artifacts, [&](size_t sent) {
      auto left = static_cast<double>(ids.size() - sent);
      std::string wait =
          sent < 5 ? "" : fmt::format(", {:.0f} s left", watch.elapsed_s() / static_cast<double>(sent) * left);
      progress.show(
          fmt::format("[{}/{}{}] sending runs to MLflow, which is open at {}", sent + 1, ids.size(), wait, server.uri));
      return g_stop == 0;
    });
  }

  int port_ = 5000;
  std::string db_;
  bool once_ = false;
};

MlflowUi mlflow_ui;

}  // namespace
}  // namespace fk
