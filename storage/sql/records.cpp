// The tuning database in SQLite.
#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/columns.h"
#include "storage/filter_sql.h"
#include "storage/record_properties.h"
#include "storage/record_query.h"
#include "storage/sql/queries.h"
#include "storage/sql/rows.h"
#include "storage/sql/transaction.h"

namespace tessera::storage {
namespace {

absl::StatusOr<std::optional<GroupKey>> nextGroup(Database& database, const GroupKey& behind) {
  Statement statement = database.prepare(sql::kNextRecordGroup);
  TESSERA_ASSIGN_OR_RETURN(bool row, statement.bind(behind.project)
                                         .bind(behind.workload)
                                         .bind(behind.target)
                                         .bind(behind.chip)
                                         .bind(behind.threads)
                                         .step());
  if (!row) return std::nullopt;
  return GroupKey{std::string(statement.bytes(0)), std::string(statement.bytes(1)), std::string(statement.bytes(2)),
                  std::string(statement.bytes(3)), statement.integer(4)};
}

absl::StatusOr<std::vector<v1::TuningRecord>> bestOf(Database& database, const GroupKey& group, int top) {
  return allMessages<v1::TuningRecord>(std::move(database.prepare(sql::kBestRecords)
                                                     .bind(group.project)
                                                     .bind(group.workload)
                                                     .bind(group.target)
                                                     .bind(group.chip)
                                                     .bind(group.threads)
                                                     .bind(top)));
}

/// Binds the columns of a record in the order of kPutRecord.
absl::Status putColumns(Database& database, v1::TuningRecord record) {
  Statement statement = database.prepare(sql::kPutRecord);
  for (const Value& value : columnsOf(record)) statement.bind(value);
  return statement.bind(failed(record) ? 1 : 0).bind(contentHashOf(record)).bindBlob(record.SerializeAsString()).run();
}

absl::StatusOr<bool> isKnown(Database& database, const v1::TuningRecord& record, const std::string& content) {
  // Two indexes serve this lookup. Without a time, the indexed columns of the measurement narrow the search before
  // content hashes are compared.
  if (record.create_time_us() > 0) {
    return database.prepare(sql::kRecordByContent)
        .bind(projectOf(record))
        .bind(record.create_time_us())
        .bind(content)
        .step();
  }
  return database.prepare(sql::kTimelessRecordByContent)
      .bind(projectOf(record))
      .bind(record.workload_hash())
      .bind(record.target_name())
      .bind(record.median_ms())
      .bind(content)
      .step();
}

}  // namespace

template <typename Interface>
absl::StatusOr<v1::TuningRecord> SqlReader<Interface>::getRecord(const std::string& id) {
  return oneMessage<v1::TuningRecord>(std::move(database_.prepare(sql::kRecord).bind(id)),
                                      absl::StrCat("record \"", id, "\""));
}

template <typename Interface>
absl::StatusOr<Page<BestGroup>> SqlReader<Interface>::bestRecords(const BestQuery& query) {
  return walkGroups(
      query, token_key_, [&](const GroupKey& behind) { return nextGroup(database_, behind); },
      [&](const GroupKey& group, int top) { return bestOf(database_, group, top); });
}

template <typename Interface>
absl::StatusOr<std::vector<RecordGroup>> SqlReader<Interface>::recordStatistics(const std::string& project,
                                                                                const std::string& filter,
                                                                                const std::string& group_by,
                                                                                int limit) {
  TESSERA_ASSIGN_OR_RETURN(const Field* field, groupField(group_by));
  TESSERA_ASSIGN_OR_RETURN(Condition condition, compileFilter(filter, recordEntity()));
  restrictTo(project, recordEntity(), condition);
  const std::string column = field == nullptr ? "('' || '')" : field->column();  // PostgreSQL groups by no literal
  Statement statement = database_.prepareOnce(absl::StrCat(
      "SELECT ", column, ", count(*), sum(failed), count(DISTINCT workload), ",
      "coalesce(min(CASE WHEN failed = 0 AND median_ms > 0 THEN median_ms END), 0.0), max(speed), min(create_time), "
      "max(create_time) FROM records WHERE ",
      condition.sql, " GROUP BY ", column, " ORDER BY count(*) DESC, ", column, " LIMIT ?"));
  for (const Value& value : condition.values) statement.bind(value);
  statement.bind(limit);
  std::vector<RecordGroup> groups;
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, statement.step());
    if (!row) return groups;
    groups.push_back({groupText(field, statement.value(0)), statement.integer(1), statement.integer(2),
                      statement.integer(3), statement.real(4), statement.real(5), statement.integer(6),
                      statement.integer(7)});
  }
}

template absl::StatusOr<v1::TuningRecord> SqlReader<Reader>::getRecord(const std::string&);
template absl::StatusOr<v1::TuningRecord> SqlReader<Transaction>::getRecord(const std::string&);
template absl::StatusOr<Page<BestGroup>> SqlReader<Reader>::bestRecords(const BestQuery&);
template absl::StatusOr<Page<BestGroup>> SqlReader<Transaction>::bestRecords(const BestQuery&);
template absl::StatusOr<std::vector<RecordGroup>> SqlReader<Reader>::recordStatistics(const std::string&,
                                                                                      const std::string&,
                                                                                      const std::string&, int);
template absl::StatusOr<std::vector<RecordGroup>> SqlReader<Transaction>::recordStatistics(const std::string&,
                                                                                           const std::string&,
                                                                                           const std::string&, int);

absl::Status SqlTransaction::putRecord(const v1::TuningRecord& record) {
  if (record.id().empty()) return absl::InvalidArgumentError("TuningRecord.id is empty; every stored entity needs one");
  return putColumns(database_, completed(record));
}

absl::StatusOr<bool> SqlTransaction::mergeRecord(v1::TuningRecord record) {
  const std::string content = contentHash(record);
  TESSERA_ASSIGN_OR_RETURN(bool known, isKnown(database_, record, content));
  if (known) return false;
  TESSERA_ASSIGN_OR_RETURN(bool taken, database_.prepare(sql::kRecord).bind(record.id()).step());
  if (record.id().empty() || taken) record.set_id(idOfMerged(projectOf(record), content));
  TESSERA_RETURN_IF_ERROR(putColumns(database_, completed(std::move(record))));
  return true;
}

}  // namespace tessera::storage
