#include "cli/exit_code.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "cli/output.h"
#include "core/error.h"
#include "core/printable.h"

namespace fk {

int fail(ExitCode code, std::string_view sentence) {
  // Not fmt::print: it would throw where standard error is closed.
  std::fputs(fmt::format("fastkernels: {}\n", printable_lines(sentence)).c_str(), stderr);
  return code;
}

int exit_code_of(const std::function<int()>& command) {
  try {
    return command();
  } catch (const OutputClosed&) {
    return kOk;
  } catch (const UsageError& error) {
    return fail(kBadFlags, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kFailure, "out of memory; free some, or ask for a smaller model, prompt or buffer");
  } catch (const std::exception& error) {
    return fail(kFailure, error.what());
  }
}

}  // namespace fk
