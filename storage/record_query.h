#pragma once

#include <compare>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/entity.h"
#include "storage/store.h"
#include "storage/value.h"

/// Queries for the fastest records and for statistics; shared by both kinds of store.
namespace tessera::storage {

/// Records are compared within a group with equal keys.
struct GroupKey {
  std::string project, workload, target, chip;
  int64_t threads = 0;
  auto operator<=>(const GroupKey&) const = default;
};

/// Returns the first group after a key, in order; none at the end.
using NextGroup = std::function<absl::StatusOr<std::optional<GroupKey>>(const GroupKey& behind)>;
/// Returns the fastest `top` records of a group.
using BestOfGroup = std::function<absl::StatusOr<std::vector<v1::TuningRecord>>(const GroupKey& group, int top)>;

/// Returns a page of groups by stepping from one group to the next.
absl::StatusOr<Page<BestGroup>> walkGroups(const BestQuery& query, const std::string& token_key, const NextGroup& next,
                                           const BestOfGroup& best);

/// The field to group by; null if `name` is empty. INVALID_ARGUMENT lists the accepted fields.
absl::StatusOr<const Field*> groupField(const std::string& name);
/// A value of the field as text.
std::string groupText(const Field* field, const Value& value);

}  // namespace tessera::storage
