#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/entity.h"
#include "storage/value.h"

namespace tessera::storage {

/// A WHERE condition with a `?` per value: text written by a user never becomes part of the statement.
struct Condition {
  std::string sql;
  std::vector<Value> values;
};

/// Parses a filter and checks it against the entity's fields (filter_check.h). INVALID_ARGUMENT with the position, the
/// text found there and what is accepted.
absl::StatusOr<Condition> compileFilter(std::string_view filter, const Entity& entity);

}  // namespace tessera::storage
