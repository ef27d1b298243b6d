// Sends runs of the store to an MLflow server, through its REST API.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "track/http.h"
#include "track/store.h"

namespace fk {

struct MlflowServer {
  std::string uri;     // "http://127.0.0.1:5000"
  std::string target;  // its name in the store; the uri, unless the address of the server changes
  std::string token, user, password;
  const std::atomic<bool>* cancel = nullptr;

  // From MLFLOW_TRACKING_URI and, where set, _TOKEN, _USERNAME and _PASSWORD; an empty uri where there is none.
  static MlflowServer from_environment();
};

// Sends everything of the run that the server does not have: parameters, tags, metrics with their steps, artifacts
// through the server's proxy, and at its end the status. It can be repeated from any process and after any crash: the
// server's run has the tag fastkernels.run_id, and only missing parts are sent. Throws Error if the server did not
// accept everything; the next call resumes there.
void mirror_run(Store& store, const MlflowServer& server, const std::string& run_id);

// The same for many runs, to a server that has only runs of this store: common queries are made once, and a run takes
// three requests. `artifact_folder`: the server's folder of artifacts on this machine, to which they are written;
// empty: they are sent. `go_on` is called before each run. Returns how many were sent.
size_t mirror_runs(Store& store, const MlflowServer& server, const std::vector<std::string>& run_ids,
                   const std::string& artifact_folder, const std::function<bool(size_t sent)>& go_on);

// Empty, or why the server does not answer.
std::string mlflow_health(const MlflowServer& server);

// A key as MLflow accepts it: letters, digits, _ - . space : and /, at most 250 of them.
std::string mlflow_key(std::string_view key);

}  // namespace fk
