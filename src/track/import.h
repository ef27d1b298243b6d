// Imports journals, result files and exports into a store. Importing twice changes nothing.
#pragma once

#include <string>

#include "track/store.h"

namespace fk {

struct ImportResult {
  size_t added = 0;      // runs that were missing or incomplete
  size_t known = 0;      // runs that were there already
  size_t damaged = 0;    // lines that could not be read, for example after a crash
  std::string last_run;  // id
};

// Imports all of the file or nothing. Throws Error if it has no run, or if an id belongs to another run in the store.
ImportResult import_file(Store& store, const std::string& path);

}  // namespace fk
