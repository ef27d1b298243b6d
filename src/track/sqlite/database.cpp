#include "track/sqlite/database.h"

#include "track/sha256.h"

namespace fk {
namespace {

// Writers wait for each other: a transaction takes milliseconds, so a longer wait means that a writer hangs.
constexpr int kBusyMs = 20'000;
// Statements with a filter differ from call to call; a larger cache would not help.
constexpr size_t kMostIdle = 100;

std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (char c : path)
    uri += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  return uri + "?immutable=1";
}

void hash_scenarios(sqlite3_context* context, int, sqlite3_value** values) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
  auto size = static_cast<size_t>(sqlite3_value_bytes(values[0]));
  std::string hash = bytes == nullptr ? "" : scenario_set_hash({bytes, size});
  sqlite3_result_text(context, hash.data(), static_cast<int>(hash.size()), SQLITE_TRANSIENT);
}

}  // namespace

std::string scenario_set_hash(std::string_view lines) { return lines.empty() ? "" : sha256_hex(lines).substr(0, 8); }

void SqlValue::bind(sqlite3_stmt* statement, int index) const {
  switch (kind_) {
    case Kind::kNull:
      sqlite3_bind_null(statement, index);
      return;
    case Kind::kInteger:
      sqlite3_bind_int64(statement, index, integer_);
      return;
    case Kind::kReal:
      sqlite3_bind_double(statement, index, real_);
      return;
    case Kind::kText:
      sqlite3_bind_text64(statement, index, text_.data(), text_.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
      return;
  }
}

Statement::Statement(Database& database, sqlite3_stmt* handle, std::string sql)
    : database_(&database), handle_(handle), sql_(std::move(sql)) {}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      handle_(other.handle_),
      sql_(std::move(other.sql_)),
      bound_(other.bound_),
      column_(other.column_) {
  other.handle_ = nullptr;
}

Statement::~Statement() {
  if (handle_ == nullptr) return;
  if (database_->idle_.size() >= kMostIdle) {
    sqlite3_finalize(handle_);
    return;
  }
  sqlite3_reset(handle_);
  sqlite3_clear_bindings(handle_);
  database_->idle_.emplace(std::move(sql_), handle_);
}

bool Statement::step() {
  column_ = 0;
  int status = sqlite3_step(handle_);
  if (status == SQLITE_ROW) return true;
  if (status != SQLITE_DONE) database_->fail();
  return false;
}

std::string Statement::text() {
  int c = column_++;
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_, c));
  return bytes == nullptr ? "" : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(handle_, c)));
}

int64_t Statement::integer() { return sqlite3_column_int64(handle_, column_++); }
double Statement::real() { return sqlite3_column_double(handle_, column_++); }

std::optional<double> Statement::maybe_real() {
  if (sqlite3_column_type(handle_, column_) != SQLITE_NULL) return real();
  ++column_;
  return std::nullopt;
}

std::optional<int64_t> Statement::maybe_integer() {
  if (sqlite3_column_type(handle_, column_) != SQLITE_NULL) return integer();
  ++column_;
  return std::nullopt;
}

Database::Database(std::string path, Mode mode) : path_(std::move(path)) {
  int flags = mode == Mode::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  std::string name = mode == Mode::kImmutable ? immutable_uri(path_) : path_;
  if (mode == Mode::kImmutable) flags |= SQLITE_OPEN_URI;
  int status = sqlite3_open_v2(name.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (status != SQLITE_OK) {
    std::string why = handle_ == nullptr ? "no memory" : sqlite3_errmsg(handle_);
    sqlite3_close(handle_);
    throw Error("The history {} cannot be opened ({}); name another with --db, or set FASTKERNELS_HOME.", path_, why);
  }
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, kBusyMs);
  sqlite3_create_function_v2(handle_, "fk_scenario_set", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr, hash_scenarios,
                             nullptr, nullptr, nullptr);
}

Database::~Database() {
  for (auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

Statement Database::prepare(const std::string& sql) {
  if (auto found = idle_.find(sql); found != idle_.end()) {
    sqlite3_stmt* handle = found->second;
    idle_.erase(found);
    return {*this, handle, sql};
  }
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v3(handle_, sql.c_str(), static_cast<int>(sql.size()) + 1, SQLITE_PREPARE_PERSISTENT, &handle,
                         nullptr) != SQLITE_OK)
    fail();
  return {*this, handle, sql};
}

void Database::execute_script(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

void Database::fail() const {
  int code = sqlite3_errcode(handle_) & 0xff;  // without the extension
  std::string why = sqlite3_errmsg(handle_);
  switch (code) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      throw Error("{} is no history of fastkernels, or a damaged one ({}); move it away, or name another with --db.",
                  path_, why);
    case SQLITE_FULL:
      throw Error("The history {} cannot be written: the disk is full; free some of it, or name another with --db.",
                  path_);
    case SQLITE_BUSY:
      throw DatabaseBusy(
          "The history {} is being written by another program that does not finish; end it and try again.", path_);
    default:
      throw Error("The history {} cannot be used ({}); name another with --db, or set FASTKERNELS_HOME.", path_, why);
  }
}

Transaction::Transaction(Database& database) : database_(database), outermost_(!database.in_transaction()) {
  // IMMEDIATE: a transaction that starts with a read may fail at its first write because another process wrote first.
  if (outermost_) database_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!outermost_ || !database_.in_transaction()) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const Error&) {  // SQLite undoes it with the connection
  }
}

void Transaction::commit() {
  if (outermost_) database_.execute("COMMIT");
}

}  // namespace fk
