// Opening the store, and the common part of reading and writing.
#include "track/sqlite/store_sqlite.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "track/sqlite/migrate.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string chosen(const std::string& path) { return path.empty() ? default_store_path() : path; }

void make_folder_of(const std::string& path) {
  std::error_code error;
  if (fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw Error("The folder of the history {} cannot be made ({}); name another with --db, or set FASTKERNELS_HOME.",
                path, error.message());
}

// With WAL, readers are not blocked by a writer, and a killed process leaves a valid file. If two processes create the
// file at the same time, SQLite does not wait for this lock by itself.
void use_wal(Database& database) {
  auto mode = [&](const char* sql) {
    Statement s = database.query(sql);
    return s.step() ? s.text() : "";
  };
  for (int tries = 0; mode("PRAGMA journal_mode") != "wal"; ++tries) {
    try {
      mode("PRAGMA journal_mode = WAL");  // the old mode stays if the file system does not support it
      return;
    } catch (const DatabaseBusy&) {
      if (tries == 500) throw;
      usleep(10'000);
    }
  }
}

class SqliteBatch final : public Store::Batch {
 public:
  explicit SqliteBatch(Database& database) : transaction_(database) {}
  void commit() override { transaction_.commit(); }

 private:
  Transaction transaction_;
};

}  // namespace

SqliteStore::SqliteStore(const std::string& path, Database::Mode mode)
    : path_(path), artifact_folder_(fs::path(path).replace_extension("artifacts").string()), database_(path, mode) {
  if (mode == Database::Mode::kReadWrite) {
    use_wal(database_);
    database_.execute("PRAGMA foreign_keys = ON");
    // A row took seconds to measure, so the milliseconds for a sync to disk are acceptable.
    database_.execute("PRAGMA synchronous = FULL");
    migrate(database_);
  } else if (int version = schema_version_of(database_); version != schema_version()) {
    throw Error("The history {} has schema {} and not {}, and cannot be changed here; copy it to where it can.", path_,
                version, schema_version());
  }
}

int64_t SqliteStore::change_stamp() {
  Statement s = database_.query("SELECT stamp FROM store");
  return s.step() ? s.integer() : 0;
}

int64_t SqliteStore::number_of(std::string_view run_id) {
  Statement s = database_.query("SELECT run FROM runs WHERE run_id = ?", run_id);
  if (!s.step()) throw Error("There is no run {} in {}; `fastkernels history` lists them.", run_id, path_);
  return s.integer();
}

void SqliteStore::write(const std::function<void()>& body) {
  Transaction transaction(database_);
  body();
  database_.execute("UPDATE store SET stamp = stamp + 1");
  transaction.commit();
}

std::unique_ptr<Store::Batch> SqliteStore::batch() { return std::make_unique<SqliteBatch>(database_); }

std::string SqliteStore::artifact_file(std::string_view sha256) const {
  if (sha256.size() != 64 || sha256.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    throw Error("'{}' is no SHA-256 of an artifact; `fastkernels history show RUN --json` lists them.", sha256);
  return fmt::format("{}/{}/{}", artifact_folder_, sha256.substr(0, 2), sha256.substr(2));
}

std::string store_unavailable() { return ""; }

std::unique_ptr<Store> open_store(const std::string& path) {
  make_folder_of(chosen(path));
  return std::make_unique<SqliteStore>(chosen(path), Database::Mode::kReadWrite);
}

std::unique_ptr<StoreReader> open_store_reader(const std::string& path) {
  std::string file = chosen(path);
  if (access(file.c_str(), R_OK) != 0)
    throw Error("There is no history at {} ({}); `fastkernels kernels` makes one, --db names another.", file,
                strerror(errno));
  // If writing is allowed, an older schema is migrated here.
  std::string folder = fs::path(file).parent_path().string();
  bool writable = access(file.c_str(), W_OK) == 0 && access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
  if (writable) return std::make_unique<SqliteStore>(file, Database::Mode::kReadWrite);
  try {
    return std::make_unique<SqliteStore>(file, Database::Mode::kReadOnly);
  } catch (const Error&) {  // the shared-memory file of WAL cannot be created
    return std::make_unique<SqliteStore>(file, Database::Mode::kImmutable);
  }
}

}  // namespace fk
