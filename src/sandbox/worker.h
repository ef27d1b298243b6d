// The judged side of a runner: creates one operator, then handles requests until the channel closes.
#pragma once

#include "core/json.h"

namespace fk {

// `open` is the judge's first message, `hello` the answer to it. The candidate's code is loaded here, inside the
// sandbox. Ends the process; returns its exit code only if the judge is gone before that.
int serve_requests(int channel, const Json& open, Json hello);

}  // namespace fk
