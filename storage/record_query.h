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

/// What both kinds of store share of queries about the fastest records and of counts.
namespace tessera::storage {

/// What records are compared within.
struct GroupKey {
  std::string project, workload, target, chip;
  int64_t threads = 0;
  auto operator<=>(const GroupKey&) const = default;
};

/// The first group behind a key, in their order; none at the end.
using NextGroup = std::function<absl::StatusOr<std::optional<GroupKey>>(const GroupKey& behind)>;
/// The fastest `top` records of a group.
using BestOfGroup = std::function<absl::StatusOr<std::vector<v1::TuningRecord>>(const GroupKey& group, int top)>;

/// A page of groups, found by stepping from one to the next.
absl::StatusOr<Page<BestGroup>> walkGroups(const BestQuery& query, const std::string& token_key, const NextGroup& next,
                                           const BestOfGroup& best);

/// The field that records are grouped by; null for none. INVALID_ARGUMENT names those that are accepted.
absl::StatusOr<const Field*> groupField(const std::string& name);
/// A value of it as text.
std::string groupText(const Field* field, const Value& value);

}  // namespace tessera::storage
