#include "storage/sql/queue.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/support/status_macros.h"
#include "storage/sql/queries.h"
#include "storage/sql/rows.h"

namespace tessera::storage {
namespace {

constexpr int64_t kAnyPriority = std::numeric_limits<int>::max();

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

/// Distance of a task of this kind from its job's end; 0 is nearest.
int stepsLeft(v1::TaskKind kind) { return kind == v1::PLAN || kind == v1::SEARCH ? 2 : kind == v1::BUILD ? 1 : 0; }

/// The ready tasks of one kind and project, either those that would start a job or the others.
struct Part {
  v1::TaskKind kind;
  bool starting;
  std::string project;

  Statement bind(Statement rows) const {
    rows.bind(static_cast<int>(kind)).bind(starting).bind(project);
    return rows;
  }
  /// Tasks of a priority that became ready at or before `since_us`, oldest first.
  Statement byAge(Database& database, int64_t priority, int64_t since_us) const {
    Statement rows = bind(database.prepare(sql::kOldestReady));
    rows.bind(priority).bind(since_us);
    return rows;
  }
};

/// A priority of a part, and the ready time of its oldest task.
struct Oldest {
  int64_t priority;
  int64_t ready_us;
};

/// Returns an entry for each priority up to `highest`, highest first. One index seek per priority.
absl::StatusOr<std::vector<Oldest>> oldestOf(Database& database, const Part& part, int64_t highest) {
  std::vector<Oldest> all;
  for (int64_t below = highest + 1;; below = all.back().priority) {
    Statement next = part.bind(database.prepare(sql::kNextReadyPriority));
    TESSERA_ASSIGN_OR_RETURN(bool row, next.bind(below).step());
    if (!row) return all;
    all.push_back({next.integer(0), next.integer(1)});
  }
}

/// Adds the parts of a kind, up to two per project; without tasks that would start a job if `may_not_start` applies.
absl::Status addPartsOf(Database& database, v1::TaskKind kind,
                        const std::function<bool(const std::string& project)>& may_not_start,
                        std::vector<Part>& parts) {
  for (const bool starting : {false, true}) {
    for (std::string project;;) {
      Statement next = database.prepare(sql::kNextReadyProject);
      TESSERA_ASSIGN_OR_RETURN(bool row, next.bind(static_cast<int>(kind)).bind(starting).bind(project).step());
      if (!row) break;
      project = std::string(next.bytes(0));
      if (!starting || !may_not_start || !may_not_start(project)) parts.push_back({kind, starting, project});
    }
  }
  return absl::OkStatus();
}

/// Returns all parts that the query may select from.
absl::StatusOr<std::vector<Part>> partsOf(Database& database, const QueueQuery& query) {
  std::map<std::string, bool> known;
  std::function<bool(const std::string&)> may_not_start;
  if (query.may_not_start) {
    may_not_start = [&](const std::string& project) {
      const auto [answer, fresh] = known.try_emplace(project, false);
      if (fresh) answer->second = query.may_not_start(project);
      return answer->second;
    };
  }
  std::vector<Part> parts;
  for (const v1::TaskKind kind : query.kinds.empty() ? everyKind() : query.kinds) {
    TESSERA_RETURN_IF_ERROR(addPartsOf(database, kind, may_not_start, parts));
  }
  return parts;
}

bool accepts(const QueueQuery& query, const v1::Task& task) { return !query.accept || query.accept(task); }

/// A cursor over the tasks of one kind in queue order.
struct Queue {
  v1::TaskKind kind;
  Statement rows;
  /// Smaller is earlier: -priority, ticket, distance from the job's end, ready time, row.
  std::tuple<int64_t, int64_t, int, int64_t, int64_t> rank;

  /// After the last task, the row of the rank is 0, which is the row of no task.
  absl::Status advance() {
    TESSERA_ASSIGN_OR_RETURN(const bool row, rows.step());
    rank = {};
    if (row) rank = {-rows.integer(1), rows.integer(2), stepsLeft(kind), rows.integer(3), rows.integer(4)};
    return absl::OkStatus();
  }
};

/// The first acceptable task of at most this priority; NOT_FOUND if there is none.
absl::StatusOr<v1::Task> firstFrom(Database& database, const QueueQuery& query, const std::vector<Part>& parts,
                                   int64_t priority) {
  std::vector<Queue> queues;
  const auto enter = [&](v1::TaskKind kind, Statement rows) {
    rows.bind(priority).start();
    queues.push_back({kind, std::move(rows), {}});
  };
  // With limits per project the queues are split by project, so that excluded tasks are never read.
  if (query.may_not_start) {
    for (const Part& part : parts) enter(part.kind, part.bind(database.prepare(sql::kReadyOfProject)));
  } else {
    for (const v1::TaskKind kind : query.kinds.empty() ? everyKind() : query.kinds) {
      Statement rows = database.prepare(sql::kReadyTasks);
      rows.bind(static_cast<int>(kind));
      enter(kind, std::move(rows));
    }
  }
  for (Queue& queue : queues) TESSERA_RETURN_IF_ERROR(queue.advance());
  while (true) {
    Queue* first = nullptr;
    for (Queue& queue : queues) {
      if (std::get<4>(queue.rank) != 0 && (first == nullptr || queue.rank < first->rank)) first = &queue;
    }
    if (first == nullptr) return absl::NotFoundError("there is no ready task of the requested kinds");
    absl::StatusOr<v1::Task> task = taskOf(database, first->rows);
    if (!task.ok() || accepts(query, *task)) return task;
    TESSERA_RETURN_IF_ERROR(first->advance());
  }
}

/// Returns the priority to select from: that of `first`, or a lower one with an acceptable task that has aged enough to
/// precede it. Between equal aged priorities, the higher original priority wins.
absl::StatusOr<int64_t> agedPriority(Database& database, const QueueQuery& query, const std::vector<Part>& parts,
                                     const v1::Task& first) {
  const auto rank = [&](int64_t priority, int64_t ready_us) {
    return std::pair(priority + (query.now_us - ready_us) / query.ageing_us, priority);
  };
  const int64_t since_us = query.now_us - query.ageing_us;
  auto best = rank(first.priority(), first.ready_time_us());
  for (const Part& part : parts) {
    TESSERA_ASSIGN_OR_RETURN(std::vector<Oldest> oldest, oldestOf(database, part, first.priority()));
    int refused = 0;
    // Only priorities up to that of `first`: no acceptable task has a higher one.
    for (const auto [priority, ready_us] : oldest) {
      // Even the oldest task of this priority gains nothing, or not enough.
      if (ready_us > since_us || rank(priority, ready_us) <= best) continue;
      Statement rows = part.byAge(database, priority, since_us);
      while (refused < QueueQuery::kMaxAgedRejections) {
        TESSERA_ASSIGN_OR_RETURN(bool row, rows.step());
        // Rows are sorted by age, so later ones have aged less.
        if (!row || rank(priority, rows.integer(1)) <= best) break;
        TESSERA_ASSIGN_OR_RETURN(v1::Task task, taskOf(database, rows));
        if (accepts(query, task)) {
          best = rank(priority, rows.integer(1));
          break;
        }
        ++refused;
      }
    }
  }
  return best.second;
}

}  // namespace

absl::StatusOr<v1::Task> nextReady(Database& database, const QueueQuery& query) {
  TESSERA_ASSIGN_OR_RETURN(std::vector<Part> parts, partsOf(database, query));
  absl::StatusOr<v1::Task> first = firstFrom(database, query, parts, kAnyPriority);
  if (!first.ok() || query.ageing_us <= 0) return first;
  TESSERA_ASSIGN_OR_RETURN(int64_t aged, agedPriority(database, query, parts, *first));
  return aged == first->priority() ? first : firstFrom(database, query, parts, aged);
}

absl::StatusOr<v1::Task> claimReady(Database& database, const QueueQuery& query) {
  if (!database.hasOtherWriters()) return nextReady(database, query);
  std::set<std::string> locked_by_others;
  QueueQuery free = query;
  free.accept = [&](const v1::Task& task) { return !locked_by_others.contains(task.id()) && accepts(query, task); };
  while (true) {
    absl::StatusOr<v1::Task> task = nextReady(database, free);
    if (!task.ok()) return task;
    Statement lock = database.prepare(sql::kLockReadyTask);
    TESSERA_ASSIGN_OR_RETURN(const bool own, lock.bind(task->id()).step());
    if (own) return task;
    locked_by_others.insert(task->id());
  }
}

absl::StatusOr<std::vector<v1::Task>> readyByAge(Database& database, v1::TaskKind kind, int64_t since_us, int limit) {
  std::vector<Part> parts;
  TESSERA_RETURN_IF_ERROR(addPartsOf(database, kind, {}, parts));
  std::vector<v1::Task> oldest;
  for (const Part& part : parts) {
    TESSERA_ASSIGN_OR_RETURN(std::vector<Oldest> priorities, oldestOf(database, part, kAnyPriority));
    for (const auto [priority, ready_us] : priorities) {
      if (ready_us > since_us) continue;
      // Each part contributes at most `limit` tasks; the oldest of all are among them.
      Statement rows = part.byAge(database, priority, since_us);
      for (int taken = 0; taken < limit; ++taken) {
        TESSERA_ASSIGN_OR_RETURN(bool row, rows.step());
        if (!row) break;
        TESSERA_ASSIGN_OR_RETURN(v1::Task task, taskOf(database, rows));
        oldest.push_back(std::move(task));
      }
    }
  }
  std::sort(oldest.begin(), oldest.end(), [](const v1::Task& one, const v1::Task& other) {
    return std::tuple(one.ready_time_us(), std::string_view(one.id())) <
           std::tuple(other.ready_time_us(), std::string_view(other.id()));
  });
  oldest.resize(std::min(oldest.size(), static_cast<size_t>(limit)));
  return oldest;
}

absl::StatusOr<std::vector<QueueDepth>> depths(Database& database) {
  std::vector<QueueDepth> depths;
  Statement counts = database.prepare(sql::kQueueDepths);
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(bool row, counts.step());
    if (!row) return depths;
    // Counts come from one small table. The oldest task is found by one index lookup for each part and priority of the
    // queue, because a minimum over all ready tasks would read every one of them.
    QueueDepth depth{static_cast<v1::TaskKind>(counts.integer(0)), counts.integer(1),
                     std::numeric_limits<int64_t>::max()};
    std::vector<Part> parts;
    TESSERA_RETURN_IF_ERROR(addPartsOf(database, depth.kind, {}, parts));
    for (const Part& part : parts) {
      TESSERA_ASSIGN_OR_RETURN(std::vector<Oldest> priorities, oldestOf(database, part, kAnyPriority));
      for (const Oldest& oldest : priorities) depth.oldest_ready_us = std::min(depth.oldest_ready_us, oldest.ready_us);
    }
    depths.push_back(depth);
  }
}

}  // namespace tessera::storage
