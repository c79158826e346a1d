#pragma once

#include <string>

#include "absl/status/status.h"
#include "storage/objects/object_store.h"
#include "storage/store.h"

namespace tessera::storage {

/// Replaces no mark, but binds a place that has none where one is expected.
inline constexpr char kNoMark[] = "none";

/// Binds an object store to one database. Collections delete objects that have no row, so two databases on one bucket
/// would delete each other's objects. The mark is an object called "marks/ID" or "marks/ID_ORIGIN": ID is the random id
/// of the database (the setting "id"), ORIGIN distinguishes the database from its copies (Store::origin).
///
/// An object store without a mark gets the mark of this database. Three cases are refused with FAILED_PRECONDITION:
/// - the store has the mark of another database, or of the database from which this one was copied;
/// - this database has used an object store before, and the mark is missing (the wrong bucket, or an emptied one);
/// - the store holds objects and this database has no blobs.
/// `replaces` is the mark (or kNoMark) that the operator wants to replace. Several servers may call this at once.
absl::Status bindObjects(Store& store, ObjectStore& objects, const std::string& replaces);

}  // namespace tessera::storage
