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

/// Parses a filter and checks it against the entity's fields. Text compares byte for byte; `:` finds a
/// part of a text without regard to ASCII case; enums go by name, times are RFC 3339 or microseconds.
/// INVALID_ARGUMENT naming the position, what was found and what is accepted.
absl::StatusOr<Condition> compileFilter(std::string_view filter, const Entity& entity);

}  // namespace tessera::storage
