#include "track/records_json.h"

#include "core/error.h"
#include "track/record_fields.h"

namespace fk {
namespace {

template <class T>
std::optional<T> maybe(const Json& json, const char* key) {
  auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

std::string text(const Json& json, const char* key) { return maybe<std::string>(json, key).value_or(""); }

std::string required(const Json& json, const char* key) {
  std::string value = text(json, key);
  if (value.empty()) throw Error("'{}' is missing", key);
  return value;
}

int64_t whole(const Json& json, const char* key, int64_t otherwise = 0) {
  return maybe<int64_t>(json, key).value_or(otherwise);
}

using Pairs = std::map<std::string, std::string>;

// What files call an operator.
const char* key_of(const char* name) { return std::string_view(name) == "op" ? "operator" : name; }

struct JsonWriter {
  Json& json;
  template <class T>
  void operator()(const char* name, const T& value) const {
    json[key_of(name)] = known(value);
  }
};

// Missing fields keep their value.
struct JsonReader {
  const Json& json;
  template <class T>
  void operator()(const char* name, T& field) const {
    if (auto value = maybe<T>(json, key_of(name))) field = std::move(*value);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& field) const {
    field = maybe<T>(json, key_of(name));
  }
};

template <class Record>
Json result_json(const Record& record) {
  Json json = Json::object();
  owner_fields(record, JsonWriter{json});
  own_fields(record, JsonWriter{json});
  return json;
}

template <class Record>
Record result_record(const Json& json, std::initializer_list<const char*> needed) {
  for (const char* key : needed) required(json, key);
  Record record;
  own_fields(record, JsonReader{json});
  return record;
}

}  // namespace

Json to_json(const RunRecord& r) {
  Json json = Json::object();
  run_fields(r, JsonWriter{json});
  json["device_name"] = r.environment.device_name();
  machine_fields(r, JsonWriter{json});
  json["params"] = r.params;
  json["tags"] = r.tags;
  json["metrics"] = r.metrics;
  if (!r.environment.details.empty()) json["environment"] = r.environment.details;
  return json;
}

RunRecord run_record(const Json& json) {
  for (const char* key : {"run_id", "name", "experiment", "tier", "status"}) required(json, key);
  json.at("started_us").get<int64_t>();
  RunRecord r;
  run_fields(r, JsonReader{json});
  machine_fields(r, JsonReader{json});
  r.environment.details = maybe<Json>(json, "environment").value_or(Json::object());
  r.params = maybe<Pairs>(json, "params").value_or(Pairs());
  r.tags = maybe<Pairs>(json, "tags").value_or(Pairs());
  r.metrics = maybe<std::map<std::string, double>>(json, "metrics").value_or(std::map<std::string, double>());
  return r;
}

Json to_json(const OperatorRecord& o) {
  Json json = result_json(o);
  json["correct"] = o.correct();
  json["verdict"] = o.verdict();
  return json;
}
Json to_json(const KernelRecord& k) { return result_json(k); }
Json to_json(const TtftRecord& t) { return result_json(t); }

OperatorRecord operator_record(const Json& json) { return result_record<OperatorRecord>(json, {"operator"}); }
TtftRecord ttft_record(const Json& json) { return result_record<TtftRecord>(json, {"path", "model"}); }

Json to_json(const ArtifactRecord& a) { return {{"path", a.path}, {"sha256", a.sha256}, {"size_bytes", a.size_bytes}}; }

Json to_json(const MetricPoint& p) {
  return {{"key", p.key}, {"value", p.value}, {"step", p.step}, {"time_us", p.time_us}};
}

MetricPoint metric_point(const Json& json) {
  return {required(json, "key"), json.at("value").get<double>(), whole(json, "step"), whole(json, "time_us")};
}

KernelRecord kernel_record(const Json& row) {
  KernelRecord k;
  k.op = required(row, "operator");
  k.scenario = required(row, "scenario");
  k.verdict = required(row, "verdict");
  k.sentence = text(row, "sentence");
  k.level = static_cast<int>(whole(row, "level"));
  k.models = maybe<std::vector<std::string>>(row, "models").value_or(std::vector<std::string>());
  k.tp = whole(row, "tp", 1);
  k.candidate = text(row, "candidate");
  if (auto workload = maybe<Json>(row, "workload")) {
    k.dtype = text(*workload, "dtype");
    for (const Json& sequence : workload->value("sequences", Json::array())) k.tokens += sequence.at(0).get<int64_t>();
  }
  if (k.passed())
    if (auto judgement = maybe<Json>(row, "judgement"); judgement && judgement->contains("worst_ratio"))
      if (const Json& ratio = judgement->at("worst_ratio"); ratio.is_number()) k.err_ratio = ratio.get<double>();
  k.bytes = maybe<double>(row, "bytes").value_or(0);
  k.matrix_flops = maybe<double>(row, "matrix_flops").value_or(0);
  k.vector_flops = maybe<double>(row, "vector_flops").value_or(0);
  k.seconds = maybe<double>(row, "seconds").value_or(0);
  k.floor_ns = maybe<double>(row, "floor_ns");
  k.of_floor = maybe<double>(row, "of_floor");
  if (auto confirmation = maybe<Json>(row, "confirmation"))
    k.confirmed = confirmation->at("confirmed").get<bool>() ? "yes" : "no";
  auto timing = maybe<Json>(row, "timing");
  if (!timing) return k;
  k.invalid = text(*timing, "invalid");
  k.speedup = maybe<double>(*timing, "speedup");
  k.low = maybe<double>(*timing, "speedup_low");
  k.high = maybe<double>(*timing, "speedup_high");
  k.speed_verdict = text(*timing, "speed_verdict");
  k.delta = maybe<double>(*timing, "delta");
  k.control_error = maybe<double>(*timing, "control_error");
  if (auto side = maybe<Json>(*timing, "baseline")) k.baseline_ns = maybe<double>(*side, "median_ns");
  if (auto side = maybe<Json>(*timing, "candidate")) k.candidate_ns = maybe<double>(*side, "median_ns");
  return k;
}

KernelDetail kernel_detail(Json row) {
  KernelDetail d{std::move(row), Json::array(), Json::array()};
  auto timing = d.detail.find("timing");
  if (timing == d.detail.end() || !timing->is_object()) return d;
  // Emptied, not erased: the row can be restored with its keys in the same order.
  if (auto list = timing->find("samples"); list != timing->end()) std::swap(d.samples, *list);
  if (auto list = timing->find("control_samples"); list != timing->end()) std::swap(d.control_samples, *list);
  return d;
}

Json kernel_row(const KernelDetail& d) {
  Json row = d.detail;
  auto timing = row.find("timing");
  if (timing == row.end() || !timing->is_object()) return row;
  if (timing->contains("samples")) (*timing)["samples"] = d.samples;
  if (timing->contains("control_samples")) (*timing)["control_samples"] = d.control_samples;
  return row;
}

}  // namespace fk
