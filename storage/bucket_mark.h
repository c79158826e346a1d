#pragma once

#include <string>

#include "absl/status/status.h"
#include "storage/objects/object_store.h"
#include "storage/store.h"

namespace tessera::storage {

/// Replaces no mark, but binds a place that has none where one is expected.
inline constexpr char kNoMark[] = "none";

/// Binds an object store to one database. Collections delete objects that have no row, so two databases on one bucket
/// would delete each other's objects. The object "marks/ID" or "marks/ID_ORIGIN" names the database by its random id
/// (the setting "id") and by what tells it from its copies (Store::origin).
///
/// A place without a mark gets this database's, unless the database has used an object store before, or the place has
/// objects and the database no blobs. FAILED_PRECONDITION if the place has the mark of another database, or of the one
/// that this database is a copy of, or has lost this database's mark; `replaces` names the mark (or kNoMark) that an
/// operator wants to be replaced. Safe for servers that start at once.
absl::Status bindObjects(Store& store, ObjectStore& objects, const std::string& replaces);

}  // namespace tessera::storage
