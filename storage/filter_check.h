#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/entity.h"
#include "storage/filter.h"
#include "storage/value.h"

namespace tessera::storage {

/// A valid comparison: the field exists and supports the operator, and the value has the field's type. Each kind of
/// store derives its own condition from it. Texts are compared bytewise; `:` searches a text and ignores ASCII case;
/// enums are given by name, times in RFC 3339 or as microseconds.
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
  Value value;  ///< lower case for kContains; for labels, the substring to find; unused for kIsSet and with pieces
  /// The text between wildcards, at least two pieces, if there are wildcards; only for =, != and :. Lower case for
  /// kContains.
  std::vector<std::string> pieces;
};

/// INVALID_ARGUMENT with the position, the text found there and what is accepted.
absl::StatusOr<CheckedComparison> checkComparison(const Comparison& comparison, const Entity& entity);

}  // namespace tessera::storage
