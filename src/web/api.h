// The JSON API of the pages: one reply per path, the same from the server and from the offline file.
//
//   /api/state                              changes when the history does
//   /api/overview                           the first page
//   /api/runs                               the newest runs, short
//   /api/operator/OP                        one operator over its runs, and the sources measured
//   /api/model/MODEL                        `ttft` results of one model over its runs
//   /api/run/RUN                            one run with its results, metrics and artifacts
//   /api/samples/RUN/OP/SCENARIO            samples and details of one result
//   /api/source/SHA256                      an artifact as text
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "track/store.h"

namespace fk {

// `path` is decoded, so slashes in a scenario's name stay. Empty if nothing is found.
std::optional<Json> api_answer(StoreReader& store, std::string_view path);

Json runs_json(StoreReader& store, int most);
Json operator_page_json(StoreReader& store, const std::string& op);
Json model_page_json(StoreReader& store, const std::string& model);
std::optional<Json> run_page_json(StoreReader& store, const std::string& run_id);
std::optional<Json> samples_json(StoreReader& store, const std::string& run_id, const std::string& op,
                                 const std::string& scenario);
std::optional<Json> source_json(StoreReader& store, const std::string& sha256);

}  // namespace fk
