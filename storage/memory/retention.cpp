// Queries and deletions of garbage collections.
#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "storage/memory/transaction.h"
#include "storage/stored_key.h"

namespace tessera::storage {
namespace {

absl::Status notOf(Kind kind, const char* what) {
  return absl::FailedPreconditionError(absl::StrCat("items of kind ", static_cast<int>(kind), " have no ", what));
}

bool hasUse(Kind kind) {
  return kind == Kind::kArtifact || kind == Kind::kObject || kind == Kind::kBlob || kind == Kind::kBlobReference;
}

/// Splits a blobReferenceKey() into project and SHA-256.
std::pair<std::string, std::string> holdOf(const std::string& key) {
  const size_t slash = key.find('/');
  return {key.substr(0, slash), slash == std::string::npos ? "" : key.substr(slash + 1)};
}

/// `factsOf` returns a row's time and message.
template <typename Row, typename FactsOf>
absl::Status visitAll(const Table<std::string, Row>& table, Kind kind, FactsOf&& factsOf,
                      const std::function<absl::Status(const Stored&)>& visit) {
  for (const auto& [id, row] : table.rows()) {
    const std::pair<int64_t, const google::protobuf::Message*> facts = factsOf(id, *row);
    TESSERA_RETURN_IF_ERROR(visit({kind, id, facts.first, facts.second}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MemoryTransaction::forEach(Kind kind, const std::function<absl::Status(const Stored&)>& visit) {
  using Facts = std::pair<int64_t, const google::protobuf::Message*>;
  const auto use = [&](const std::string& id) {
    const int64_t* time = tables_.last_use.find({kind, id});
    return time == nullptr ? 0 : *time;
  };
  // Blobs and holds are stored as sizes only. `visit` receives a message that is valid during the call.
  v1::Digest digest;
  switch (kind) {
    case Kind::kJob:
      return visitAll(
          tables_.jobs, kind, [](const auto&, const auto& row) { return Facts(row.job.end_time_us(), &row.job); },
          visit);
    case Kind::kAction:
      return visitAll(
          tables_.actions, kind,
          [](const auto&, const auto& row) { return Facts(row.action.create_time_us(), &row.action); }, visit);
    case Kind::kTask:
      return visitAll(
          tables_.tasks, kind, [](const auto&, const auto& row) { return Facts(row.task.ready_time_us(), &row.task); },
          visit);
    case Kind::kArtifact:
      return visitAll(
          tables_.artifacts, kind, [&](const auto& id, const auto& row) { return Facts(use(id), &row); }, visit);
    case Kind::kObject:
      return visitAll(
          tables_.objects, kind, [&](const auto& id, const auto& row) { return Facts(use(id), &row); }, visit);
    case Kind::kRecord:
      return visitAll(
          tables_.records, kind, [](const auto&, const auto& row) { return Facts(row.create_time_us(), &row); }, visit);
    case Kind::kBlob:
      return visitAll(
          tables_.blobs, kind,
          [&](const auto& id, int64_t size) {
            digest.set_sha256(id);
            digest.set_size_bytes(size);
            return Facts(use(id), &digest);
          },
          visit);
    case Kind::kBlobReference:
      for (const auto& [key, size] : tables_.holds.rows()) {
        const std::string id = blobReferenceKey(key.first, key.second);
        digest.set_sha256(key.second);
        digest.set_size_bytes(*size);
        TESSERA_RETURN_IF_ERROR(visit({kind, id, use(id), &digest}));
      }
      return absl::OkStatus();
    default:
      return notOf(kind, "list of all");
  }
}

absl::StatusOr<int> MemoryTransaction::forEachAfter(Kind kind, const std::string& after, int limit,
                                                    const std::function<absl::Status(const Stored&)>& visit) {
  const auto follows = [&](const std::string& id) {
    return after.empty() || (kind == Kind::kBlobReference ? holdOf(id) > holdOf(after) : id > after);
  };
  int visited = 0;
  bool full = false;
  const absl::Status status = forEach(kind, [&](const Stored& stored) -> absl::Status {
    if (!follows(stored.id)) return absl::OkStatus();
    full = visited == limit;
    if (full) return absl::CancelledError();
    ++visited;
    return visit(stored);
  });
  if (!full) TESSERA_RETURN_IF_ERROR(status);
  return visited;
}

absl::StatusOr<int64_t> MemoryTransaction::lastUse(Kind kind, const std::string& id) {
  if (!hasUse(kind)) return notOf(kind, "last use");
  const bool present = kind == Kind::kArtifact        ? tables_.artifacts.contains(id)
                       : kind == Kind::kObject        ? tables_.objects.contains(id)
                       : kind == Kind::kBlobReference ? tables_.holds.contains(holdOf(id))
                                                      : tables_.blobs.contains(id);
  if (!present) return absl::NotFoundError(absl::StrCat("there is no \"", id, "\""));
  const int64_t* time = tables_.last_use.find({kind, id});
  return time == nullptr ? 0 : *time;
}

absl::StatusOr<std::vector<Kind>> MemoryTransaction::usedBefore(const std::string& project, const std::string& name,
                                                                int64_t time_us) {
  std::vector<Kind> kinds;
  for (const Kind kind : {Kind::kBlob, Kind::kBlobReference, Kind::kArtifact}) {
    const absl::StatusOr<int64_t> use = lastUse(kind, useKey(kind, project, name));
    if (use.ok() && *use < time_us) kinds.push_back(kind);
  }
  return kinds;
}

absl::StatusOr<bool> MemoryTransaction::isPinned(Kind kind, const std::string& id) {
  return tables_.pins.contains({kind, id});
}

absl::StatusOr<int64_t> MemoryTransaction::eventCount(const std::string& job_id) {
  int64_t count = 0;
  for (auto event = tables_.events.from({job_id, 0});
       event != tables_.events.rows().end() && event->first.first == job_id; ++event) {
    ++count;
  }
  return count;
}

template <typename Row>
void MemoryTransaction::eraseNumbered(Table<std::pair<std::string, int64_t>, Row>& table, const std::string& id) {
  std::vector<int64_t> numbers;
  for (auto row = table.from({id, 0}); row != table.rows().end() && row->first.first == id; ++row) {
    numbers.push_back(row->first.second);
  }
  for (const int64_t number : numbers) table.erase({id, number});
}

absl::Status MemoryTransaction::eraseEvents(const std::string& job_id) {
  eraseNumbered(tables_.events, job_id);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::erase(Kind kind, const std::string& id) {
  switch (kind) {
    case Kind::kJob:
      eraseJob(id);
      break;
    case Kind::kArtifact: {
      // Keys are collected first, because erasing a row invalidates the iterator of the loop.
      std::vector<std::string> keys;
      for (const auto& [key, entry] : tables_.artifact_keys.rows()) {
        if (entry->artifact_id == id) keys.push_back(key);
      }
      for (const std::string& key : keys) tables_.artifact_keys.erase(key);
      tables_.artifacts.erase(id);
      break;
    }
    case Kind::kObject:
      tables_.objects.erase(id);
      break;
    case Kind::kRecord:
      tables_.records.erase(id);
      break;
    case Kind::kBlob: {
      // The first witness names the object that a reproduction is about. Without the object the reproduction proves
      // nothing.
      std::vector<std::string> reproductions;
      for (const auto& [key, reproduction] : tables_.reproductions.rows()) {
        if (!reproduction->witnesses().empty() && reproduction->witnesses(0).object().sha256() == id)
          reproductions.push_back(key);
      }
      for (const std::string& key : reproductions) tables_.reproductions.erase(key);
      std::vector<std::pair<std::string, std::string>> holds;
      for (const auto& [hold, size] : tables_.holds.rows()) {
        if (hold.second == id) holds.push_back(hold);
      }
      for (const auto& hold : holds) {
        tables_.holds.erase(hold);
        tables_.last_use.erase({Kind::kBlobReference, blobReferenceKey(hold.first, hold.second)});
      }
      tables_.blobs.erase(id);
      tables_.lost_blobs.set(id, false);
      tables_.removed_blobs.set(id, false);
      break;
    }
    case Kind::kBlobReference:
      tables_.holds.erase(holdOf(id));
      break;
    case Kind::kTarget:
      tables_.targets.erase(id);
      break;
    case Kind::kWorker:
      tables_.workers.erase(id);
      break;
    case Kind::kAction:
      for (const auto& [job, row] : tables_.jobs.rows()) {
        if (row->action_id == id) return notOf(kind, "deletion of their own: they are deleted with their job");
      }
      eraseAction(id);
      break;
    default:
      return notOf(kind, "deletion of their own: they are deleted with their job");
  }
  tables_.last_use.erase({kind, id});
  return absl::OkStatus();
}

void MemoryTransaction::eraseJob(const std::string& id) {
  const Tables::JobRow* known = tables_.jobs.find(id);
  if (known == nullptr) return;
  const std::string action_id = known->action_id;
  // Cannot fail in memory.
  (void)eraseEvents(id);
  eraseNumbered(tables_.versions, id);
  tables_.series.erase(id);
  indexJob(*known, false);
  if (!known->job.request_id().empty()) tables_.job_by_request.erase({projectOf(known->job), known->job.request_id()});
  tables_.jobs.erase(id);
  if (action_id.empty()) return;
  // Identical requests share an action: it is kept while any other job has it.
  for (const auto& [other, row] : tables_.jobs.rows()) {
    if (row->action_id == action_id) return;
  }
  eraseAction(action_id);
}

void MemoryTransaction::eraseAction(const std::string& id) {
  std::vector<std::pair<std::string, int64_t>> tasks;
  for (auto link = tables_.links.from({id, ""}); link != tables_.links.rows().end() && link->first.first == id;
       ++link) {
    tasks.emplace_back(link->first.second, *link->second);
  }
  for (const auto& [task, position] : tasks) {
    tables_.links.erase({id, task});
    tables_.tasks_of_action.set({id, position, task}, false);
    tables_.actions_of_task.set({task, position, id}, false);
    // Actions share tasks too: a task is erased with its last action.
    const auto other = tables_.actions_of_task.from({task, 0, ""});
    if (other == tables_.actions_of_task.rows().end() || std::get<0>(other->first) != task) eraseTask(task);
  }
  const Tables::ActionRow* known = tables_.actions.find(id);
  if (known == nullptr) return;
  std::vector<std::string> names;
  for (auto entry = tables_.components.from({id, ""});
       entry != tables_.components.rows().end() && entry->first.first == id; ++entry) {
    tables_.by_component.set({entry->second->name(), entry->second->hash(), -known->action.create_time_us(), id},
                             false);
    names.push_back(entry->first.second);
  }
  for (const std::string& name : names) tables_.components.erase({id, name});
  eraseNumbered(tables_.search_log, id);
  indexAction(*known, false);
  tables_.actions.erase(id);
}

void MemoryTransaction::eraseTask(const std::string& id) {
  const Tables::TaskRow* known = tables_.tasks.find(id);
  if (known == nullptr) return;
  indexTask(*known, false);
  tables_.tasks.erase(id);
}

absl::Status MemoryTransaction::touch(Kind kind, const std::string& id, int64_t time_us) {
  absl::StatusOr<int64_t> before = lastUse(kind, id);
  if (absl::IsNotFound(before.status())) return absl::OkStatus();
  if (!before.ok()) return before.status();
  // Uses may be recorded out of order; the time of last use never goes back.
  if (*before < time_us) tables_.last_use.put({kind, id}, time_us);
  return absl::OkStatus();
}

absl::Status MemoryTransaction::setPin(Kind kind, const std::string& id, bool pinned) {
  tables_.pins.set({kind, id}, pinned);
  return absl::OkStatus();
}

}  // namespace tessera::storage
