// FK_CHECK: an assertion that fails only because of a bug in this program, never because of user input; on in every
// build.
#pragma once

namespace fk {

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const char* reason = nullptr);

}  // namespace fk

#define FK_CHECK(condition, ...)                                                     \
  do {                                                                               \
    if (!(condition)) [[unlikely]] {                                                 \
      ::fk::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                \
  } while (false)
