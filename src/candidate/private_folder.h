// A folder under /tmp for a single runner, the only one that it may write.
#pragma once

#include <string>

namespace fk {

// Makes a folder, and removes those of programs that were killed. Throws Error if it cannot make one.
std::string make_private_tmp();

}  // namespace fk
