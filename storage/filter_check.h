#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/entity.h"
#include "storage/filter.h"
#include "storage/value.h"

namespace tessera::storage {

/// A comparison whose field exists, takes the operator, and has a value of the field's type. What every kind of store
/// makes its own conditions of. Text compares byte for byte; `:` finds a part of a text without regard to ASCII case;
/// enums go by name, times are RFC 3339 or microseconds.
struct CheckedComparison {
  enum class Op {
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kContains,
    kIsSet,
    kHasPart,
    kLacksPart
  };
  const Field* field = nullptr;
  Op op = Op::kEqual;
  Value value;  ///< in lower case for kContains; unused for kIsSet and where there are pieces; of labels the part
  /// What stands between the wildcards of a text, at least two, where there are any: after =, != and : only. In lower
  /// case for kContains.
  std::vector<std::string> pieces;
};

/// INVALID_ARGUMENT naming the position, what was found and what is accepted.
absl::StatusOr<CheckedComparison> checkComparison(const Comparison& comparison, const Entity& entity);

}  // namespace tessera::storage
