#include "web/record_json.h"

#include <fmt/format.h>

#include "track/record_fields.h"

namespace fk {
namespace {

// Short names, and times in the unit of JavaScript's Date.
struct PageWriter {
  Json& json;

  template <class T>
  void operator()(std::string_view name, const T& value) const {
    if (name.starts_with("git_")) name.remove_prefix(4);
    if (name == "run_status") name = "status";
    json[std::string(name)] = known(value);
  }
  void operator()(std::string_view name, int64_t value) const { number(name, value); }
  void operator()(std::string_view name, const std::optional<int64_t>& value) const {
    if (value)
      number(name, *value);
    else
      json[unit(name)] = nullptr;
  }

 private:
  static std::string unit(std::string_view name) {
    if (name == "started_us") return "time_ms";
    if (!name.ends_with("_us")) return std::string(name);
    return fmt::format("{}_ms", name.substr(0, name.size() - 3));
  }
  void number(std::string_view name, int64_t value) const {
    json[unit(name)] = name.ends_with("_us") ? Json(static_cast<double>(value) * 1e-3) : Json(value);
  }
};

template <class Record>
Json result_json(const Record& record) {
  Json json = Json::object();
  owner_fields(record, PageWriter{json});
  own_fields(record, PageWriter{json});
  return json;
}

}  // namespace

Json run_json(const RunRecord& run) {
  Json json = Json::object();
  run_fields(run, PageWriter{json});
  json.erase("run_id");
  json["id"] = run.id;
  json["device_name"] = run.environment.device_name();
  json["params"] = run.params;
  json["tags"] = run.tags;
  json["metrics"] = run.metrics;
  return json;
}

Json operator_json(const OperatorRecord& r) {
  Json json = result_json(r);
  json["verdict"] = r.verdict();
  return json;
}

Json kernel_json(const KernelRecord& k) {
  Json json = result_json(k);
  json["skipped"] = k.skipped();
  return json;
}

Json ttft_json(const TtftRecord& t) { return result_json(t); }

}  // namespace fk
