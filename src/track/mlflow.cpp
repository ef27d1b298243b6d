#include "track/mlflow.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.h"
#include "track/mlflow_client.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// Limits of the server for one log-batch (1000 entries in all) and for one value.
constexpr size_t kMostMetrics = 800, kMostParams = 100, kMostTags = 100;
constexpr size_t kMostParam = 500, kMostTag = 5000;
constexpr const char* kIdTag = "fastkernels.run_id";
// Runs that are recorded as sent in one transaction. A run that was sent but not recorded is found by a search later.
constexpr size_t kNotedAtOnce = 25;

// Only one process at a time sends the runs of a store: checking whether the server has a run and creating it are two
// requests. The lock is released when the process ends.
class MirrorLock {
 public:
  MirrorLock(const std::string& store, const std::atomic<bool>* cancel)
      : fd_(open((store + ".mirror").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    // Does not block inside flock, so that it can be cancelled.
    for (int tries = 0; fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0; ++tries) {
      bool given_up = tries == 1200 || (cancel != nullptr && *cancel);
      if (given_up) close(fd_);
      if (given_up) throw Error("Another process is sending runs to MLflow and does not finish.");
      usleep(50'000);
    }
    if (fd_ < 0) throw Error("The lock {}.mirror cannot be made.", store);
  }
  ~MirrorLock() { close(fd_); }
  MirrorLock(const MirrorLock&) = delete;
  MirrorLock& operator=(const MirrorLock&) = delete;

 private:
  int fd_;
};

std::map<std::string, std::string> known_pairs(const Json& data, const char* what) {
  std::map<std::string, std::string> known;
  if (data.contains(what))
    for (const Json& p : data[what]) known[p.at("key").get<std::string>()] = p.value("value", "");
  return known;
}

std::map<std::string, std::string> tags_of(const RunRecord& run) {
  std::map<std::string, std::string> tags = run.tags;
  const Environment& e = run.environment;
  tags[kIdTag] = run.id;
  tags["mlflow.source.name"] = "fastkernels";
  if (!e.git_commit.empty()) tags["mlflow.source.git.commit"] = e.git_commit;
  if (!e.git_branch.empty()) tags["git_branch"] = e.git_branch;
  tags["git_dirty"] = e.git_dirty ? "true" : "false";
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, const std::string&>>{{"device", e.device},
                                                                         {"device_name", e.device_name()},
                                                                         {"host", e.host},
                                                                         {"gpu_driver", e.gpu_driver},
                                                                         {"cuda_version", e.cuda_version},
                                                                         {"mode", run.mode},
                                                                         {"error", run.error}})
    if (!value.empty()) tags[key] = value;
  return tags;
}

// "mlflow-artifacts:/1/abc/artifacts" or "mlflow-artifacts://host:5000/1/abc/artifacts": the path for the proxy.
std::string proxy_path(const std::string& uri) {
  constexpr std::string_view kScheme = "mlflow-artifacts:";
  if (uri.rfind(kScheme, 0) != 0) return "";
  std::string rest = uri.substr(kScheme.size());
  if (rest.rfind("//", 0) == 0) {
    size_t path = rest.find('/', 2);
    rest = path == std::string::npos ? "" : rest.substr(path);
  }
  return rest.empty() ? "" : rest.substr(rest.find_first_not_of('/'));
}

Json pair_json(const std::string& key, const std::string& value) { return {{"key", key}, {"value", value}}; }

// A path that stays inside its folder; others are sent to the server, which refuses them.
bool stays_inside(const fs::path& path) {
  if (path.empty() || path.is_absolute()) return false;
  return std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw Error("The artifact {} cannot be written for MLflow; free its disk.", path.string());
}

// Sends everything of one run that the server does not have yet, in as few requests as possible: each takes tens of
// milliseconds.
struct Unsent {
  std::vector<Json> params, tags, metrics;

  void send(MlflowClient& client, const std::string& remote) {
    size_t param = 0, tag = 0, metric = 0;
    auto take = [](Json& body, const char* what, const std::vector<Json>& all, size_t& next, size_t most) {
      for (size_t end = std::min(all.size(), next + most); next < end; ++next) body[what].push_back(all[next]);
    };
    while (param < params.size() || tag < tags.size() || metric < metrics.size()) {
      Json body = {{"run_id", remote}};
      take(body, "params", params, param, kMostParams);
      take(body, "tags", tags, tag, kMostTags);
      take(body, "metrics", metrics, metric, kMostMetrics);
      client.call("POST", "runs/log-batch", body);
    }
    *this = {};
  }
};

class RunSender {
 public:
  // `artifact_folder`: where the server keeps its artifacts on this machine; empty: they go through its proxy.
  RunSender(Store& store, const MlflowServer& server, std::string artifact_folder)
      : store_(store), client_(server), artifact_folder_(std::move(artifact_folder)) {}

  // The server's id of the run. `remote`: the known id; if it is empty, `never_sent` says whether the run was certainly
  // never sent.
  std::string send(const RunRecord& run, std::string remote, bool never_sent,
                   const std::function<void(const std::string& remote)>& made) {
    Json reply;
    bool absent = remote.empty();
    if (!absent) reply = get(remote, &absent);
    if (absent) {
      reply = find_or_create(run, never_sent);
      remote = reply.at("info").at("run_id").get<std::string>();
      made(remote);
    }
    const Json& info = reply.at("info");
    if (info.value("lifecycle_stage", "") == "deleted") return remote;
    Json data = reply.value("data", Json::object());
    Unsent unsent;
    add_pairs(unsent, run, data);
    add_metrics(unsent, run.id, data);
    // Artifacts come last, since they may fail separately: a proxy may refuse what the server accepts.
    if (artifact_folder_.empty()) unsent.send(client_, remote);
    send_artifacts(unsent, run, info, data);
    unsent.send(client_, remote);
    static const std::map<std::string, std::string, std::less<>> kStates = {
        {"running", "RUNNING"}, {"finished", "FINISHED"}, {"failed", "FAILED"}, {"interrupted", "KILLED"}};
    Json update = {{"run_id", remote}, {"status", kStates.at(run.status)}};
    if (run.ended_us) update["end_time"] = *run.ended_us / 1000;
    if (info.value("status", "") != kStates.at(run.status)) client_.call("POST", "runs/update", update);
    return remote;
  }

 private:
  Json get(const std::string& remote, bool* absent) {
    Json reply = client_.call("GET", "runs/get?run_id=" + url_encoded(remote, false), {}, absent);
    return reply.is_null() || !reply.contains("run") ? Json() : reply["run"];
  }

  const std::string& experiment_id(const std::string& name) {
    std::string& id = experiments_[name];
    if (!id.empty()) return id;
    bool absent = false;
    Json found =
        client_.call("GET", "experiments/get-by-name?experiment_name=" + url_encoded(name, false), {}, &absent);
    if (!absent) return id = found.at("experiment").at("experiment_id").get<std::string>();
    return id = client_.call("POST", "experiments/create", {{"name", name}}).at("experiment_id").get<std::string>();
  }

  Json find_or_create(const RunRecord& run, bool never_sent) {
    const std::string& experiment = experiment_id(run.experiment);
    if (!never_sent) {
      Json found = client_.call("POST", "runs/search",
                                {{"experiment_ids", {experiment}},
                                 {"filter", fmt::format("tags.`{}` = '{}'", kIdTag, run.id)},
                                 {"run_view_type", "ALL"},
                                 {"max_results", 1}});
      if (found.contains("runs") && !found["runs"].empty()) return found["runs"][0];
    }
    Json tags = Json::array();
    for (const auto& [key, value] : tags_of(run))
      if (tags.size() < kMostTags) tags.push_back(pair_json(mlflow_key(key), cut_text(value, kMostTag)));
    Json body = {
        {"experiment_id", experiment}, {"start_time", run.started_us / 1000}, {"run_name", run.name}, {"tags", tags}};
    return client_.call("POST", "runs/create", body).at("run");
  }

  static void add_pairs(Unsent& unsent, const RunRecord& run, const Json& data) {
    auto known_params = known_pairs(data, "params"), known_tags = known_pairs(data, "tags");
    // A parameter cannot change on the server: one that did here is sent as a tag.
    for (const auto& [key, value] : run.params) {
      std::string name = mlflow_key(key), text = cut_text(value, kMostParam);
      auto known = known_params.find(name);
      if (known == known_params.end())
        unsent.params.push_back(pair_json(name, text));
      else if (known->second != text && known_tags["param." + name] != text)
        unsent.tags.push_back(pair_json("param." + name, text));
    }
    for (const auto& [key, value] : tags_of(run)) {
      std::string name = mlflow_key(key), text = cut_text(value, kMostTag);
      auto known = known_tags.find(name);
      if (known == known_tags.end() || known->second != text) unsent.tags.push_back(pair_json(name, text));
    }
  }

  // The server returns only the newest value of each metric. It stores points by key, step, time and value, so a point
  // that is sent twice is stored once.
  void add_metrics(Unsent& unsent, const std::string& run_id, const Json& data) {
    std::map<std::string, std::pair<double, int64_t>> known;
    if (data.contains("metrics"))
      for (const Json& m : data["metrics"])
        if (m.at("value").is_number())
          known[m.at("key").get<std::string>()] = {m.at("value").get<double>(), m.value("step", int64_t{0})};
    std::vector<MetricPoint> points = store_.metric_points(run_id);
    std::map<std::string, MetricPoint> newest;
    for (const MetricPoint& p : points) newest[mlflow_key(p.key)] = p;  // in order of steps
    std::set<std::string> done;
    for (const auto& [key, p] : newest)
      if (auto k = known.find(key); k != known.end() && k->second == std::pair(p.value, p.step)) done.insert(key);
    for (const MetricPoint& p : points)
      if (!done.contains(mlflow_key(p.key)))
        unsent.metrics.push_back(
            {{"key", mlflow_key(p.key)}, {"value", p.value}, {"timestamp", p.time_us / 1000}, {"step", p.step}});
  }

  // A tag per artifact that was sent, so that a resumed transfer does not send it again.
  void send_artifacts(Unsent& unsent, const RunRecord& run, const Json& info, const Json& data) {
    std::string root = proxy_path(info.value("artifact_uri", ""));
    std::map<std::string, std::string> tags = known_pairs(data, "tags");
    if (root.empty()) {
      if (!tags.contains("fastkernels.artifacts"))
        unsent.tags.push_back(pair_json("fastkernels.artifacts", "not mirrored: the server has no artifact proxy"));
      return;
    }
    for (const ArtifactRecord& a : store_.artifacts(run.id)) {
      std::string tag = mlflow_key("fastkernels.sha256." + a.path);
      if (tags[tag] == a.sha256) continue;
      if (!artifact_folder_.empty() && stays_inside(root) && stays_inside(a.path))
        write_file(fs::path(artifact_folder_) / root / a.path, store_.artifact(a.sha256));
      else
        client_.put_artifact(root + "/" + a.path, store_.artifact(a.sha256));
      unsent.tags.push_back(pair_json(tag, a.sha256));
    }
  }

  Store& store_;
  MlflowClient client_;
  std::string artifact_folder_;
  std::map<std::string, std::string> experiments_;  // ids by name
};

}  // namespace

void mirror_run(Store& store, const MlflowServer& server, const std::string& run_id) {
  MirrorLock lock(store.path(), server.cancel);
  std::optional<RunRecord> run = store.run(run_id);
  if (!run) return;  // removed meanwhile
  try {
    auto made = [&](const std::string& remote) { store.set_mirror(server.target, run_id, remote, false); };
    std::string remote = RunSender(store, server, "").send(*run, store.mirror_id(server.target, run_id), false, made);
    store.set_mirror(server.target, run_id, remote, run->status != "running");
  } catch (const Json::exception& e) {
    throw Error("MLflow at {} answered what this fastkernels does not understand ({}).", server.uri, e.what());
  }
}

size_t mirror_runs(Store& store, const MlflowServer& server, const std::vector<std::string>& run_ids,
                   const std::string& artifact_folder, const std::function<bool(size_t sent)>& go_on) {
  // Recorded before anything is sent: what a killed process sent without recording it is found by a search.
  std::set<std::string> begun;
  for (std::string& id : store.pending_mirrors(server.target)) begun.insert(std::move(id));
  {
    std::unique_ptr<Store::Batch> batch = store.batch();
    for (const std::string& id : run_ids)
      if (!begun.contains(id)) store.set_mirror(server.target, id, "", false);
    batch->commit();
  }
  struct Sent {
    std::string id, remote;
    bool complete;
  };
  std::vector<Sent> sent;
  size_t count = 0;
  auto note = [&] {
    std::unique_ptr<Store::Batch> batch = store.batch();
    for (const Sent& s : sent)
      if (store.run(s.id)) store.set_mirror(server.target, s.id, s.remote, s.complete);
    batch->commit();
    sent.clear();
  };
  RunSender sender(store, server, artifact_folder);
  try {
    for (const std::string& id : run_ids) {
      if (!go_on(count)) break;
      MirrorLock lock(store.path(), server.cancel);
      ++count;
      std::optional<RunRecord> run = store.run(id);
      if (!run) continue;  // removed meanwhile
      bool never_sent = !begun.contains(id);
      std::string known = never_sent ? "" : store.mirror_id(server.target, id);
      sent.push_back({id, sender.send(*run, known, never_sent, [](const std::string&) {}), run->status != "running"});
      if (sent.size() == kNotedAtOnce) note();
    }
  } catch (const Json::exception& e) {
    note();
    throw Error("MLflow at {} answered what this fastkernels does not understand ({}).", server.uri, e.what());
  } catch (const Error&) {
    note();
    throw;
  }
  note();
  return count;
}

}  // namespace fk
