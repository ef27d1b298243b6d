// Records of the history as the pages read them: snake_case names, times in milliseconds since 1970, unknown is null.
#pragma once

#include "core/json.h"
#include "track/records.h"

namespace fk {

Json run_json(const RunRecord& run);  // without environment.details
Json operator_json(const OperatorRecord& record);
Json kernel_json(const KernelRecord& record);
Json ttft_json(const TtftRecord& record);

}  // namespace fk
