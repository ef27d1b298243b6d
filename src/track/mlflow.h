// A run of the store as a run of an MLflow server, through its REST API.
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
  std::string target;  // what the store calls it; the uri, unless the same server moves between addresses
  std::string token, user, password;
  const std::atomic<bool>* cancel = nullptr;

  // From MLFLOW_TRACKING_URI and, where set, _TOKEN, _USERNAME and _PASSWORD; an empty uri where there is none.
  static MlflowServer from_environment();
};

// Sends what the server does not have of the run: parameters, tags, metrics with their steps, artifacts through the
// server's proxy, and at its end the status. Doing it again, from any process and after any crash, changes nothing: the
// server's run carries the tag fastkernels.run_id and is asked what it has. Throws Error where the server did not take
// everything; what it took stays, and the next time goes on there.
void mirror_run(Store& store, const MlflowServer& server, const std::string& run_id);

// The same for many runs, to a server that has runs of this store only: what is the same for all is asked once, and a
// run takes three requests. `artifact_folder`: where the server keeps artifacts on this machine, which are then written
// there; empty: they are sent. `go_on` is asked before each run. Returns how many were sent.
size_t mirror_runs(Store& store, const MlflowServer& server, const std::vector<std::string>& run_ids,
                   const std::string& artifact_folder, const std::function<bool(size_t sent)>& go_on);

// Empty, or why the server does not answer.
std::string mlflow_health(const MlflowServer& server);

// A key as MLflow accepts it: letters, digits, _ - . space : and /, at most 250 of them.
std::string mlflow_key(std::string_view key);

}  // namespace fk
