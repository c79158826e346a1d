#include "storage/transfer_tables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr int kPageRows = 200;
constexpr int64_t kCommitRows = 500, kCommitBytes = 8 << 20;

/// From "key key | column:i column:b ...". Without a type a column is a text; "rowid:#" is an identity.
CopiedTable table(std::string name, const std::string& keys, const std::string& others) {
  CopiedTable table{.name = std::move(name), .columns = {}, .keys = 0};
  for (const std::string& text : {keys, others}) {
    const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipEmpty());
    for (const std::string& word : words) {
      const std::vector<std::string> parts = absl::StrSplit(word, ':');
      const char type = parts.size() == 1 ? 't' : parts[1][0];
      table.columns.push_back({parts[0], type == '#' ? 'i' : type, type == '#'});
    }
    if (table.keys == 0) table.keys = table.columns.size();
  }
  return table;
}

std::string names(const CopiedTable& table, size_t first, size_t end, const std::string& separator,
                  const std::function<std::string(const std::string& name)>& text) {
  std::vector<std::string> parts;
  for (size_t i = first; i < end; ++i) parts.push_back(text(table.columns[i].name));
  return absl::StrJoin(parts, separator);
}

std::string asName(const std::string& name) { return name; }
std::string asParameter(const std::string&) { return "?"; }

void bindTo(Statement& statement, char type, const std::optional<Value>& value) {
  if (!value) {
    statement.bindNull();
  } else if (type == 'b') {
    statement.bindBlob(std::get<std::string>(*value));
  } else {
    statement.bind(*value);
  }
}

}  // namespace

const std::vector<CopiedTable>& copiedTables() {
  static const auto* all = new std::vector<CopiedTable>{
      table("settings", "name", "value:b"),
      table("actions", "id", "key state:i create_time:i body:b"),
      table("action_components", "component create_time:i action_id", ""),
      table("jobs", "id",
            "rowid:# request_id request_hash action_id state:i kind:i target name action_key cached:i priority:i "
            "create_time:i end_time:i queue_deadline:i deadline:i project labels body:b"),
      table("events", "job_id sequence:i", "body:b"),
      table("tasks", "id",
            "rowid:# key state:i kind:i priority:i turn:i ready_time:i starting:i project worker create_time:i target "
            "body:b"),
      table("task_parts", "task_id part:i", "body:b"),
      table("action_tasks", "position:#", "action_id task_id"),
      table("search_log", "search_id number:i", "body:b"),
      table("artifact_series", "job_id", "body:b"),
      table("artifact_versions", "job_id number:i", "body:b"),
      table("artifacts", "id", "artifact name target model job create_time:i project last_use:i body:b"),
      table("artifact_keys", "action_key", "artifact_id create_time:i"),
      table("objects", "build_key", "sha256 size:i last_use:i"),
      table("blobs", "sha256", "size:i last_use:i lost:i"),
      table("blob_bytes", "sha256", "size:i time_s:i bytes:b"),
      table("blob_holders", "project sha256", "size:i last_use:i"),
      table("reproductions", "key", "object body:b"),
      table("records", "id",
            "workload summary operators target chip host job artifact mode method outcome:i validation threads:i "
            "trial:i median_ms:r speed:r create_time:i project failed:i content body:b"),
      table("targets", "name", "target summary family:i project body:b"),
      table("workers", "id", "state:i host compiler_version last_seen_time:i body:b"),
      table("tokens", "id", "sha256 body:b"),
      table("pins", "kind:i id", ""),
      table("queue_turns", "priority:i client", "turn:i"),
      table("queue_heads", "priority:i", "turn:i"),
      // Last: triggers change it with the others.
      table("project_usage", "project", "queued:i running:i blobs:i bytes:i"),
  };
  return *all;
}

TableReader::TableReader(Database& database, const CopiedTable& table, const std::set<std::string>& skipped)
    : database_(database), table_(table), skipped_(skipped) {
  const std::string keys = names(table, 0, table.keys, ", ", asName);
  const std::string head =
      absl::StrCat("SELECT ", names(table, 0, table.columns.size(), ", ", asName), " FROM ", table.name);
  const std::string tail = absl::StrCat(" ORDER BY ", keys, " LIMIT ", kPageRows);
  first_sql_ = head + tail;
  next_sql_ = absl::StrCat(head, " WHERE (", keys, ") > (", names(table, 0, table.keys, ", ", asParameter), ")", tail);
}

absl::StatusOr<bool> TableReader::next() {
  while (true) {
    ++at_;
    if (at_ >= page_.size()) {
      if (last_) return false;
      TESSERA_RETURN_IF_ERROR(readPage());
      if (page_.empty()) return false;
    }
    const auto* name = std::get_if<std::string>(&*row().front());
    if (name == nullptr || !skipped_.contains(*name)) return true;
  }
}

absl::Status TableReader::readPage() {
  const CopiedRow after =
      begun_ ? CopiedRow(page_.back().begin(), page_.back().begin() + static_cast<std::ptrdiff_t>(table_.keys))
             : CopiedRow();
  Statement rows = database_.prepareOnce(begun_ ? next_sql_ : first_sql_);
  for (size_t i = 0; i < after.size(); ++i) bindTo(rows, table_.columns[i].type, after[i]);
  page_.clear();
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(const bool found, rows.step());
    if (!found) break;
    CopiedRow row;
    for (size_t i = 0; i < table_.columns.size(); ++i) {
      const int column = static_cast<int>(i);
      if (rows.isNull(column)) {
        row.emplace_back();
      } else if (table_.columns[i].type == 'i') {
        row.emplace_back(rows.integer(column));
      } else if (table_.columns[i].type == 'r') {
        row.emplace_back(rows.real(column));
      } else {
        row.emplace_back(std::string(rows.bytes(column)));
      }
    }
    page_.push_back(std::move(row));
  }
  begun_ = true;
  last_ = page_.size() < kPageRows;
  at_ = 0;
  return absl::OkStatus();
}

absl::Status TableWriter::put(const CopiedTable& table, const CopiedRow& row, bool exists) {
  // Without a unique index, SQLite accepts no ON CONFLICT.
  if (exists && table.name == "blob_bytes") {
    TESSERA_RETURN_IF_ERROR(
        erase(table, CopiedRow(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(table.keys))));
    exists = false;
  }
  const size_t columns = table.columns.size();
  bool has_identity = false;
  std::vector<std::string> changes;
  for (size_t i = 0; i < columns; ++i) {
    has_identity = has_identity || table.columns[i].identity;
    const std::string& name = table.columns[i].name;
    if (i >= table.keys && !table.columns[i].identity) changes.push_back(absl::StrCat(name, " = excluded.", name));
  }
  const std::string keys = names(table, 0, table.keys, ", ", asName);
  return run(absl::StrCat(
                 "INSERT INTO ", table.name, " (", names(table, 0, columns, ", ", asName), ")",
                 postgres_ && has_identity ? " OVERRIDING SYSTEM VALUE" : "", " VALUES (",
                 names(table, 0, columns, ", ", asParameter), ")",
                 !exists ? "" : absl::StrCat(" ON CONFLICT (", keys, ") DO UPDATE SET ", absl::StrJoin(changes, ", "))),
             table, row);
}

absl::Status TableWriter::erase(const CopiedTable& table, const CopiedRow& key) {
  return run(absl::StrCat("DELETE FROM ", table.name, " WHERE ",
                          names(table, 0, table.keys, " AND ", [](const std::string& name) { return name + " = ?"; })),
             table, key);
}

absl::Status TableWriter::run(const std::string& sql, const CopiedTable& table, const CopiedRow& row) {
  if (pending_rows_ == 0) TESSERA_RETURN_IF_ERROR(database_.begin());
  // Prepared once: the connection caches statements by their address, and these strings stay for the process.
  static auto* const kept = new std::set<std::string>();
  Statement statement = database_.prepare(kept->insert(sql).first->c_str());
  for (size_t i = 0; i < row.size(); ++i) {
    bindTo(statement, table.columns[i].type, row[i]);
    if (const auto* text = row[i] ? std::get_if<std::string>(&*row[i]) : nullptr) {
      pending_bytes_ += static_cast<int64_t>(text->size());
    }
  }
  TESSERA_RETURN_IF_ERROR(statement.run());
  ++pending_rows_;
  return pending_rows_ < kCommitRows && pending_bytes_ < kCommitBytes ? absl::OkStatus() : flush();
}

absl::Status TableWriter::flush() {
  if (pending_rows_ == 0) return absl::OkStatus();
  pending_rows_ = pending_bytes_ = 0;
  return database_.commit();
}

}  // namespace tessera::storage
