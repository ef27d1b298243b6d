// Which runs an MLflow server has.
#include "track/sqlite/store_sqlite.h"

namespace fk {
namespace {

std::vector<std::string> texts(Statement s) {
  std::vector<std::string> all;
  while (s.step()) all.push_back(s.text());
  return all;
}

}  // namespace

std::vector<std::string> SqliteStore::unmirrored(std::string_view target) {
  return texts(
      database_.query("SELECT r.run_id FROM runs r LEFT JOIN mirrors m ON m.run = r.run AND m.target = ?"
                      " WHERE m.complete IS NOT 1 ORDER BY r.started_us, r.run",
                      target));
}

std::vector<std::string> SqliteStore::pending_mirrors(std::string_view target) {
  return texts(
      database_.query("SELECT r.run_id FROM mirrors m JOIN runs r USING (run) WHERE m.target = ? AND m.complete = 0"
                      " ORDER BY r.started_us, r.run",
                      target));
}

void SqliteStore::forget_mirrors(std::string_view target) {
  write([&] { database_.execute("DELETE FROM mirrors WHERE target = ?", target); });
}

std::string SqliteStore::mirror_id(std::string_view target, std::string_view run_id) {
  Statement s =
      database_.query("SELECT remote_id FROM mirrors WHERE target = ? AND run = ?", target, number_of(run_id));
  return s.step() ? s.text() : "";
}

void SqliteStore::set_mirror(std::string_view target, std::string_view run_id, std::string_view remote_id,
                             bool complete) {
  write([&] {
    database_.execute("INSERT OR REPLACE INTO mirrors (target, run, remote_id, complete) VALUES (?, ?, ?, ?)", target,
                      number_of(run_id), remote_id, complete);
  });
}

}  // namespace fk
