// How often this test binary has allocated on the heap.
#pragma once

#include <cstdint>

namespace fk {
int64_t allocation_count();
}
