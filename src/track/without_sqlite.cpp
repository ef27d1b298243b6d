// Replaces track/sqlite/ in a build without SQLite: there is no store, and errors give the reason.
#include "core/error.h"
#include "track/store.h"

namespace fk {

std::string store_unavailable() {
  return "this build has no SQLite, so runs are kept as journals; `fastkernels history import` takes them on a machine "
         "that has it";
}

std::unique_ptr<Store> open_store(const std::string&) { throw Error("There is no history: {}.", store_unavailable()); }
std::unique_ptr<StoreReader> open_store_reader(const std::string&) {
  throw Error("There is no history: {}.", store_unavailable());
}

}  // namespace fk
