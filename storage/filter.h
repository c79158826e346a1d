#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// The subset of AIP-160 that lists accept:
///
///     state = FAILED AND (name = "resnet*" OR target : "lake") -cached=true create_time > "2026-01-31T00:00:00Z"
///
/// comparisons `=  !=  <  <=  >  >=  :`, `AND`, `OR`, `NOT` or `-`, parentheses, quoted strings with `*` as a
/// wildcard (`\*` is a star), `field:*` for "is set". As in AIP-160, terms side by side are joined by AND
/// and **OR binds tighter than AND**.
namespace tessera::storage {

inline constexpr size_t kMaxFilterBytes = 4096;
inline constexpr int kMaxFilterDepth = 32;
inline constexpr int kMaxFilterComparisons = 64;

/// A part of the filter and where it stands, for messages. Positions count bytes from 1.
struct FilterText {
  std::string text;
  size_t position = 0;
};

struct Comparison {
  FilterText field;
  FilterText op;
  FilterText value;               ///< without quotes and escapes
  std::vector<size_t> wildcards;  ///< where in value.text an unescaped * stands
};

struct Expression {
  enum class Kind { kAnd, kOr, kNot, kComparison };
  Kind kind = Kind::kAnd;
  std::vector<Expression> children;  ///< kNot has one; an empty filter is a kAnd without any
  Comparison comparison;             ///< kComparison
};

/// INVALID_ARGUMENT naming the position, what was found there and what is accepted.
absl::StatusOr<Expression> parseFilter(std::string_view filter);

/// The error of both filter passes, as a v1::Failure of its own.
absl::Status filterError(size_t position, std::string_view found, std::string_view accepted);

}  // namespace tessera::storage
