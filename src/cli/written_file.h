// Files that a verb leaves behind: whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace fk {

// Through a file beside it that takes its name at the end. Throws Error where the disk refuses.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace fk
