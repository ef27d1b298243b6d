#include "cli/eval_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/eval_pair.h"
#include "core/error.h"
#include "core/input_file.h"
#include "core/output_file.h"
#include "track/sha256.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// Hashes of all files, by their path in the folder.
Json hashes_of(const std::string& folder) {
  Json hashes = Json::object();
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files)
    hashes[file.lexically_relative(folder).string()] = sha256_hex(read_file(file.string(), file.string()));
  return hashes;
}

// What decides how a pair is measured: not where its files are or which cores it gets.
Json comparable(const PairTask& task) {
  Json json = to_json(task);
  for (const char* key : {"folder", "cores", "candidate_folder", "timeout_s"}) json.erase(key);
  return json;
}

}  // namespace

EvalFolder::EvalFolder(const std::string& path, bool resume) : path_(path), resume_(resume) {
  std::string file = path + "/run.json";
  bool exists = fs::exists(file);
  if (resume && !exists) throw UsageError("--resume: there is no interrupted evaluation in {}", path);
  if (!resume && exists)
    throw UsageError("{} holds an evaluation already; resume it with --resume or choose another --run-dir", path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error("The folder {} cannot be made ({}).", path, error.message());
  path_ = fs::absolute(path).lexically_normal().string();
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  lock_ = open((path_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw Error("The folder {} cannot be written ({}).", path_, strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock_);
    throw Error("Another evaluation runs in {}; wait for it, or choose another --run-dir.", path_);
  }
  if (resume) state_ = parse_json_file(file);
}

EvalFolder::~EvalFolder() { close(lock_); }

std::string EvalFolder::take_candidates(const std::string& folder) {
  Json hashes = folder.empty() ? Json::object() : hashes_of(folder);
  if (resume_ && state_.at("candidates") != hashes)
    throw UsageError("--resume: the candidates are not those of the interrupted evaluation in {}; start a new one",
                     path_);
  state_["candidates"] = hashes;
  if (folder.empty()) return "";
  std::string copy = path_ + "/candidate";
  if (!resume_ || !fs::exists(copy)) fs::copy(folder, copy, fs::copy_options::recursive);
  return copy;
}

void EvalFolder::set_tasks(std::vector<PairTask>& tasks) {
  Json all = Json::array();
  for (PairTask& task : tasks) {
    task.folder = path_ + "/" + task.name;
    all.push_back(comparable(task));
  }
  if (resume_ && state_.at("tasks") != all)
    throw UsageError("--resume: the evaluation in {} measured other pairs, or in another way; give the same flags",
                     path_);
  state_["tasks"] = all;
  for (const PairTask& task : tasks) fs::create_directories(task.folder);
}

void EvalFolder::keep_run(RunRecord& run) {
  if (resume_) {
    run.id = state_.at("run_id").get<std::string>();
    run.started_us = state_.at("started_us").get<int64_t>();
  }
  state_["run_id"] = run.id;
  state_["started_us"] = run.started_us;
  save();
}

Json EvalFolder::finished_item(const PairTask& task) const {
  std::string path = item_path(task);
  if (!fs::exists(path)) return {};
  Json item = parse_json_file(path);
  if (item.at("status") == "ok") return item;
  fs::remove(path);
  return {};
}

void EvalFolder::save() const { write_file(path_ + "/run.json", dump_json(state_) + "\n", true); }

}  // namespace fk
