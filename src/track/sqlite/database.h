// A SQLite connection and its prepared statements; every failure is an Error that names the file.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"

namespace fk {

class DatabaseBusy : public Error {
 public:
  using Error::Error;
};

// A value to bind, whatever its type.
class SqlValue {
 public:
  SqlValue(std::nullptr_t) : kind_(Kind::kNull) {}                   // NOLINT: values are values
  SqlValue(int64_t v) : kind_(Kind::kInteger), integer_(v) {}        // NOLINT
  SqlValue(int v) : SqlValue(int64_t{v}) {}                          // NOLINT
  SqlValue(bool v) : SqlValue(int64_t{v}) {}                         // NOLINT
  SqlValue(double v) : kind_(Kind::kReal), real_(v) {}               // NOLINT
  SqlValue(std::string_view v) : kind_(Kind::kText), text_(v) {}     // NOLINT
  SqlValue(const std::string& v) : SqlValue(std::string_view(v)) {}  // NOLINT
  SqlValue(const char* v) : SqlValue(std::string_view(v)) {}         // NOLINT
  template <class T>
  SqlValue(const std::optional<T>& v) : SqlValue(nullptr) {  // NOLINT
    if (v) *this = SqlValue(*v);
  }

  void bind(sqlite3_stmt* statement, int index) const;

 private:
  enum class Kind : uint8_t { kNull, kInteger, kReal, kText };
  Kind kind_;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string text_;
};

class Database;

// A prepared statement in use. The destructor resets it and returns it to the cache of its database.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;

  Statement& bind(const SqlValue& value) {
    value.bind(handle_, ++bound_);
    return *this;
  }
  bool step();  // true: there is a row
  void run() {
    while (step()) {
    }
  }

  // Columns from left to right.
  std::string text();
  int64_t integer();
  double real();
  std::optional<double> maybe_real();
  std::optional<int64_t> maybe_integer();

 private:
  friend class Database;
  Statement(Database& database, sqlite3_stmt* handle, std::string sql);

  Database* database_;
  sqlite3_stmt* handle_;
  std::string sql_;
  int bound_ = 0, column_ = 0;
};

// An eight-digit hash of a list of scenarios, one per line; empty for none. In SQL: fk_scenario_set().
std::string scenario_set_hash(std::string_view lines);

class Database {
 public:
  // kImmutable: the file is on read-only media; not even a lock file can be written.
  enum class Mode : uint8_t { kReadWrite, kReadOnly, kImmutable };
  Database(std::string path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  Statement prepare(const std::string& sql);
  template <class... Values>
  Statement query(const std::string& sql, const Values&... values) {
    Statement s = prepare(sql);
    (s.bind(SqlValue(values)), ...);
    return s;
  }
  template <class... Values>
  void execute(const std::string& sql, const Values&... values) {
    query(sql, values...).run();
  }
  void execute_script(const std::string& sql);  // of our own, without values
  int64_t last_id() const { return sqlite3_last_insert_rowid(handle_); }
  int64_t changes() const { return sqlite3_changes64(handle_); }
  bool in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

  [[noreturn]] void fail() const;

 private:
  friend class Statement;
  std::string path_;
  sqlite3* handle_ = nullptr;
  std::multimap<std::string, sqlite3_stmt*, std::less<>> idle_;
};

// A write transaction; no effect inside another one. Rolled back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database& database_;
  bool outermost_;
};

}  // namespace fk
