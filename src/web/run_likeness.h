// Whether two runs are comparable, so that the slower one is a regression: same candidate, similar load.
#pragma once

#include <map>
#include <string>

#include "track/store.h"

namespace fk {

class RunLikeness {
 public:
  explicit RunLikeness(StoreReader& store) : store_(store) {}

  // Other programs kept more than half of the machine's cores busy when the run began; false if unknown.
  bool busy(const std::string& run_id) { return of(run_id).busy; }
  // Hashes of the candidates' sources stored with the run.
  const std::string& candidates(const std::string& run_id) { return of(run_id).candidates; }
  const std::string& device_name(const std::string& run_id) { return of(run_id).device_name; }
  std::string param(const std::string& run_id, const std::string& key);  // empty where the run has none

 private:
  struct Facts {
    bool busy = false;
    std::string candidates, device_name;
    std::map<std::string, std::string> params;
  };
  const Facts& of(const std::string& run_id);

  StoreReader& store_;
  std::map<std::string, Facts> known_;
};

}  // namespace fk
