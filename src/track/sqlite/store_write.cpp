// Writing: every public call is one transaction.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/output_file.h"
#include "track/sha256.h"
#include "track/sqlite/record_sql.h"
#include "track/sqlite/store_sqlite.h"

namespace fk {

namespace fs = std::filesystem;

void SqliteStore::begin_run(const RunRecord& r) {
  write([&] {
    if (database_.query("SELECT 1 FROM runs WHERE run_id = ?", r.id).step())
      throw Error("The history {} already has a run {}; a run is never stored over another.", path_, r.id);
    insert_row(database_, "INSERT INTO runs", "environment", dump_json(r.environment.details, -1), [&](const auto& v) {
      run_fields(r, v);
      machine_fields(r, v);
    });
    set_params(r.id, r.params);
    set_tags(r.id, r.tags);
    std::vector<MetricPoint> points;
    for (const auto& [key, value] : r.metrics) points.push_back({key, value, 0, r.started_us});
    log_metrics(r.id, points);
  });
}

void SqliteStore::reopen_run(std::string_view run_id) {
  write([&] {
    int64_t run = number_of(run_id);
    database_.execute("UPDATE runs SET status = 'running', error = '', ended_us = NULL WHERE run = ?", run);
    database_.execute("UPDATE mirrors SET complete = 0 WHERE run = ?", run);
  });
}

void SqliteStore::end_run(std::string_view run_id, std::string_view status, std::string_view error, int64_t ended_us) {
  write([&] {
    database_.execute("UPDATE runs SET status = ?, error = ?, ended_us = ? WHERE run = ?", status, error, ended_us,
                      number_of(run_id));
  });
}

void SqliteStore::set_params(std::string_view run_id, const std::map<std::string, std::string>& params) {
  write([&] {
    int64_t run = number_of(run_id);
    for (const auto& [key, value] : params)
      database_.execute("INSERT OR REPLACE INTO params (run, key, value) VALUES (?, ?, ?)", run, key, value);
  });
}

void SqliteStore::set_tags(std::string_view run_id, const std::map<std::string, std::string>& tags) {
  write([&] {
    int64_t run = number_of(run_id);
    for (const auto& [key, value] : tags)
      database_.execute("INSERT OR REPLACE INTO tags (run, key, value) VALUES (?, ?, ?)", run, key, value);
  });
}

void SqliteStore::log_metrics(std::string_view run_id, const std::vector<MetricPoint>& points) {
  write([&] {
    int64_t run = number_of(run_id);
    for (const MetricPoint& p : points) {
      if (!std::isfinite(p.value)) throw Error("The metric {} is {}; only finite numbers are kept.", p.key, p.value);
      database_.execute("INSERT OR REPLACE INTO metrics (run, key, step, value, time_us) VALUES (?, ?, ?, ?, ?)", run,
                        p.key, p.step, p.value, p.time_us);
    }
  });
}

void SqliteStore::set_models(int64_t run, const std::vector<std::string>& models) {
  for (const std::string& model : models)
    database_.execute("INSERT OR IGNORE INTO run_models (model, run) VALUES (?, ?)", model, run);
}

void SqliteStore::add_kernel_result(const KernelRecord& k, const KernelDetail& detail) {
  write([&] {
    int64_t run = number_of(k.run_id);
    database_.execute("DELETE FROM kernel_results WHERE run = ? AND op = ? AND scenario = ?", run, k.op, k.scenario);
    insert_own(database_, "INSERT INTO kernel_results", run, k);
    database_.execute("INSERT INTO kernel_details (result, detail, samples, control_samples) VALUES (?, ?, ?, ?)",
                      database_.last_id(), dump_json(detail.detail, -1), dump_json(detail.samples, -1),
                      dump_json(detail.control_samples, -1));
    set_models(run, k.models);
    summarise_operator(run, k.op);
  });
}

// While a run is in progress: the plain geometric mean, with the ends of the intervals averaged in the same way, which
// is wider than necessary. The hash of the candidate's source, which is not in results, is kept.
void SqliteStore::summarise_operator(int64_t run, std::string_view op) {
  OperatorRecord o;
  o.op = op;
  double log_speed = 0, log_low = 0, log_high = 0;
  int64_t timed = 0;
  for (Statement s = database_.query(
           "SELECT scenario, level, candidate, verdict, err_ratio, speedup, low, high, confirmed, invalid FROM "
           "kernel_results"
           " WHERE run = ? AND op = ? ORDER BY result",
           run, op);
       s.step();) {
    KernelRecord k;
    k.scenario = s.text();
    o.level = static_cast<int>(s.integer());
    o.candidate = s.text();
    k.verdict = s.text();
    k.err_ratio = s.maybe_real();
    k.speedup = s.maybe_real();
    k.low = s.maybe_real();
    k.high = s.maybe_real();
    k.confirmed = s.text();
    k.invalid = s.text();
    add_confirmed(o, k);
    (k.passed() ? o.passed : k.skipped() ? o.skipped : o.failed) += 1;
    if (k.err_ratio) o.err_ratio = std::max(o.err_ratio.value_or(0), *k.err_ratio);
    if (!k.ranked()) continue;
    ++timed;
    log_speed += std::log(*k.speedup);
    log_low += std::log(k.low.value_or(*k.speedup));
    log_high += std::log(k.high.value_or(*k.speedup));
    if (!o.worst || *k.speedup < *o.worst) {
      o.worst = k.speedup;
      o.worst_scenario = k.scenario;
    }
  }
  if (timed > 0) {
    auto n = static_cast<double>(timed);
    o.speedup = std::exp(log_speed / n);
    o.low = std::exp(log_low / n);
    o.high = std::exp(log_high / n);
  }
  if (Statement s = database_.query("SELECT source_sha256 FROM operators WHERE op = ? AND run = ?", op, run); s.step())
    o.source_sha256 = s.text();
  insert_own(database_, "INSERT OR REPLACE INTO operators", run, o);
  set_scenarios(run, op);
}

// From the results, not from the summary: records of older versions do not have it.
void SqliteStore::set_scenarios(int64_t run, std::string_view op) {
  std::string judged, timed;
  int64_t count = 0;
  for (Statement s = database_.query(
           "SELECT scenario, dtype, verdict, invalid, speedup FROM kernel_results WHERE run = ? AND op = ?"
           " ORDER BY scenario",
           run, op);
       s.step();) {
    KernelRecord k;
    std::string name = s.text();
    name += "\t" + s.text() + "\n";
    k.verdict = s.text();
    k.invalid = s.text();
    k.speedup = s.maybe_real();
    judged += name;
    if (!k.ranked()) continue;
    timed += name;
    ++count;
  }
  database_.execute("UPDATE operators SET scenario_set = ?, timed_set = ?, timed = ? WHERE op = ? AND run = ?",
                    scenario_set_hash(judged), scenario_set_hash(timed), count, op, run);
}

void SqliteStore::set_operator(const OperatorRecord& o) {
  write([&] {
    int64_t run = number_of(o.run_id);
    insert_own(database_, "INSERT OR REPLACE INTO operators", run, o);
    set_scenarios(run, o.op);
  });
}

void SqliteStore::add_ttft_result(const TtftRecord& t) {
  write([&] {
    int64_t run = number_of(t.run_id);
    insert_own(database_, "INSERT OR REPLACE INTO ttft_results", run, t);
    set_models(run, {t.model});
  });
}

ArtifactRecord SqliteStore::add_artifact(std::string_view run_id, std::string_view path, std::string_view bytes) {
  ArtifactRecord a{std::string(path), sha256_hex(bytes), static_cast<int64_t>(bytes.size())};
  // The file is written inside the transaction, so that no other process removes it as unused before its row exists.
  write([&] {
    int64_t run = number_of(run_id);
    std::string file = artifact_file(a.sha256);
    if (!fs::exists(file)) {
      fs::create_directories(fs::path(file).parent_path());
      write_file(file, bytes, true);
    }
    database_.execute("INSERT OR REPLACE INTO artifacts (run, path, sha256, size_bytes) VALUES (?, ?, ?, ?)", run,
                      a.path, a.sha256, a.size_bytes);
  });
  return a;
}

void SqliteStore::remove_run(std::string_view run_id) {
  write([&] {
    int64_t run = number_of(run_id);
    std::vector<ArtifactRecord> had = artifacts(run_id);
    database_.execute("DELETE FROM runs WHERE run = ?", run);
    for (const ArtifactRecord& a : had) {
      if (database_.query("SELECT 1 FROM artifacts WHERE sha256 = ?", a.sha256).step()) continue;
      std::error_code gone_already;
      fs::remove(artifact_file(a.sha256), gone_already);
    }
  });
}

}  // namespace fk
