#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/entity.h"
#include "storage/value.h"

namespace tessera::storage {

/// A WHERE condition with `?` for each value: nothing a user wrote becomes part of the statement's text.
struct Condition {
  std::string sql;
  std::vector<Value> values;
};

/// Parses a filter and checks it against the entity's fields (filter_check.h).
/// INVALID_ARGUMENT naming the position, what was found and what is accepted.
absl::StatusOr<Condition> compileFilter(std::string_view filter, const Entity& entity);

}  // namespace tessera::storage
