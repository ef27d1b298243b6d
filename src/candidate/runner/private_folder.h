// A folder under /tmp for one runner alone, the only one that it may write.
#pragma once

#include <string>

namespace fk {

// Makes one, and removes those that killed programs left behind. Throws Error where none can be made.
std::string make_private_tmp();

}  // namespace fk
