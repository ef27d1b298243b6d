#include "track/mlflow.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <set>

#include "core/error.h"

namespace fk {
namespace {

// Limits of the server for one log-batch, and for one value.
constexpr size_t kMostMetrics = 1000, kMostParams = 100, kMostTags = 100, kMostKey = 250;
constexpr size_t kMostParam = 500, kMostTag = 5000;
constexpr const char* kIdTag = "fastkernels.run_id";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string cut(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return text.substr(0, end);
}

std::string percent(std::string_view text, bool keep_slashes) {
  std::string out;
  for (char c : text) {
    bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-_.~").find(c) != std::string_view::npos;
    if (plain || (keep_slashes && c == '/'))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// Only one process talks about the runs of a store at a time: asking whether the server has a run and making it are two
// requests. The lock goes with the process.
class MirrorLock {
 public:
  MirrorLock(const std::string& store, const std::atomic<bool>* cancel)
      : fd_(open((store + ".mirror").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    // Not waiting inside flock: whoever wants to stop must be able to.
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

class Client {
 public:
  explicit Client(const MlflowServer& server) : server_(server) {}

  // A reply that is not 2xx is an Error with what the server said, unless `absent` is given and it said "not there".
  Json call(const std::string& method, const std::string& path, const Json& body, bool* absent = nullptr) {
    HttpRequest request = make(method, "/api/2.0/mlflow/" + path);
    request.headers.emplace_back("Content-Type: application/json");
    if (!body.is_null()) request.body = dump_json(body, -1);
    HttpReply reply = send(request);
    Json json = Json::parse(reply.body, nullptr, false);
    if (reply.status / 100 == 2 && json.is_object()) return json;
    bool missing = json.is_object() && json.value("error_code", "") == "RESOURCE_DOES_NOT_EXIST";
    if (absent != nullptr && missing) {
      *absent = true;
      return {};
    }
    throw Error("MLflow at {} refused {} ({}: {}).", server_.uri, path, reply.status,
                json.is_object() ? json.value("message", "no message") : cut(reply.body, 200));
  }

  void put_artifact(const std::string& path, const std::string& bytes) {
    HttpRequest request = make("PUT", "/api/2.0/mlflow-artifacts/artifacts/" + percent(path, true));
    request.headers.emplace_back("Content-Type: application/octet-stream");
    request.body = bytes;
    if (HttpReply reply = send(request); reply.status / 100 != 2)
      throw Error("MLflow at {} refused the artifact {} ({}: {}).", server_.uri, path, reply.status,
                  cut(reply.body, 200));
  }

  HttpRequest make(const std::string& method, const std::string& path) const {
    HttpRequest request;
    request.method = method;
    request.url = server_.uri + path;
    request.cancel = server_.cancel;
    if (!server_.token.empty()) request.headers.push_back("Authorization: Bearer " + server_.token);
    if (!server_.user.empty()) request.user_password = server_.user + ":" + server_.password;
    return request;
  }

  HttpReply send(const HttpRequest& request) const {
    Result<HttpReply> reply = http_send(request);
    if (!reply) throw Error("MLflow at {} does not answer ({}).", server_.uri, reply.error());
    return std::move(reply).value();
  }

 private:
  const MlflowServer& server_;
};

std::string experiment_id(Client& client, const std::string& name) {
  bool absent = false;
  Json found = client.call("GET", "experiments/get-by-name?experiment_name=" + percent(name, false), {}, &absent);
  if (!absent) return found.at("experiment").at("experiment_id").get<std::string>();
  return client.call("POST", "experiments/create", {{"name", name}}).at("experiment_id").get<std::string>();
}

std::string find_or_create(Client& client, const RunRecord& run, const std::string& experiment) {
  Json found = client.call("POST", "runs/search",
                           {{"experiment_ids", {experiment}},
                            {"filter", fmt::format("tags.`{}` = '{}'", kIdTag, run.id)},
                            {"run_view_type", "ALL"},
                            {"max_results", 1}});
  if (found.contains("runs") && !found["runs"].empty())
    return found["runs"][0].at("info").at("run_id").get<std::string>();
  Json tags = Json::array({{{"key", kIdTag}, {"value", run.id}}});
  return client
      .call("POST", "runs/create",
            {{"experiment_id", experiment},
             {"start_time", run.started_us / 1000},
             {"run_name", run.name},
             {"tags", tags}})
      .at("run")
      .at("info")
      .at("run_id")
      .get<std::string>();
}

void send_in_chunks(Client& client, const std::string& remote, const char* what, const std::vector<Json>& all,
                    size_t most) {
  for (size_t i = 0; i < all.size(); i += most) {
    Json chunk = Json::array();
    for (size_t j = i; j < std::min(all.size(), i + most); ++j) chunk.push_back(all[j]);
    client.call("POST", "runs/log-batch", {{"run_id", remote}, {what, chunk}});
  }
}

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

void send_pairs(Client& client, const RunRecord& run, const std::string& remote, const Json& data) {
  std::vector<Json> params, tags;
  auto known_params = known_pairs(data, "params"), known_tags = known_pairs(data, "tags");
  // A parameter cannot change on the server: one that did here is sent as a tag.
  for (const auto& [key, value] : run.params) {
    std::string name = mlflow_key(key), text = cut(value, kMostParam);
    auto known = known_params.find(name);
    if (known == known_params.end())
      params.push_back({{"key", name}, {"value", text}});
    else if (known->second != text && known_tags["param." + name] != text)
      tags.push_back({{"key", "param." + name}, {"value", text}});
  }
  for (const auto& [key, value] : tags_of(run))
    if (std::string text = cut(value, kMostTag); known_tags[mlflow_key(key)] != text)
      tags.push_back({{"key", mlflow_key(key)}, {"value", text}});
  send_in_chunks(client, remote, "params", params, kMostParams);
  send_in_chunks(client, remote, "tags", tags, kMostTags);
}

// The server tells only the newest value of each metric; older steps it keeps apart by key, step, time and value, so
// sending a point twice keeps one.
void send_metrics(Client& client, Store& store, const std::string& run_id, const std::string& remote,
                  const Json& data) {
  std::map<std::string, std::pair<double, int64_t>> known;
  if (data.contains("metrics"))
    for (const Json& m : data["metrics"])
      if (m.at("value").is_number())
        known[m.at("key").get<std::string>()] = {m.at("value").get<double>(), m.value("step", int64_t{0})};
  std::vector<MetricPoint> points = store.metric_points(run_id);
  std::map<std::string, MetricPoint> newest;
  for (const MetricPoint& p : points) newest[mlflow_key(p.key)] = p;  // in order of steps
  std::set<std::string> done;
  for (const auto& [key, p] : newest)
    if (auto k = known.find(key); k != known.end() && k->second == std::pair(p.value, p.step)) done.insert(key);
  std::vector<Json> missing;
  for (const MetricPoint& p : points)
    if (!done.contains(mlflow_key(p.key)))
      missing.push_back(
          {{"key", mlflow_key(p.key)}, {"value", p.value}, {"timestamp", p.time_us / 1000}, {"step", p.step}});
  send_in_chunks(client, remote, "metrics", missing, kMostMetrics);
}

// "mlflow-artifacts:/1/abc/artifacts" or "mlflow-artifacts://host:5000/1/abc/artifacts": the path the proxy knows.
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

void send_artifacts(Client& client, Store& store, const RunRecord& run, const std::string& remote, const Json& reply) {
  const Json& info = reply.at("run").at("info");
  std::string root = proxy_path(info.value("artifact_uri", ""));
  Json data = reply.at("run").value("data", Json::object());
  std::map<std::string, std::string> tags = known_pairs(data, "tags");
  if (root.empty()) {
    if (!tags.contains("fastkernels.artifacts"))
      client.call("POST", "runs/set-tag",
                  {{"run_id", remote},
                   {"key", "fastkernels.artifacts"},
                   {"value", "not mirrored: the server has no artifact proxy"}});
    return;
  }
  for (const ArtifactRecord& a : store.artifacts(run.id)) {
    // A tag per artifact that arrived, so that going on does not send them all again.
    std::string tag = mlflow_key("fastkernels.sha256." + a.path);
    if (tags[tag] == a.sha256) continue;
    client.put_artifact(root + "/" + a.path, store.artifact(a.sha256));
    client.call("POST", "runs/set-tag", {{"run_id", remote}, {"key", tag}, {"value", a.sha256}});
  }
}

}  // namespace

MlflowServer MlflowServer::from_environment() {
  MlflowServer s;
  s.uri = environment("MLFLOW_TRACKING_URI");
  while (s.uri.ends_with('/')) s.uri.pop_back();
  s.target = s.uri;
  s.token = environment("MLFLOW_TRACKING_TOKEN");
  s.user = environment("MLFLOW_TRACKING_USERNAME");
  s.password = environment("MLFLOW_TRACKING_PASSWORD");
  return s;
}

std::string mlflow_key(std::string_view key) {
  std::string out;
  for (char c : key)
    out +=
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-. :/").find(c) != std::string_view::npos
            ? c
            : '_';
  return cut(out, kMostKey);
}

std::string mlflow_health(const MlflowServer& server) {
  Client client(server);
  try {
    HttpRequest request = client.make("GET", "/health");
    request.timeout_ms = 5000;
    int status = client.send(request).status;
    return status == 200 ? "" : fmt::format("MLflow at {} answers {} when asked for its health.", server.uri, status);
  } catch (const Error& e) {
    return e.what();
  }
}

void mirror_run(Store& store, const MlflowServer& server, const std::string& run_id) {
  MirrorLock lock(store.path(), server.cancel);
  std::optional<RunRecord> run = store.run(run_id);
  if (!run) return;  // removed meanwhile
  try {
    Client client(server);
    std::string remote = store.mirror_id(server.target, run_id);
    Json reply;
    bool absent = remote.empty();
    if (!absent) reply = client.call("GET", "runs/get?run_id=" + percent(remote, false), {}, &absent);
    if (absent) {
      remote = find_or_create(client, *run, experiment_id(client, run->experiment));
      store.set_mirror(server.target, run_id, remote, false);
      reply = client.call("GET", "runs/get?run_id=" + percent(remote, false), {});
    }
    const Json& info = reply.at("run").at("info");
    if (info.value("lifecycle_stage", "") == "deleted") return store.set_mirror(server.target, run_id, remote, true);
    Json data = reply.at("run").value("data", Json::object());
    send_pairs(client, *run, remote, data);
    send_metrics(client, store, run_id, remote, data);
    send_artifacts(client, store, *run, remote, reply);
    static const std::map<std::string, std::string, std::less<>> kStates = {
        {"running", "RUNNING"}, {"finished", "FINISHED"}, {"failed", "FAILED"}, {"interrupted", "KILLED"}};
    Json update = {{"run_id", remote}, {"status", kStates.at(run->status)}};
    if (run->ended_us) update["end_time"] = *run->ended_us / 1000;
    if (info.value("status", "") != kStates.at(run->status)) client.call("POST", "runs/update", update);
    store.set_mirror(server.target, run_id, remote, run->status != "running");
  } catch (const Json::exception& e) {
    throw Error("MLflow at {} answered what this fastkernels does not understand ({}).", server.uri, e.what());
  }
}

}  // namespace fk
