#include "core/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/environment_variable.h"
#include "core/error.h"

namespace fk {

TemporaryFolder::TemporaryFolder() {
  const std::string root = environment_variable("TMPDIR");
  std::string pattern = (root.empty() ? "/tmp" : root) + "/fastkernels-XXXXXX";
  bool made = false;
  remove_.make(
      [&] {
        made = mkdtemp(pattern.data()) != nullptr;
        if (made) path_ = pattern;
      },
      [this] {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
      });
  if (!made)
    throw Error("No folder can be made as {} ({}); set TMPDIR to one that can be written.", pattern, strerror(errno));
}

}  // namespace fk
