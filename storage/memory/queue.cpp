// The queue of ready tasks, and the fair-share tickets of clients.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "storage/memory/transaction.h"

namespace tessera::storage {
namespace {

using Ready = Table<Tables::ReadyKey, bool>::Rows::const_iterator;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kAnyPriority = std::numeric_limits<int>::max();

/// Distance of a task of this kind from its job's end; 0 is nearest.
int stepsLeft(int kind) { return kind == v1::PLAN || kind == v1::SEARCH ? 2 : kind == v1::BUILD ? 1 : 0; }

/// Smaller is earlier: -priority, ticket, distance from the job's end, ready time, row.
using Rank = std::tuple<int64_t, int64_t, int, int64_t, int64_t>;
Rank rankOf(const Tables::ReadyKey& key) {
  return {key.minus_priority, key.turn, stepsLeft(key.kind), key.ready_us, key.row};
}

std::vector<int> kindsOf(const Tables& tables, const QueueQuery& query) {
  if (!query.kinds.empty()) return {query.kinds.begin(), query.kinds.end()};
  std::vector<int> kinds;
  for (auto head = tables.ready.rows().begin(); head != tables.ready.rows().end();) {
    kinds.push_back(head->first.kind);
    head = tables.ready.from({kinds.back() + 1, kLeast, kLeast, kLeast, 0, ""});
  }
  return kinds;
}

/// Whether the task would start a job.
bool isStarting(const Tables& tables, const v1::Task& task) {
  // A task that had an attempt belongs to a job that has started.
  if (task.attempt() > 0) return false;
  for (auto link = tables.actions_of_task.from({task.id(), 0, ""});
       link != tables.actions_of_task.rows().end() && std::get<0>(link->first) == task.id(); ++link) {
    if (tables.actions.find(std::get<2>(link->first))->action.state() == v1::Job::RUNNING) return false;
  }
  return true;
}

/// Decides which tasks a query may select.
class Choice {
 public:
  Choice(const Tables& tables, const QueueQuery& query) : tables_(tables), query_(query) {}

  /// The task, if the caller accepts it and its project may start it; otherwise null.
  const v1::Task* of(const std::string& id) {
    const v1::Task& task = tables_.tasks.find(id)->task;
    return !isLeftOut(task) && (!query_.accept || query_.accept(task)) ? &task : nullptr;
  }

  /// Whether the task would start a job that its project may not start.
  bool isLeftOut(const v1::Task& task) {
    if (!query_.may_not_start || !isStarting(tables_, task)) return false;
    const auto [known, fresh] = may_not_begin_.try_emplace(projectOf(task), false);
    if (fresh) known->second = query_.may_not_start(known->first);
    return known->second;
  }

 private:
  const Tables& tables_;
  const QueueQuery& query_;
  std::map<std::string, bool> may_not_begin_;
};

/// The first acceptable task of at most this priority; null if there is none.
const v1::Task* firstFrom(const Tables& tables, const QueueQuery& query, Choice& choice, int64_t priority) {
  std::map<Rank, Ready> heads;  // head of the queue of each kind
  const auto enter = [&](Ready at, int kind) {
    if (at != tables.ready.rows().end() && at->first.kind == kind) heads.emplace(rankOf(at->first), at);
  };
  for (const int kind : kindsOf(tables, query)) {
    enter(tables.ready.from({kind, -priority, kLeast, kLeast, 0, ""}), kind);
  }
  while (!heads.empty()) {
    const Ready first = heads.begin()->second;
    heads.erase(heads.begin());
    if (const v1::Task* task = choice.of(first->first.id)) return task;
    enter(std::next(first), first->first.kind);
  }
  return nullptr;
}

/// Returns the priority to select from: that of `first`, or a lower one with an acceptable task that has aged enough to
/// precede it. Between equal aged priorities, the higher original priority wins.
int64_t agedPriority(const Tables& tables, const QueueQuery& query, Choice& choice, const v1::Task& first) {
  const auto rank = [&](int64_t priority, int64_t ready_us) {
    return std::pair(priority + (query.now_us - ready_us) / query.ageing_us, priority);
  };
  auto best = rank(first.priority(), first.ready_time_us());
  using Part = std::pair<bool, std::string>;  // starting, project
  for (const int kind : kindsOf(tables, query)) {
    std::map<std::tuple<Part, int64_t, int64_t, int64_t>, std::string> old;  // key: part, -priority, ready time, row
    for (auto it = tables.ready_by_time.from({kind, kLeast, 0, ""});
         it != tables.ready_by_time.rows().end() && std::get<0>(it->first) == kind &&
         std::get<1>(it->first) <= query.now_us - query.ageing_us;
         ++it) {
      const Tables::ReadyKey& key = *it->second;
      if (-key.minus_priority > first.priority() || rank(-key.minus_priority, key.ready_us) <= best) continue;
      const v1::Task& task = tables.tasks.find(key.id)->task;
      if (choice.isLeftOut(task)) continue;
      old[{{isStarting(tables, task), projectOf(task)}, key.minus_priority, key.ready_us, key.row}] = key.id;
    }
    std::map<Part, int> refused;
    for (const auto& [key, id] : old) {
      const auto& [part, minus_priority, ready_us, row] = key;
      if (refused[part] >= QueueQuery::kMaxAgedRejections || rank(-minus_priority, ready_us) <= best) continue;
      if (choice.of(id) != nullptr) {
        best = rank(-minus_priority, ready_us);
      } else {
        ++refused[part];
      }
    }
  }
  return best.second;
}

}  // namespace

absl::StatusOr<v1::Task> MemoryTransaction::nextReadyTask(const QueueQuery& query) {
  Choice choice(tables_, query);
  const v1::Task* task = firstFrom(tables_, query, choice, kAnyPriority);
  if (task != nullptr && query.ageing_us > 0) {
    const int64_t aged = agedPriority(tables_, query, choice, *task);
    if (aged != task->priority()) task = firstFrom(tables_, query, choice, aged);
  }
  if (task == nullptr) return absl::NotFoundError("there is no ready task of the requested kinds");
  return *task;
}

absl::StatusOr<std::vector<v1::Task>> MemoryTransaction::readySince(v1::TaskKind kind, int64_t since_us, int limit) {
  std::vector<v1::Task> tasks;
  for (auto it = tables_.ready_by_time.from({kind, kLeast, 0, ""});
       it != tables_.ready_by_time.rows().end() && std::get<0>(it->first) == kind &&
       std::get<1>(it->first) <= since_us && static_cast<int>(tasks.size()) < limit;
       ++it) {
    tasks.push_back(tables_.tasks.find(std::get<3>(it->first))->task);
  }
  return tasks;
}

absl::StatusOr<int> MemoryTransaction::queuePosition(const std::string& task_id) {
  const Tables::TaskRow* row = tables_.tasks.find(task_id);
  if (row == nullptr) return absl::NotFoundError(absl::StrCat("there is no task \"", task_id, "\""));
  if (row->task.state() != v1::Task::READY) return 0;
  const auto& ready = tables_.ready.rows();
  const auto goes_before = [&](const auto& entry) { return -entry.first.minus_priority >= row->task.priority(); };
  return static_cast<int>(std::count_if(ready.begin(), ready.end(), goes_before)) - 1;
}

absl::StatusOr<int64_t> MemoryTransaction::queueLength() { return static_cast<int64_t>(tables_.ready.rows().size()); }

absl::StatusOr<std::vector<QueueDepth>> MemoryTransaction::queueDepths() {
  std::vector<QueueDepth> depths;
  for (const auto& [key, present] : tables_.ready_by_time.rows()) {  // sorted by kind, oldest first
    const auto kind = static_cast<v1::TaskKind>(std::get<0>(key));
    if (depths.empty() || depths.back().kind != kind) depths.push_back({kind, 0, std::get<1>(key)});
    ++depths.back().ready;
  }
  return depths;
}

absl::StatusOr<std::vector<TargetDepth>> MemoryTransaction::targetDepths() {
  std::map<std::pair<int, std::string>, int64_t> counts;
  for (const auto& [key, present] : tables_.ready.rows())
    ++counts[{key.kind, tables_.tasks.find(key.id)->task.target()}];
  std::vector<TargetDepth> depths;
  for (const auto& [key, ready] : counts) depths.push_back({static_cast<v1::TaskKind>(key.first), key.second, ready});
  return depths;
}

absl::StatusOr<int64_t> MemoryTransaction::nextTicket(int priority, const std::string& client) {
  const int64_t* served = tables_.ticket_served.find(priority);
  const int64_t* last = tables_.ticket_of_client.find({priority, client});
  return std::max(served != nullptr ? *served : 0, last != nullptr ? *last : 0) + 1;
}

absl::StatusOr<int64_t> MemoryTransaction::takeTicket(int priority, const std::string& client) {
  absl::StatusOr<int64_t> turn = nextTicket(priority, client);
  tables_.ticket_of_client.put({priority, client}, *turn);
  return turn;
}

absl::Status MemoryTransaction::ticketServed(int priority, int64_t turn) {
  const int64_t* served = tables_.ticket_served.find(priority);
  if (served == nullptr || turn > *served) tables_.ticket_served.put(priority, turn);
  std::vector<std::pair<int, std::string>> over;
  for (auto it = tables_.ticket_of_client.from({priority, ""});
       it != tables_.ticket_of_client.rows().end() && it->first.first == priority; ++it) {
    if (*it->second <= turn) over.push_back(it->first);
  }
  for (const auto& key : over) tables_.ticket_of_client.erase(key);
  return absl::OkStatus();
}

}  // namespace tessera::storage
