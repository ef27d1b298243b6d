// Records as SQL rows: lists of columns, reading and inserting, all made from track/record_fields.h.
#pragma once

#include <fmt/format.h>

#include "core/json.h"
#include "track/record_fields.h"
#include "track/sqlite/database.h"

namespace fk {

// "t.path, t.model, ...", made with an empty record.
struct ColumnNames {
  std::string prefix;
  std::string& list;
  template <class T>
  void operator()(const char* name, const T&) const {
    list += fmt::format("{}{}{}", list.empty() ? "" : ", ", prefix, name);
  }
};

template <class Record>
std::string own_columns(const char* prefix) {
  std::string list;
  Record none;
  own_fields(none, ColumnNames{prefix, list});
  return list;
}

// Fields from the columns of a row, left to right.
struct RowReader {
  Statement& s;
  void operator()(const char*, std::string& field) const { field = s.text(); }
  void operator()(const char*, int64_t& field) const { field = s.integer(); }
  void operator()(const char*, int& field) const { field = static_cast<int>(s.integer()); }
  void operator()(const char*, bool& field) const { field = s.integer() != 0; }
  void operator()(const char*, double& field) const { field = s.real(); }
  void operator()(const char*, std::optional<double>& field) const { field = s.maybe_real(); }
  void operator()(const char*, std::optional<int64_t>& field) const { field = s.maybe_integer(); }
  void operator()(const char* name, Json& field) const { field = parse_json(s.text(), name); }
  void operator()(const char* name, std::vector<std::string>& field) const {
    field = parse_json(s.text(), name).get<std::vector<std::string>>();
  }
};

// Binds the fields of a record, lists and objects as JSON text.
struct RowBinder {
  Statement& s;
  template <class T>
  void operator()(const char*, const T& field) const {
    if constexpr (std::same_as<T, Json> || std::same_as<T, std::vector<std::string>>)
      s.bind(dump_json(Json(field), -1));
    else
      s.bind(field);
  }
};

// `fields(v)` visits what is stored besides the column `key`. The text is the same for every record of a kind.
template <class Fields>
void insert_row(Database& database, const char* insert_into, const char* key, const SqlValue& key_value,
                const Fields& fields) {
  std::string columns = key, marks = "?";
  fields(ColumnNames{"", columns});
  for (char c : columns)
    if (c == ',') marks += ", ?";
  Statement s = database.prepare(fmt::format("{} ({}) VALUES ({})", insert_into, columns, marks));
  s.bind(key_value);
  fields(RowBinder{s});
  s.run();
}

template <class Record>
void insert_own(Database& database, const char* insert_into, int64_t run, const Record& record) {
  insert_row(database, insert_into, "run", run, [&](const auto& v) { own_fields(record, v); });
}

}  // namespace fk
