#include "candidate/compile_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string list_name(const std::string& folder, const std::string& key) { return folder + "/" + key + ".inputs"; }

// Of the files' names and contents; nothing where one cannot be read.
std::optional<std::string> fingerprint_of(const std::string& key, const std::vector<std::string>& inputs) {
  Fingerprint all;
  all.add(key);
  for (const std::string& path : inputs) {
    std::optional<std::string> text = file_text(path);
    if (!text) return std::nullopt;
    all.add(path).add(*text);
  }
  return all.hex();
}

// What a list names.
std::optional<std::vector<std::string>> inputs_of(const std::string& list) {
  std::optional<std::string> text = file_text(list);
  if (!text) return std::nullopt;
  std::vector<std::string> inputs;
  for (size_t begin = 0; begin < text->size();) {
    size_t end = std::min(text->find('\n', begin), text->size());
    inputs.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return inputs;
}

void mark_used(const std::string& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

int open_to_lock(const std::string& path) { return open(path.c_str(), O_RDONLY | O_CLOEXEC); }

// A result ends with the hash of all that comes before, which loaders do not read: as one file, both are there or none.
constexpr size_t kSealBytes = 32;

bool seal(const std::string& built) {
  std::optional<std::string> text = file_text(built);
  int file = open(built.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return false;
  const std::string hash = text ? Fingerprint().add(*text).hex() : "";
  const bool written = text && write(file, hash.data(), hash.size()) == static_cast<ssize_t>(kSealBytes);
  return close(file) == 0 && written;
}

bool is_whole(const std::string& path) {
  std::optional<std::string> text = file_text(path);
  if (!text || text->size() < kSealBytes) return false;
  const size_t end = text->size() - kSealBytes;
  return Fingerprint().add(std::string_view(*text).substr(0, end)).hex() == std::string_view(*text).substr(end);
}

// Nothing where there is no such file, or where it was removed just now. One that was damaged would crash who loads it,
// and is removed, so that it is built again.
std::optional<HeldBuild> hold(const std::string& path) {
  int file = open_to_lock(path);
  if (file < 0) return std::nullopt;
  std::shared_ptr<void> lock(nullptr, [file](void*) { close(file); });
  struct stat info;
  if (flock(file, LOCK_SH) != 0 || fstat(file, &info) != 0 || info.st_nlink == 0) return std::nullopt;
  if (!is_whole(path)) {
    struct stat now;  // another process may have replaced it meanwhile
    if (stat(path.c_str(), &now) == 0 && now.st_ino == info.st_ino) unlink(path.c_str());
    return std::nullopt;
  }
  mark_used(path);
  return HeldBuild{path, std::move(lock)};
}

bool remove_unless_held(const std::string& path) {
  int file = open_to_lock(path);
  if (file < 0) return false;
  bool removed = flock(file, LOCK_EX | LOCK_NB) == 0 && unlink(path.c_str()) == 0;
  close(file);
  return removed;
}

}  // namespace

Fingerprint& Fingerprint::add(std::string_view text) {
  constexpr unsigned __int128 kPrime = (static_cast<unsigned __int128>(1) << 88) + 0x13b;
  unsigned __int128 hash = (static_cast<unsigned __int128>(high_) << 64) | low_;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  for (size_t n = text.size(), i = 0; i < sizeof n; ++i, n >>= 8) hash = (hash ^ (n & 0xff)) * kPrime;
  high_ = static_cast<uint64_t>(hash >> 64);
  low_ = static_cast<uint64_t>(hash);
  return *this;
}

std::string Fingerprint::hex() const { return fmt::format("{:016x}{:016x}", high_, low_); }

std::optional<std::string> file_text(const std::string& path) {
  constexpr size_t kLimit = size_t{64} << 20;
  // Not blocking: the file may be a pipe without a writer.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  struct stat info;
  std::optional<std::string> text;
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) <= kLimit) {
    text.emplace();
    char block[16384];
    ssize_t got = 0;
    while ((got = read(file, block, sizeof block)) > 0) text->append(block, static_cast<size_t>(got));
    if (got < 0) text.reset();
  }
  close(file);
  return text;
}

std::string temporary_name(const std::string& path) {
  static std::atomic<int> number{0};
  return fmt::format("{}.{}-{}.tmp", path, getpid(), number.fetch_add(1));
}

bool write_whole(const std::string& path, std::string_view text) {
  std::string temporary = temporary_name(path);
  int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return false;
  bool whole = true;
  while (whole && !text.empty()) {
    ssize_t wrote = write(file, text.data(), text.size());
    whole = wrote > 0;
    if (whole) text.remove_prefix(static_cast<size_t>(wrote));
  }
  whole = close(file) == 0 && whole && rename(temporary.c_str(), path.c_str()) == 0;
  if (!whole) unlink(temporary.c_str());
  return whole;
}

std::optional<HeldBuild> CompileCache::find(const std::string& key) const {
  std::optional<std::vector<std::string>> inputs = inputs_of(list_name(folder_, key));
  if (!inputs) return std::nullopt;
  std::optional<std::string> name = fingerprint_of(key, *inputs);
  if (!name) return std::nullopt;
  mark_used(list_name(folder_, key));
  return hold(fmt::format("{}/{}.so", folder_, *name));
}

std::optional<HeldBuild> CompileCache::store(const std::string& key, const std::string& built,
                                             const std::vector<std::string>& inputs) const {
  std::optional<std::string> name = fingerprint_of(key, inputs);
  if (!name) return std::nullopt;
  std::string path = fmt::format("{}/{}.so", folder_, *name), list;
  for (const std::string& input : inputs) list += input + "\n";
  if (!seal(built)) return std::nullopt;
  // The result first: a list without its result only causes another build. An existing result may be in use, so it
  // stays, unless it is damaged.
  auto move = [&] { return renameat2(AT_FDCWD, built.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0; };
  if (!move()) {
    if (errno != EEXIST) return std::nullopt;
    if (hold(path))
      unlink(built.c_str());
    else if (!move())
      return std::nullopt;
  }
  if (!write_whole(list_name(folder_, key), list)) return std::nullopt;
  return hold(path);
}

int64_t CompileCache::remove_builds_from(const std::string& sources) const {
  int64_t removed = 0;
  std::error_code error;
  std::vector<fs::path> lists;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, error))
    if (file.path().extension() == ".inputs") lists.push_back(file.path());
  const std::string begin = sources + "/";
  for (const fs::path& list : lists) {
    std::optional<std::vector<std::string>> inputs = inputs_of(list.string());
    if (!inputs || std::none_of(inputs->begin(), inputs->end(), [&](const auto& i) { return i.starts_with(begin); }))
      continue;
    const std::string key = list.stem().string();
    std::optional<std::string> name = fingerprint_of(key, *inputs);
    if (name && remove_unless_held(fmt::format("{}/{}.so", folder_, *name))) ++removed;
    fs::remove(list, error);
    fs::remove(fs::path(list).replace_extension(".warnings"), error);
  }
  return removed;
}

void CompileCache::prune(const CacheLimits& limits) const {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uint64_t bytes;
  };
  constexpr std::chrono::hours kHalfDone{24};  // longer than any compilation
  auto now = fs::file_time_type::clock::now();
  std::vector<Entry> results;
  uint64_t bytes = 0;
  std::error_code error;
  fs::directory_iterator file(folder_, error), end;
  for (; !error && file != end; file.increment(error)) {
    std::error_code gone;  // another process may be pruning too
    Entry e{file->path(), file->last_write_time(gone), 0};
    bool folder = file->is_directory(gone);
    if (!gone && !folder) e.bytes = file->file_size(gone);
    if (gone) continue;
    auto age = now - e.used;
    if (!folder && e.path.extension() == ".so") {
      bytes += e.bytes;
      results.push_back(std::move(e));
    } else if (bool list = e.path.extension() == ".inputs" || e.path.extension() == ".warnings";
               age > (list ? limits.unused : kHalfDone)) {
      fs::remove_all(e.path, gone);  // a build that was killed leaves its folder
    }
  }
  std::sort(results.begin(), results.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : results) {
    if (now - e.used <= limits.unused && bytes <= limits.bytes) break;
    if (remove_unless_held(e.path)) bytes -= e.bytes;
  }
}

std::vector<std::string> files_in_rule(std::string_view rule) {
  std::vector<std::string> files;
  size_t colon = rule.find(": ");
  rule.remove_prefix(colon == std::string_view::npos ? rule.size() : colon + 2);
  std::string word;
  auto finish = [&] {
    if (!word.empty()) files.push_back(fs::absolute(word).lexically_normal().string());
    word.clear();
  };
  for (size_t i = 0; i < rule.size(); ++i) {
    char c = rule[i], next = i + 1 < rule.size() ? rule[i + 1] : '\0';
    if (c == '\\' && next == '\n') {
      finish();
      ++i;
    } else if ((c == '\\' && (next == ' ' || next == '#')) || (c == '$' && next == '$')) {
      word += next;
      ++i;
    } else if (c == ' ' || c == '\n') {
      finish();
    } else {
      word += c;
    }
  }
  finish();
  return files;
}

}  // namespace fk
