// Records as JSON and back: the format of journals, `history --json` and exports.
//
// Reading throws Error, or Json::exception, if a record is invalid; the caller adds the name of the file.
#pragma once

#include "track/records.h"

namespace fk {

Json to_json(const RunRecord& run);  // with params, tags and metrics; environment details where they are known
Json to_json(const OperatorRecord& summary);
Json to_json(const KernelRecord& result);
Json to_json(const TtftRecord& result);
Json to_json(const ArtifactRecord& artifact);
Json to_json(const MetricPoint& point);

RunRecord run_record(const Json& json);
OperatorRecord operator_record(const Json& json);
TtftRecord ttft_record(const Json& json);
MetricPoint metric_point(const Json& json);

// A row of a `kernels` result file (docs/kernels.schema.json), split into listed fields and rarely used details.
KernelRecord kernel_record(const Json& row);
KernelDetail kernel_detail(Json row);
Json kernel_row(const KernelDetail& detail);  // the row again

}  // namespace fk
