#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace fk {

void check_failed(const char* file, int line, const char* expression, const char* reason) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s%s%s\n", file, line, expression, reason ? ": " : "",
               reason ? reason : "");
  std::abort();
}

}  // namespace fk
