#include "storage/transfer.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/private_folder.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/blob_store.h"
#include "storage/blobs_place.h"
#include "storage/bucket_mark.h"
#include "storage/file_lock.h"
#include "storage/file_system.h"
#include "storage/open_objects.h"
#include "storage/postgres/database.h"
#include "storage/postgres_store.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite/migrations.h"
#include "storage/sqlite_store.h"
#include "storage/transfer_blobs.h"
#include "storage/transfer_tables.h"

namespace tessera::storage {
namespace {

namespace fs = std::filesystem;

/// The setting of a target whose transfer is not complete: the identity of the source.
constexpr char kTransferSetting[] = "transfer";
/// Of one database only: its identity, its bucket's mark, the key of its page tokens, and the setting above.
const std::set<std::string>& ownSettings() {
  static const auto* own = new std::set<std::string>{"id", "blobs_mark", "token_key", kTransferSetting};
  return *own;
}
const std::set<std::string>& skippedKeys(const CopiedTable& table) {
  static const auto* none = new std::set<std::string>();
  return table.name == "settings" ? ownSettings() : *none;
}

constexpr std::chrono::seconds kLockPatience{10};
constexpr int64_t kProgressRows = 1000;

/// One side of a transfer.
struct Side {
  DataPlace place;
  bool postgres = false;
  bool used = false;             ///< a service uses it
  std::unique_ptr<Store> store;  ///< of a folder it holds the lock; null if the folder is in use

  std::string path() const { return (fs::path(place.store) / "tessera.db").string(); }
  std::string blobsFolder() const { return (fs::path(place.store) / "blobs").string(); }
  absl::StatusOr<std::unique_ptr<Database>> connect(bool writes) const {
    if (postgres) {
      PostgresLimits limits;
      limits.idle = std::chrono::hours(1);  // one side's transaction waits while the other side is read or written
      return PostgresDatabase::open(place.store,
                                    writes ? PostgresDatabase::Mode::kWrites : PostgresDatabase::Mode::kReads, limits);
    }
    TESSERA_ASSIGN_OR_RETURN(auto database, SqliteDatabase::open(path(), writes ? SqliteDatabase::Mode::kReadWriteCreate
                                                                                : SqliteDatabase::Mode::kReadOnly));
    database->setBusyTimeout(kLockPatience);
    return database;
  }
};

absl::StatusOr<std::string> firstValue(const Side& side, const char* sql) {
  TESSERA_ASSIGN_OR_RETURN(const auto database, side.connect(false));
  TESSERA_RETURN_IF_ERROR(database->begin());
  std::string value;
  {
    Statement row = database->prepareOnce(sql);
    TESSERA_ASSIGN_OR_RETURN(const bool found, row.step());
    if (found) value = std::string(row.bytes(0));
  }
  database->rollback();
  return value;
}

/// Servers that have sent a heartbeat lately, and the time of the last heartbeat.
absl::StatusOr<std::pair<int64_t, std::string>> serversOn(const Side& side) {
  TESSERA_ASSIGN_OR_RETURN(const std::string count,
                           firstValue(side, "SELECT count(*)::text FROM servers WHERE seen > now() - interval '5 s'"));
  TESSERA_ASSIGN_OR_RETURN(const std::string last,
                           firstValue(side, "SELECT coalesce(max(seen)::text, '') FROM servers"));
  return std::pair(std::stoll(count), last);
}

absl::Status checkPlaces(const DataPlace& from, const DataPlace& to) {
  if (isPostgresUri(from.store) == isPostgresUri(to.store)) {
    return absl::InvalidArgumentError(
        "one of the two places must be a data folder and the other one a PostgreSQL database; copy a folder with "
        "`tessera admin backup`, and a database with pg_dump and its bucket with the tools of the object store");
  }
  for (const DataPlace& place : {from, to}) {
    if (isPostgresUri(place.store) && place.blobs.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("name the object store of the database as well: --blobs or --blobs-from, a bucket (s3://...) or "
                       "an absolute path"));
    }
    if (isPostgresUri(place.store)) TESSERA_RETURN_IF_ERROR(checkObjectsPlace(place.blobs));
    if (!isPostgresUri(place.store) && !place.blobs.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the blobs of a data folder are in it: leave out ", place.blobs));
    }
  }
  return absl::OkStatus();
}

/// A folder must contain its blobs, not only cache those of an object store.
absl::Status checkOwnBlobs(const Side& side) {
  TESSERA_ASSIGN_OR_RETURN(const std::string blobs, readBlobsPlace(side.blobsFolder(), systemFiles()));
  if (blobs.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(side.place.store, " has its blobs in ", blobs,
                   ", not in the folder itself; copy the folder and the bucket with the tools of the object store"));
}

absl::StatusOr<Side> openSource(const DataPlace& place) {
  Side side{.place = place, .postgres = isPostgresUri(place.store), .store = nullptr};
  if (side.postgres) {
    TESSERA_ASSIGN_OR_RETURN(side.store, openPostgresStore(place.store));
    TESSERA_ASSIGN_OR_RETURN(const auto servers, serversOn(side));
    side.used = servers.first > 0;
    return side;
  }
  if (!fs::exists(side.path())) {
    return absl::NotFoundError(absl::StrCat(place.store, " is no data folder: it has no tessera.db"));
  }
  TESSERA_RETURN_IF_ERROR(checkOwnBlobs(side));
  side.used = absl::IsFailedPrecondition(FileLock::take(side.path() + ".lock").status());
  if (!side.used) {
    TESSERA_ASSIGN_OR_RETURN(side.store, openSqliteStore(side.path()));
    return side;
  }
  TESSERA_ASSIGN_OR_RETURN(const std::string schema, firstValue(side, "SELECT max(version) || '' FROM schema_version"));
  if (schema != absl::StrCat(migrations().back().version)) {
    return absl::FailedPreconditionError(absl::StrCat("the service on ", place.store, " is of another release (schema ",
                                                      schema, " instead of ", migrations().back().version,
                                                      "); stop it, or upgrade it to this release first"));
  }
  return side;
}

absl::StatusOr<Side> openTarget(const DataPlace& place) {
  Side side{.place = place, .postgres = isPostgresUri(place.store), .store = nullptr};
  if (side.postgres) {
    TESSERA_ASSIGN_OR_RETURN(side.store, openPostgresStore(place.store));
    TESSERA_ASSIGN_OR_RETURN(const auto servers, serversOn(side));
    if (servers.first > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(servers.first,
                       " servers use the target; stop them. If they have their own data there, name another database"));
    }
    return side;
  }
  TESSERA_RETURN_IF_ERROR(createPrivateFolder(place.store, {"tessera.db", "blobs", "signing.key"}));
  TESSERA_RETURN_IF_ERROR(checkOwnBlobs(side));
  TESSERA_ASSIGN_OR_RETURN(side.store, openSqliteStore(side.path()));
  return side;
}

/// Checks that the target may take the source's data: it is empty, or has an incomplete copy of it. Marks it. Returns
/// whether it was empty.
absl::StatusOr<bool> claimTarget(const Side& source, const Side& target) {
  // The key of page tokens is random in each database.
  TESSERA_ASSIGN_OR_RETURN(const std::string key,
                           firstValue(source, "SELECT value FROM settings WHERE name = 'token_key'"));
  const std::string identity = sha256Hex(key).substr(0, 16);
  std::string begun;
  TESSERA_RETURN_IF_ERROR(target.store->read([&](Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(begun, reader.setting(kTransferSetting));
    return absl::OkStatus();
  }));
  if (begun == identity) return false;
  if (!begun.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(target.place.store, " has an incomplete copy of other data; name an empty place"));
  }
  TESSERA_ASSIGN_OR_RETURN(const auto database, target.connect(false));
  TESSERA_RETURN_IF_ERROR(database->begin());
  for (const CopiedTable& table : copiedTables()) {
    if (table.name == "project_usage") continue;  // a new database has a row of it
    TableReader rows(*database, table, skippedKeys(table));
    TESSERA_ASSIGN_OR_RETURN(const bool any, rows.next());
    if (any) {
      return absl::FailedPreconditionError(absl::StrCat(target.place.store, " has data already (table ", table.name,
                                                        "); name an empty database or a new folder"));
    }
  }
  database->rollback();
  TESSERA_RETURN_IF_ERROR(
      target.store->transact([&](Transaction& tx) { return tx.putSetting(kTransferSetting, identity); }));
  return true;
}

void addTo(Sha256& hash, const CopiedTable& table, const CopiedRow& row) {
  hash.update(absl::StrCat(table.name, " ", row.size(), "\n"));
  for (const auto& value : row) {
    const std::string text =
        !value ? std::string()
               : std::visit(
                     [](const auto& alternative) {
                       using T = std::decay_t<decltype(alternative)>;
                       if constexpr (std::is_same_v<T, std::string>) {
                         return alternative;
                       } else {
                         return std::string(reinterpret_cast<const char*>(&alternative), sizeof(alternative));
                       }
                     },
                     *value);
    hash.update(absl::StrCat(value ? value->index() + 1 : 0, " ", text.size(), "\n"));
    hash.update(text);
  }
}

/// The rows of both sides.
class RowTransfer {
 public:
  RowTransfer(const Side& source, const Side& target, const std::set<std::string>& missing,
              const TransferProgress& progress, TransferStats& stats)
      : source_(source), target_(target), missing_(missing), progress_(progress), stats_(stats) {}

  /// Makes the target's rows equal to the source's.
  absl::Status copy(bool fresh) {
    TESSERA_ASSIGN_OR_RETURN(const auto from, source_.connect(false));
    TESSERA_RETURN_IF_ERROR(from->begin());
    TESSERA_ASSIGN_OR_RETURN(const auto to, target_.connect(true));
    TableWriter writer(*to, target_.postgres);
    // Rows that refer to others go first.
    for (const CopiedTable& table : std::views::reverse(copiedTables())) {
      if (fresh) break;
      TESSERA_RETURN_IF_ERROR(compare(
          *from, table, nullptr, [](const CopiedRow&, bool) { return absl::OkStatus(); },
          [&](const CopiedRow& key) {
            ++stats_.rows_erased;
            return writer.erase(table, key);
          }));
      TESSERA_RETURN_IF_ERROR(writer.flush());
    }
    stats_.rows = 0;
    for (const CopiedTable& table : copiedTables()) {
      TESSERA_RETURN_IF_ERROR(compare(
          *from, table, nullptr,
          [&](const CopiedRow& row, bool exists) {
            ++stats_.rows_written;
            return writer.put(table, row, exists);
          },
          // A trigger has added it.
          [&](const CopiedRow& key) { return writer.erase(table, key); }));
      TESSERA_RETURN_IF_ERROR(writer.flush());
    }
    from->rollback();
    if (!target_.postgres) return absl::OkStatus();
    auto& postgres = static_cast<PostgresDatabase&>(*to);
    const std::vector<std::pair<const char*, const char*>> identities = {
        {"jobs", "rowid"}, {"tasks", "rowid"}, {"action_tasks", "position"}};
    for (const auto& [table, column] : identities) {
      TESSERA_RETURN_IF_ERROR(
          postgres
              .answer(absl::StrCat("SELECT setval(pg_get_serial_sequence('", table, "', '", column,
                                   "'), (SELECT coalesce(max(", column, "), 0) + 1 FROM ", table, "), false)"))
              .status());
    }
    return absl::OkStatus();
  }

  /// DATA_LOSS if a row differs. Returns the digest of the target's rows.
  absl::StatusOr<std::string> verify() {
    TESSERA_ASSIGN_OR_RETURN(const auto from, source_.connect(false));
    TESSERA_RETURN_IF_ERROR(from->begin());
    Sha256 hash;
    stats_.rows = 0;
    for (const CopiedTable& table : copiedTables()) {
      const auto differs = [&](const CopiedRow& row) {
        const auto* name = std::get_if<std::string>(&*row.front());
        return absl::DataLossError(absl::StrCat("table ", table.name, ", row ", name != nullptr ? *name : "",
                                                " differs in the target after it was copied; run the command again"));
      };
      TESSERA_RETURN_IF_ERROR(
          compare(*from, table, &hash, [&](const CopiedRow& row, bool) { return differs(row); }, differs));
    }
    return hash.finish();
  }

 private:
  absl::Status compare(Database& from, const CopiedTable& table, Sha256* hash,
                       const std::function<absl::Status(const CopiedRow& row, bool exists)>& put,
                       const std::function<absl::Status(const CopiedRow& key)>& erase) {
    // A snapshot of its own for each table, because triggers change other tables.
    TESSERA_ASSIGN_OR_RETURN(const auto to, target_.connect(false));
    TESSERA_RETURN_IF_ERROR(to->begin());
    TableReader wanted(from, table, skippedKeys(table)), present(*to, table, skippedKeys(table));
    TESSERA_ASSIGN_OR_RETURN(bool has_wanted, wanted.next());
    TESSERA_ASSIGN_OR_RETURN(bool has_present, present.next());
    while (has_wanted || has_present) {
      const bool both = has_wanted && has_present && wanted.key() == present.key();
      if (!has_wanted || (!both && has_present && present.key() < wanted.key())) {
        TESSERA_RETURN_IF_ERROR(erase(present.key()));
        TESSERA_ASSIGN_OR_RETURN(has_present, present.next());
        continue;
      }
      const CopiedRow row = rowFor(table, wanted.row());
      if (!both || row != present.row()) TESSERA_RETURN_IF_ERROR(put(row, both));
      if (hash != nullptr) addTo(*hash, table, row);
      if (++stats_.rows % kProgressRows == 0) progress_("rows", stats_.rows, 0);
      TESSERA_ASSIGN_OR_RETURN(has_wanted, wanted.next());
      if (both) {
        TESSERA_ASSIGN_OR_RETURN(has_present, present.next());
      }
    }
    to->rollback();
    return absl::OkStatus();
  }

  /// A blob whose bytes the source has lost is lost in the target as well.
  CopiedRow rowFor(const CopiedTable& table, CopiedRow row) const {
    if (table.name == "blobs" && missing_.contains(std::get<std::string>(*row.front()))) row.back() = int64_t{1};
    return row;
  }

  const Side& source_;
  const Side& target_;
  const std::set<std::string>& missing_;
  const TransferProgress& progress_;
  TransferStats& stats_;
};

/// The blobs outside of the database, sorted by digest.
absl::StatusOr<std::vector<v1::Digest>> blobsOf(const Side& side) {
  constexpr int kPage = 1000;
  TESSERA_ASSIGN_OR_RETURN(const auto database, side.connect(false));
  TESSERA_RETURN_IF_ERROR(database->begin());
  std::vector<v1::Digest> blobs;
  for (int found = kPage; found == kPage;) {
    found = 0;
    Statement rows = database->prepareOnce(absl::StrCat(
        "SELECT sha256, size FROM blobs WHERE sha256 > ? AND lost = 0 AND NOT EXISTS (SELECT 1 FROM blob_bytes WHERE "
        "blob_bytes.sha256 = blobs.sha256) ORDER BY sha256 LIMIT ",
        kPage));
    rows.bind(blobs.empty() ? std::string() : blobs.back().sha256());
    while (true) {
      TESSERA_ASSIGN_OR_RETURN(const bool more, rows.step());
      if (!more) break;
      ++found;
      blobs.emplace_back().set_sha256(std::string(rows.bytes(0)));
      blobs.back().set_size_bytes(rows.integer(1));
    }
  }
  database->rollback();
  return blobs;
}

}  // namespace

absl::StatusOr<TransferStats> transfer(const DataPlace& from, const DataPlace& to, const TransferProgress& progress,
                                       const std::function<absl::Status()>& finish) {
  TESSERA_RETURN_IF_ERROR(checkPlaces(from, to));
  TESSERA_ASSIGN_OR_RETURN(const Side source, openSource(from));
  TESSERA_ASSIGN_OR_RETURN(const Side target, openTarget(to));
  TESSERA_ASSIGN_OR_RETURN(const bool fresh, claimTarget(source, target));
  TransferStats stats;
  std::string last_heartbeat;
  if (source.postgres) {
    TESSERA_ASSIGN_OR_RETURN(const auto servers, serversOn(source));
    last_heartbeat = servers.second;
  }

  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Digest> blobs, blobsOf(source));
  stats.blobs = static_cast<int64_t>(blobs.size());
  for (const v1::Digest& blob : blobs) stats.bytes += blob.size_bytes();
  const Side& shared = source.postgres ? source : target;
  TESSERA_ASSIGN_OR_RETURN(const auto objects, openObjects(shared.place.blobs, source.postgres));
  TESSERA_RETURN_IF_ERROR(bindObjects(*shared.store, *objects, ""));
  const std::string folder = (source.postgres ? target : source).blobsFolder();
  BlobTransfer copies(blobs, *objects, folder, progress, stats);
  TESSERA_ASSIGN_OR_RETURN(const std::set<std::string> missing, source.postgres ? copies.fetch() : copies.store());
  stats.blobs_missing = static_cast<int64_t>(missing.size());

  RowTransfer rows(source, target, missing, progress, stats);
  TESSERA_RETURN_IF_ERROR(rows.copy(fresh));
  if (source.used) return stats;

  TESSERA_ASSIGN_OR_RETURN(stats.digest, rows.verify());
  TESSERA_RETURN_IF_ERROR(source.postgres ? copies.verifyFolder(missing) : copies.verifyObjects(missing));
  if (source.postgres) {
    TESSERA_ASSIGN_OR_RETURN(const auto servers, serversOn(source));
    if (servers.first > 0 || servers.second != last_heartbeat) {
      return absl::AbortedError(
          "a server has started on the source during the copy; stop it and run the command again");
    }
  }
  if (finish) TESSERA_RETURN_IF_ERROR(finish());
  TESSERA_RETURN_IF_ERROR(target.store->transact([](Transaction& tx) { return tx.putSetting(kTransferSetting, ""); }));
  stats.complete = true;
  return stats;
}

absl::Status checkTransferred(Store& store) {
  std::string begun;
  TESSERA_RETURN_IF_ERROR(store.read([&](Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(begun, reader.setting(kTransferSetting));
    return absl::OkStatus();
  }));
  if (begun.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "`tessera admin migrate` has begun to copy other data here and is not complete; stop the service on the source "
      "and "
      "run that command again, until it says that the copy is complete");
}

}  // namespace tessera::storage
