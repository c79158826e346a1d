#include "storage/sqlite/queue.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/sqlite/queries.h"
#include "storage/sqlite/rows.h"

namespace tessera::storage {
namespace {

constexpr int kAnyPriority = std::numeric_limits<int>::max();

const std::vector<v1::TaskKind>& everyKind() {
  static const auto* kinds = [] {
    auto* all = new std::vector<v1::TaskKind>;
    const auto* descriptor = v1::TaskKind_descriptor();
    for (int i = 0; i < descriptor->value_count(); ++i) {
      all->push_back(static_cast<v1::TaskKind>(descriptor->value(i)->number()));
    }
    return all;
  }();
  return *kinds;
}

/// How near its job's end a task of this kind is: 0 is nearest.
int stepsLeft(v1::TaskKind kind) { return kind == v1::PLAN || kind == v1::SEARCH ? 2 : kind == v1::BUILD ? 1 : 0; }

/// One kind's queue, or a project's part of it, at the row that comes next.
struct Queue {
  v1::TaskKind kind;
  Statement rows;
  /// Smaller is sooner: -priority, turn, steps left, ready time, row.
  std::tuple<int64_t, int64_t, int, int64_t, int64_t> rank;

  absl::StatusOr<bool> advance() {
    absl::StatusOr<bool> row = rows.step();
    if (row.ok() && *row) {
      rank = {-rows.integer(1), rows.integer(2), stepsLeft(kind), rows.integer(3), rows.integer(4)};
    }
    return row;
  }
};

absl::Status enter(Queue queue, std::vector<Queue>& queues) {
  absl::StatusOr<bool> row = queue.advance();
  if (row.ok() && *row) queues.push_back(std::move(queue));
  return row.status();
}

/// A kind's queue as one of each project, those that would begin a job apart: these only where the project may.
absl::Status enterByProject(Database& database, const QueueQuery& query, v1::TaskKind kind, int64_t priority,
                            std::map<std::string, bool>& may_not_begin, std::vector<Queue>& queues) {
  for (const bool starting : {false, true}) {
    for (std::string project;;) {
      Statement next = database.prepare(sql::kNextReadyProject);
      absl::StatusOr<bool> row = next.bind(static_cast<int>(kind)).bind(starting).bind(project).step();
      if (!row.ok()) return row.status();
      if (!*row) break;
      project = std::string(next.bytes(0));
      if (starting) {
        const auto [known, fresh] = may_not_begin.try_emplace(project, false);
        if (fresh) known->second = query.may_not_begin(project);
        if (known->second) continue;
      }
      Queue queue{kind, database.prepare(sql::kReadyOfProject), {}};
      queue.rows.bind(static_cast<int>(kind)).bind(starting).bind(project).bind(priority);
      if (absl::Status status = enter(std::move(queue), queues); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

/// The first acceptable task of this priority or below; NOT_FOUND when there is none.
absl::StatusOr<v1::Task> firstFrom(Database& database, const QueueQuery& query, int64_t priority) {
  std::vector<Queue> queues;
  std::map<std::string, bool> may_not_begin;
  for (const v1::TaskKind kind : query.kinds.empty() ? everyKind() : query.kinds) {
    absl::Status status;
    if (query.may_not_begin) {
      status = enterByProject(database, query, kind, priority, may_not_begin, queues);
    } else {
      Queue queue{kind, database.prepare(sql::kReadyTasks), {}};
      queue.rows.bind(static_cast<int>(kind)).bind(priority);
      status = enter(std::move(queue), queues);
    }
    if (!status.ok()) return status;
  }
  while (true) {
    Queue* first = nullptr;
    for (Queue& queue : queues) {
      if (std::get<4>(queue.rank) != 0 && (first == nullptr || queue.rank < first->rank)) first = &queue;
    }
    if (first == nullptr) return absl::NotFoundError("there is no ready task of the kinds asked for");
    absl::StatusOr<v1::Task> task = taskOf(database, first->rows);
    if (!task.ok() || !query.accept || query.accept(*task)) return task;
    absl::StatusOr<bool> row = first->advance();
    if (!row.ok()) return row.status();
    if (!*row) std::get<4>(first->rank) = 0;  // rows count from 1: this queue has ended
  }
}

/// The priority below the highest whose oldest task has waited long enough to go first; kAnyPriority when none has.
absl::StatusOr<int64_t> agedPriority(Database& database, const QueueQuery& query) {
  // (priority, ready time) of the heads of the queues and of the oldest in them; a smaller time is older.
  std::pair<int64_t, int64_t> head = {std::numeric_limits<int64_t>::min(), 0};
  std::vector<std::pair<int64_t, int64_t>> oldest;
  for (const v1::TaskKind kind : query.kinds.empty() ? everyKind() : query.kinds) {
    Statement old = database.prepare(sql::kOldestReady);
    absl::StatusOr<bool> found = old.bind(static_cast<int>(kind)).bind(query.now_us - query.ageing_us).bind(1).step();
    if (!found.ok()) return found.status();
    if (*found) oldest.emplace_back(old.integer(1), old.integer(2));
    Statement first = database.prepare(sql::kReadyTasks);
    found = first.bind(static_cast<int>(kind)).bind(kAnyPriority).step();
    if (!found.ok()) return found.status();
    if (*found) head = std::max(head, {first.integer(1), -first.integer(3)});
  }
  const auto aged = [&](int64_t priority, int64_t ready_us) {
    return priority + (query.now_us - ready_us) / query.ageing_us;
  };
  int64_t best = head.first;
  int64_t chosen = kAnyPriority;
  if (!oldest.empty()) best = aged(head.first, -head.second);
  for (const auto& [priority, ready_us] : oldest) {
    if (aged(priority, ready_us) > best) {
      best = aged(priority, ready_us);
      chosen = priority;
    }
  }
  return chosen;
}

}  // namespace

absl::StatusOr<v1::Task> nextReady(Database& database, const QueueQuery& query) {
  if (query.ageing_us > 0) {
    absl::StatusOr<int64_t> aged = agedPriority(database, query);
    if (!aged.ok()) return aged.status();
    if (*aged != kAnyPriority) {
      absl::StatusOr<v1::Task> task = firstFrom(database, query, *aged);
      if (!absl::IsNotFound(task.status())) return task;
    }
  }
  return firstFrom(database, query, kAnyPriority);
}

}  // namespace tessera::storage
