// Takes journals, result files and exports of other machines into a store. Doing it twice changes nothing.
#pragma once

#include <string>

#include "track/store.h"

namespace fk {

struct ImportResult {
  size_t added = 0;      // runs that were not there, or not whole
  size_t known = 0;      // runs that were
  size_t damaged = 0;    // lines that could not be read, as a crash leaves them
  std::string last_run;  // id
};

// All of the file or nothing. Throws Error where it holds no run, or one whose id belongs to another run here.
ImportResult import_file(Store& store, const std::string& path);

}  // namespace fk
