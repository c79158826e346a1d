#include "storage/record_query.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/page_token.h"

namespace tessera::storage {
namespace {

constexpr int kDefaultPageSize = 50, kMaxPageSize = 1000;
constexpr size_t kPageBytes = 2 << 20;

/// A key before all groups of a workload; thread counts are never negative.
GroupKey before(std::string project, std::string workload, std::string target = "") {
  return {std::move(project), std::move(workload), std::move(target), "", std::numeric_limits<int64_t>::min()};
}

bool matches(const GroupKey& key, const BestQuery& query) {
  return (query.target.empty() || key.target == query.target) && (query.chip.empty() || key.chip == query.chip) &&
         (query.threads == 0 || key.threads == query.threads);
}

/// The key to continue from after a group that does not match: if the wanted target comes later in this workload, jump
/// to it.
GroupKey skip(const GroupKey& key, const BestQuery& query) {
  if (!query.target.empty() && key.target < query.target) return before(key.project, key.workload, query.target);
  return key;
}

std::string fingerprintOf(const BestQuery& query) {
  return sha256Hex(absl::StrCat("best records\n", query.project, "\n", absl::StrJoin(query.workloads, ","), "\n",
                                query.target, "\n", query.chip, "\n", query.threads, "\n", query.top))
      .substr(0, 32);
}

struct Cursor {
  size_t workload = 0;  ///< position in query.workloads
  GroupKey behind;
};

absl::StatusOr<Cursor> startOf(const BestQuery& query, const std::string& fingerprint, const std::string& token_key) {
  Cursor cursor;
  cursor.behind = before(query.project, query.workloads.empty() ? "" : query.workloads[0]);
  if (query.page_token.empty()) return cursor;
  TESSERA_ASSIGN_OR_RETURN(std::vector<Value> last, readPageToken(query.page_token, fingerprint, token_key));
  const auto text = [&](size_t at) { return std::get<std::string>(last[at]); };
  cursor.behind = {text(0), text(1), text(2), text(3), std::get<int64_t>(last[4])};
  cursor.workload = static_cast<size_t>(std::get<int64_t>(last[5]));
  return cursor;
}

}  // namespace

absl::StatusOr<Page<BestGroup>> walkGroups(const BestQuery& query, const std::string& token_key, const NextGroup& next,
                                           const BestOfGroup& best) {
  const std::string fingerprint = fingerprintOf(query);
  TESSERA_ASSIGN_OR_RETURN(Cursor at, startOf(query, fingerprint, token_key));
  const int size = query.page_size == 0 ? kDefaultPageSize : std::min(query.page_size, kMaxPageSize);
  Page<BestGroup> page;
  size_t bytes = 0;
  while (true) {
    TESSERA_ASSIGN_OR_RETURN(std::optional<GroupKey> found, next(at.behind));
    if (found && !query.project.empty() && found->project != query.project) found = std::nullopt;
    // Past the wanted workload: continue with the next wanted one.
    if (!query.workloads.empty() && (!found || found->workload != query.workloads[at.workload])) {
      if (++at.workload == query.workloads.size()) return page;
      at.behind = before(query.project, query.workloads[at.workload]);
      continue;
    }
    if (!found) return page;
    const GroupKey& key = *found;
    // skip() jumps over groups that cannot match, so a filter on targets does not visit each group.
    if (!matches(key, query)) {
      at.behind = skip(key, query);
      continue;
    }
    if (static_cast<int>(page.items.size()) == size || bytes >= kPageBytes) break;
    TESSERA_ASSIGN_OR_RETURN(std::vector<v1::TuningRecord> records, best(key, query.top));
    for (const v1::TuningRecord& record : records) bytes += record.ByteSizeLong();
    page.items.push_back({key.project, key.workload, key.target, key.chip, key.threads, std::move(records)});
    at.behind = key;
  }
  page.next_page_token = makePageToken(fingerprint,
                                       {at.behind.project, at.behind.workload, at.behind.target, at.behind.chip,
                                        at.behind.threads, static_cast<int64_t>(at.workload)},
                                       token_key);
  return page;
}

absl::StatusOr<const Field*> groupField(const std::string& name) {
  if (name.empty()) return nullptr;
  const auto groups = [](const Field& field) {
    return field.type == FieldType::kText || field.type == FieldType::kInteger || field.type == FieldType::kEnum;
  };
  const Field* field = recordEntity().find(name);
  if (field != nullptr && groups(*field)) return field;
  std::vector<std::string> accepted;
  for (const Field& each : recordEntity().fields)
    if (groups(each)) accepted.push_back(each.name);
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_attribute("group_by");
  failure.set_found(name);
  failure.set_accepted(absl::StrJoin(accepted, ", "));
  failure.set_message(absl::StrCat("group_by: found ", name, "; accepted: ", failure.accepted()));
  return failureStatus(failure);
}

std::string groupText(const Field* field, const Value& value) {
  if (field == nullptr) return "";
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const int64_t number = std::get<int64_t>(value);
  for (const Field::EnumValue& each : field->values)
    if (each.number == number) return each.name;
  return absl::StrCat(number);
}

}  // namespace tessera::storage
