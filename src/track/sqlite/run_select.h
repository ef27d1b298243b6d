// A RunQuery as SQL: conditions on `runs AS r`; all values are bound, none is in the text.
#pragma once

#include <string>
#include <vector>

#include "track/sqlite/database.h"
#include "track/store.h"

namespace fk {

struct RunSelect {
  std::string where;                   // "1 AND ...", over r
  std::string order;                   // " ORDER BY ... LIMIT ? OFFSET ?"
  std::vector<SqlValue> values;        // of `where`
  std::vector<SqlValue> order_values;  // of `order`

  void bind_where(Statement& s) const {
    for (const SqlValue& v : values) s.bind(v);
  }
  void bind_order(Statement& s) const {
    for (const SqlValue& v : order_values) s.bind(v);
  }
};

RunSelect run_select(const RunQuery& query);  // throws UsageError for a filter that cannot be read

}  // namespace fk
