#include "track/sqlite/migrate.h"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace fk {

extern const std::span<const std::pair<std::string_view, std::string_view>> kStoreSchema;  // schema/*.sql by name

namespace {

// Stored in the header of the SQLite file to identify it as ours: "fkhs".
constexpr int64_t kApplicationId = 0x666b6873;

}  // namespace

int schema_version() { return static_cast<int>(kStoreSchema.size()); }

int schema_version_of(Database& database) {
  Statement s = database.query("PRAGMA user_version");
  s.step();
  return static_cast<int>(s.integer());
}

void migrate(Database& database, int up_to) {
  auto number = [&](const char* sql) {
    Statement s = database.query(sql);
    return s.step() ? s.integer() : 0;
  };
  if (number("PRAGMA application_id") != kApplicationId && number("SELECT count(*) FROM sqlite_schema") > 0)
    throw Error("{} is the database of another program; name another with --db.", database.path());
  if (int found = schema_version_of(database); found > schema_version())
    throw Error("The history {} was written by a newer fastkernels (schema {}, this one knows {}); update this one.",
                database.path(), found, schema_version());
  while (schema_version_of(database) < up_to) {
    Transaction step(database);
    int version = schema_version_of(database);  // again: another process may have migrated it
    if (version >= up_to) break;
    database.execute_script(std::string(kStoreSchema[static_cast<size_t>(version)].second));
    database.execute_script(
        fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", kApplicationId, version + 1));
    step.commit();
  }
}

}  // namespace fk
