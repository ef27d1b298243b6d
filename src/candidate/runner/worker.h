// The judged side of a runner: builds one operator, then does what the channel asks until it closes.
#pragma once

#include "core/json.h"

namespace fk {

// `open` is the judge's first message, `hello` what it is answered with. Everything the candidate brings is loaded
// here, inside the walls. Returns the process's exit code.
int serve_requests(int channel, const Json& open, Json hello);

}  // namespace fk
