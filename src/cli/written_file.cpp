#include "cli/written_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace fk {

void write_file(const std::string& path, std::string_view bytes) {
  std::string next = path + ".new";
  {
    std::ofstream file(next, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) {
      int error = errno;
      std::remove(next.c_str());
      throw Error("{} cannot be written ({}); name a file in a folder that exists and has room.", path,
                  strerror(error));
    }
  }
  if (std::rename(next.c_str(), path.c_str()) != 0)
    throw Error("{} cannot be replaced ({}); name another file.", path, strerror(errno));
}

}  // namespace fk
