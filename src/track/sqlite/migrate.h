// Migrates a store of any earlier version to the current schema.
#pragma once

#include "track/sqlite/database.h"

namespace fk {

// The current version: the number of files in schema/.
int schema_version();
int schema_version_of(Database& database);

// Each step is one transaction that ends with its version number. Throws Error where the file belongs to another
// program, or to a newer fastkernels. `up_to`: stop at an older version (tests make old stores with it).
void migrate(Database& database, int up_to = schema_version());

}  // namespace fk
