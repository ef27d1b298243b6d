// A run as a stream of events, each a JSON object. The recorder sends the events to the store and the journal, an
// import reads them from a journal, an export writes them from the store.
//
//   {"event":"run","run":{...}}                 begins; every event after it belongs to this run
//   {"operator":...,"scenario":...}             one result of `kernels`, as in its result file
//   {"event":"ttft","result":{...}}             {"event":"operator","summary":{...}}
//   {"event":"metrics","points":[...]}          {"event":"params"|"tags","values":{...}}
//   {"event":"artifact","path":...,"text":...} or "base64" if the bytes are not text
//   {"event":"end","status":...,"error":...,"ended_us":...}
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "track/store.h"

namespace fk {

Json run_event(const RunRecord& run);
Json ttft_event(const TtftRecord& result);
Json operator_event(const OperatorRecord& summary);
Json metrics_event(const std::vector<MetricPoint>& points);
Json pairs_event(std::string_view what, const std::map<std::string, std::string>& values);  // "params" or "tags"
Json artifact_event(std::string_view path, std::string_view bytes);
// A compiled candidate: its source, with the extension of its file, and the build log: the command, then the compiler's
// output.
struct BuiltSource {
  std::string op, path, source;
  std::vector<std::string> command = {};
  std::string log = {};
};
std::vector<Json> candidate_events(const BuiltSource& candidate);
Json end_event(std::string_view status, std::string_view error, int64_t ended_us);

// Stores one event of the run; the caller handles "run" events. Throws Error, or Json::exception, if it is not an
// event.
void apply_event(Store& store, const std::string& run_id, const Json& event);

// The summary of a finished `kernels` run, from its rows and the "aggregate" of its result file: an operator event per
// operator and the run's metrics. `sources`: SHA-256 of the candidates' sources by operator.
std::vector<Json> kernel_summary_events(const Json& rows, const Json& aggregate,
                                        const std::map<std::string, std::string>& sources, int64_t time_us);

// Everything stored of a run, in an order that can be stored again.
void for_each_event(StoreReader& store, std::string_view run_id, const std::function<void(const Json&)>& take);

}  // namespace fk
