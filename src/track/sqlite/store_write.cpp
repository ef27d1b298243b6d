// Writing: every public call is one transaction.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "track/sha256.h"
#include "track/sqlite/store_sqlite.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// A file that is either not there or whole: written under another name first.
void write_file(const std::string& path, std::string_view bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::string next = fmt::format("{}.{}", path, getpid());
  int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  auto refuse = [&](int error) {
    if (fd >= 0) close(fd);
    unlink(next.c_str());
    throw Error("The artifact {} cannot be written ({}).", path, strerror(error));
  };
  if (fd < 0) refuse(errno);
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) refuse(errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (fsync(fd) != 0) refuse(errno);
  close(fd);
  if (std::rename(next.c_str(), path.c_str()) != 0)
    throw Error("The artifact {} cannot be written ({}).", path, strerror(errno));
}

}  // namespace

void SqliteStore::begin_run(const RunRecord& r) {
  write([&] {
    if (database_.query("SELECT 1 FROM runs WHERE run_id = ?", r.id).step())
      throw Error("The history {} already has a run {}; a run is never stored over another.", path_, r.id);
    const Environment& e = r.environment;
    database_.execute(
        "INSERT INTO runs (run_id, name, experiment, tier, mode, status, error, started_us, ended_us, git_commit,"
        " git_branch, git_dirty, host, device, cpu_name, gpu_name, gpu_driver, gpu_vram_mb, cuda_version, environment)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        r.id, r.name, r.experiment, r.tier, r.mode, r.status, r.error, r.started_us, r.ended_us, e.git_commit,
        e.git_branch, e.git_dirty, e.host, e.device, e.cpu_name, e.gpu_name, e.gpu_driver, e.gpu_vram_mb,
        e.cuda_version, dump_json(e.details, -1));
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
    database_.execute(
        "INSERT INTO kernel_results (run, op, scenario, level, models, tp, tokens, dtype, candidate, verdict, sentence,"
        " err_ratio, baseline_ns, candidate_ns, speedup, low, high, speed_verdict, invalid, delta, control_error, "
        "floor_ns,"
        " of_floor, bytes, matrix_flops, vector_flops, seconds)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        run, k.op, k.scenario, k.level, Json(k.models).dump(), k.tp, k.tokens, k.dtype, k.candidate, k.verdict,
        k.sentence, k.err_ratio, k.baseline_ns, k.candidate_ns, k.speedup, k.low, k.high, k.speed_verdict, k.invalid,
        k.delta, k.control_error, k.floor_ns, k.of_floor, k.bytes, k.matrix_flops, k.vector_flops, k.seconds);
    database_.execute("INSERT INTO kernel_details (result, detail, samples, control_samples) VALUES (?, ?, ?, ?)",
                      database_.last_id(), dump_json(detail.detail, -1), dump_json(detail.samples, -1),
                      dump_json(detail.control_samples, -1));
    set_models(run, k.models);
    summarise_operator(run, k.op);
  });
}

// While a run goes on: the plain geometric mean, with the interval's ends averaged likewise, which is wider than need
// be. The candidate's source, which results do not carry, is kept.
void SqliteStore::summarise_operator(int64_t run, std::string_view op) {
  OperatorRecord o;
  double log_speed = 0, log_low = 0, log_high = 0;
  int64_t timed = 0;
  for (Statement s = database_.query(
           "SELECT scenario, level, candidate, verdict, err_ratio, speedup, low, high FROM kernel_results"
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
    (k.passed() ? o.passed : k.skipped() ? o.skipped : o.failed) += 1;
    if (k.err_ratio) o.err_ratio = std::max(o.err_ratio.value_or(0), *k.err_ratio);
    if (!k.passed() || !k.speedup || !(*k.speedup > 0)) continue;
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
  database_.execute(
      "INSERT INTO operators (op, run, level, candidate, passed, failed, skipped, speedup, low, high, worst, "
      "worst_scenario,"
      " err_ratio) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (op, run) DO UPDATE SET level = "
      "excluded.level,"
      " candidate = excluded.candidate, passed = excluded.passed, failed = excluded.failed, skipped = excluded.skipped,"
      " speedup = excluded.speedup, low = excluded.low, high = excluded.high, worst = excluded.worst,"
      " worst_scenario = excluded.worst_scenario, err_ratio = excluded.err_ratio",
      op, run, o.level, o.candidate, o.passed, o.failed, o.skipped, o.speedup, o.low, o.high, o.worst, o.worst_scenario,
      o.err_ratio);
}

void SqliteStore::set_operator(const OperatorRecord& o) {
  write([&] {
    database_.execute(
        "INSERT OR REPLACE INTO operators (op, run, level, candidate, source_sha256, passed, failed, skipped, speedup, "
        "low, high,"
        " worst, worst_scenario, err_ratio) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        o.op, number_of(o.run_id), o.level, o.candidate, o.source_sha256, o.passed, o.failed, o.skipped, o.speedup,
        o.low, o.high, o.worst, o.worst_scenario, o.err_ratio);
  });
}

void SqliteStore::add_ttft_result(const TtftRecord& t) {
  write([&] {
    int64_t run = number_of(t.run_id);
    database_.execute(
        "INSERT OR REPLACE INTO ttft_results (run, path, model, model_key, config, device, dtype, threads, "
        "prompt_tokens, iters,"
        " decode_tokens, search_iters, ttft_ms, ttft_ms_mean, ttft_sequential_ms, tpot_ms, throughput_tps, compile_ms,"
        " prefill_floor_share, decode_floor_share, load_ms, weights_bytes, peak_memory_bytes, note, error, samples)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        run, t.path, t.model, t.model_key, t.config, t.device, t.dtype, t.threads, t.prompt_tokens, t.iters,
        t.decode_tokens, t.search_iters, t.ttft_ms, t.ttft_ms_mean, t.ttft_sequential_ms, t.tpot_ms, t.throughput_tps,
        t.compile_ms, t.prefill_floor_share, t.decode_floor_share, t.load_ms, t.weights_bytes, t.peak_memory_bytes,
        t.note, t.error, dump_json(t.samples, -1));
    set_models(run, {t.model});
  });
}

ArtifactRecord SqliteStore::add_artifact(std::string_view run_id, std::string_view path, std::string_view bytes) {
  ArtifactRecord a{std::string(path), sha256_hex(bytes), static_cast<int64_t>(bytes.size())};
  // The file inside the transaction: nobody can remove it as unused between its writing and its row.
  write([&] {
    int64_t run = number_of(run_id);
    std::string file = artifact_file(a.sha256);
    if (!fs::exists(file)) write_file(file, bytes);
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
