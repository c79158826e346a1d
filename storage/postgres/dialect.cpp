#include "storage/postgres/dialect.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "storage/sql/queries.h"

namespace tessera::storage {
namespace {

/// Statements on tables that differ from SQLite's: waiting and leased tasks are found in `task_queue`.
const std::map<std::string_view, std::string_view>& replacements() {
  static const auto* all = new std::map<std::string_view, std::string_view>{
      {sql::kReadyTasks,
       "SELECT t.body, q.priority, q.turn, q.ready_time, q.rowid FROM task_queue q JOIN tasks t ON t.id = q.id WHERE "
       "q.state = 1 AND q.kind = ? AND q.priority <= ? ORDER BY q.priority DESC, q.turn, q.ready_time, q.rowid"},
      {sql::kReadyOfProject,
       "SELECT t.body, q.priority, q.turn, q.ready_time, q.rowid FROM task_queue q JOIN tasks t ON t.id = q.id WHERE "
       "q.state = 1 AND q.kind = ? AND q.starting = ? AND q.project = ? AND q.priority <= ? ORDER BY q.priority DESC, "
       "q.turn, q.ready_time, q.rowid"},
      {sql::kNextReadyProject,
       "SELECT project FROM task_queue WHERE state = 1 AND kind = ? AND starting = ? AND project > ? ORDER BY project "
       "LIMIT 1"},
      {sql::kNextReadyPriority,
       "SELECT priority, ready_time FROM task_queue WHERE state = 1 AND kind = ? AND starting = ? AND project = ? AND "
       "priority < ? ORDER BY priority DESC, ready_time LIMIT 1"},
      {sql::kOldestReady,
       "SELECT t.body, q.ready_time FROM task_queue q JOIN tasks t ON t.id = q.id WHERE q.state = 1 AND q.kind = ? AND "
       "q.starting = ? AND q.project = ? AND q.priority = ? AND q.ready_time <= ? ORDER BY q.ready_time, q.rowid"},
      {sql::kLeasedTasks,
       "SELECT t.body FROM task_queue q JOIN tasks t ON t.id = q.id WHERE q.state = 2 ORDER BY q.id"},
      {sql::kLivingTaskByKey,
       "SELECT t.body FROM task_queue q JOIN tasks t ON t.id = q.id WHERE q.key = ? AND q.key <> '' ORDER BY "
       "q.ready_time LIMIT 1"},
      // Without an order, PostgreSQL might return other jobs of an action first.
      {sql::kLivingJobsOfTask,
       "SELECT jobs.id FROM action_tasks JOIN jobs ON jobs.action_id = action_tasks.action_id WHERE task_id = ? AND "
       "jobs.state IN (1, 2) ORDER BY position, jobs.rowid LIMIT ?"},
      // No row: there is no such job.
      {sql::kLastSequence, "SELECT (SELECT max(sequence) FROM events WHERE job_id = jobs.id) FROM jobs WHERE id = ?"},
      // The sum of bigint is a numeric.
      {sql::kBlobTotals, "SELECT count(*), coalesce(sum(size), 0)::bigint FROM blobs"},
      {sql::kPutBlobBytes,
       "INSERT INTO blob_bytes (sha256, size, time_s, bytes) VALUES (?, ?, ?, ?) ON CONFLICT (sha256) DO NOTHING"},
  };
  return *all;
}

bool isStreamed(std::string_view sqlite) {
  static const auto* streamed = new std::set<std::string_view>{
      sql::kReadyTasks,   sql::kReadyOfProject, sql::kOldestReady, sql::kAllJobs,  sql::kAllActions, sql::kAllTasks,
      sql::kAllArtifacts, sql::kAllObjects,     sql::kAllRecords,  sql::kAllBlobs, sql::kAllHolds};
  return streamed->contains(sqlite);
}

bool mayViolate(std::string_view sqlite) {
  static const auto* guarded = new std::set<std::string_view>{sql::kInsertJob, sql::kLinkTask,   sql::kAppendEntry,
                                                              sql::kPutSeries, sql::kPutVersion, sql::kPutToken};
  return guarded->contains(sqlite);
}

/// A page of a list, which ends at its number of items or of bytes.
bool isPage(std::string_view sqlite) { return sqlite.starts_with("SELECT body") && sqlite.ends_with(" LIMIT ?"); }

/// Removes each " INDEXED BY name".
void removeHints(std::string& sql) {
  constexpr std::string_view kHint = " INDEXED BY ";
  for (size_t at = sql.find(kHint); at != std::string::npos; at = sql.find(kHint, at)) {
    size_t end = at + kHint.size();
    while (end < sql.size() && (std::isalnum(static_cast<unsigned char>(sql[end])) != 0 || sql[end] == '_')) ++end;
    sql.erase(at, end - at);
  }
}

/// Replaces `?` by $1, $2 ... from left to right, and `?3` by $3.
void numberParameters(PostgresStatementText& text) {
  std::string numbered;
  int next = 0;
  for (size_t at = 0; at < text.sql.size(); ++at) {
    if (text.sql[at] != '?') {
      numbered.push_back(text.sql[at]);
      continue;
    }
    if (numbered.ends_with("LIKE ")) text.globs.push_back(next);
    numbered.push_back('$');
    const bool has_number = at + 1 < text.sql.size() && std::isdigit(static_cast<unsigned char>(text.sql[at + 1])) != 0;
    if (!has_number) absl::StrAppend(&numbered, ++next);
  }
  text.sql = std::move(numbered);
}

}  // namespace

PostgresStatementText toPostgres(std::string_view sqlite) {
  PostgresStatementText text;
  const auto replaced = replacements().find(sqlite);
  text.sql = std::string(replaced == replacements().end() ? sqlite : replaced->second);
  text.streamed = isStreamed(sqlite);
  text.pages = isPage(sqlite);
  text.may_violate = mayViolate(sqlite);
  text.reads = text.sql.starts_with("SELECT") || text.sql.starts_with("FETCH");
  text.writes = text.sql.starts_with("INSERT") || text.sql.starts_with("UPDATE") || text.sql.starts_with("DELETE");
  removeHints(text.sql);
  text.sql = absl::StrReplaceAll(text.sql, {{" CROSS JOIN ", " JOIN "}, {"instr(", "strpos("}, {" GLOB ?", " LIKE ?"}});
  numberParameters(text);
  return text;
}

std::string likeOfGlob(std::string_view glob) {
  std::string like;
  for (size_t at = 0; at < glob.size(); ++at) {
    char c = glob[at];
    if (c == '*') {
      like.push_back('%');
      continue;
    }
    if (c == '[' && at + 2 < glob.size()) {
      c = glob[at + 1];
      at += 2;
    }
    if (c == '%' || c == '_' || c == '\\') like.push_back('\\');
    like.push_back(c);
  }
  return like;
}

}  // namespace tessera::storage
