// The tuning database in memory.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "storage/memory/list.h"
#include "storage/memory/transaction.h"
#include "storage/record_properties.h"
#include "storage/record_query.h"

namespace tessera::storage {
namespace {

constexpr const char* kTokenKey = "a memory store's tokens are signed to notice mistakes, not attacks";

/// Position of a field among an entity's columns.
size_t indexOf(const Field* field) { return static_cast<size_t>(field - recordEntity().fields.data()); }

}  // namespace

absl::StatusOr<v1::TuningRecord> MemoryTransaction::getRecord(const std::string& id) {
  const v1::TuningRecord* record = tables_.records.find(id);
  if (record == nullptr) return absl::NotFoundError(absl::StrCat("there is no record \"", id, "\""));
  return *record;
}

absl::StatusOr<Page<BestGroup>> MemoryTransaction::bestRecords(const BestQuery& query) {
  std::map<GroupKey, std::vector<const v1::TuningRecord*>> groups;
  for (const auto& [id, record] : tables_.records.rows()) {
    if (failed(*record) || !(nanToZero(record->median_ms()) > 0)) continue;
    groups[{projectOf(*record), record->workload_hash(), record->target_name(), record->target_hash(),
            record->threads()}]
        .push_back(record.get());
  }
  // As in SQL, groups are walked in the order of their keys, from behind the last one of the page before.
  const auto next = [&](const GroupKey& behind) -> absl::StatusOr<std::optional<GroupKey>> {
    const auto group = groups.upper_bound(behind);
    return group == groups.end() ? std::nullopt : std::optional(group->first);
  };
  const auto best = [&](const GroupKey& group, int top) -> absl::StatusOr<std::vector<v1::TuningRecord>> {
    std::vector<const v1::TuningRecord*>& all = groups[group];
    std::ranges::sort(all, {}, [](const v1::TuningRecord* r) { return std::pair(r->median_ms(), r->id()); });
    std::vector<v1::TuningRecord> fastest;
    for (const v1::TuningRecord* record : all)
      if (static_cast<int>(fastest.size()) < top) fastest.push_back(*record);
    return fastest;
  };
  return walkGroups(query, kTokenKey, next, best);
}

absl::StatusOr<std::vector<RecordGroup>> MemoryTransaction::recordStatistics(const std::string& project,
                                                                             const std::string& filter,
                                                                             const std::string& group_by, int limit) {
  TESSERA_ASSIGN_OR_RETURN(const Field* field, groupField(group_by));
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<RowFilter> rows, makeRowFilter(filter, recordEntity()));
  struct Group {
    RecordGroup told;
    std::set<std::string> workloads;
  };
  std::map<Value, Group> groups;
  for (const auto& [id, record] : tables_.records.rows()) {
    const std::vector<Value> columns = columnsOf(*record);
    if (!rows->matches(columns) || !isVisibleTo(project, recordEntity(), columns)) continue;
    const Value value = field == nullptr ? Value(std::string()) : columns[indexOf(field)];
    const bool first = !groups.contains(value);
    Group& group = groups[value];
    RecordGroup& told = group.told;
    told.value = groupText(field, value);
    ++told.records;
    told.failed += failed(*record) ? 1 : 0;
    group.workloads.insert(record->workload_hash());
    const double median = nanToZero(record->median_ms());
    if (!failed(*record) && median > 0 && (told.best_ms == 0 || median < told.best_ms)) told.best_ms = median;
    told.best_speed = std::max(told.best_speed, speedOf(*record));
    told.first_time_us = first ? record->create_time_us() : std::min(told.first_time_us, record->create_time_us());
    told.last_time_us = first ? record->create_time_us() : std::max(told.last_time_us, record->create_time_us());
  }
  std::multimap<int64_t, RecordGroup> by_count;  // equal counts keep the order of their values
  for (auto& [value, group] : groups) {
    group.told.workloads = static_cast<int64_t>(group.workloads.size());
    by_count.emplace(-group.told.records, std::move(group.told));
  }
  std::vector<RecordGroup> answer;
  for (auto& [count, group] : by_count)
    if (static_cast<int>(answer.size()) < limit) answer.push_back(std::move(group));
  return answer;
}

absl::Status MemoryTransaction::putRecord(const v1::TuningRecord& record) {
  if (record.id().empty()) return absl::InvalidArgumentError("TuningRecord.id is empty; every stored entity needs one");
  tables_.records.put(record.id(), completed(record));
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryTransaction::mergeRecord(v1::TuningRecord record) {
  const std::string content = contentHash(record);
  for (const auto& [id, known] : tables_.records.rows())
    if (projectOf(*known) == projectOf(record) && contentHash(*known) == content) return false;
  if (record.id().empty() || tables_.records.contains(record.id())) {
    record.set_id(idOfMerged(projectOf(record), content));
  }
  const std::string id = record.id();
  tables_.records.put(id, completed(std::move(record)));
  return true;
}

}  // namespace tessera::storage
