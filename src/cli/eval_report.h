// The result of an evaluation as tables, JSON, CSV and a record of the history.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "core/json.h"
#include "track/recorder.h"

namespace fk {

// `items`: one per pair, as bench/eval/item.h makes them. `about`: how they were measured.
Json eval_document(const std::vector<Json>& items, const Json& about);

void print_eval(const Json& document, const CommonOptions& common);
void record_eval(Recorder& recorder, const Json& document);

// "2 of 4 items failed: ..."; empty where all are valid.
std::string eval_failure(const Json& document);

}  // namespace fk
