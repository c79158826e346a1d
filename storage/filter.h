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
/// Comparisons `=  != < <= > >= :`, `AND`, `OR`, `NOT` or `-`, parentheses, quoted strings with the wildcard `*` (`\*`
///                 is a literal star), `field:*` for "is set". As in AIP-160, adjacent terms are joined by AND, and
///                 **OR binds tighter than AND**.
namespace tessera::storage {

inline constexpr size_t kMaxFilterBytes = 4096;
inline constexpr int kMaxFilterDepth = 32;
inline constexpr int kMaxFilterComparisons = 64;

/// A piece of the filter and its position, for messages. Positions count bytes from 1.
struct FilterText {
  std::string text;
  size_t position = 0;
};

struct Comparison {
  FilterText field;
  FilterText op;
  FilterText value;               ///< without quotes and escapes
  std::vector<size_t> wildcards;  ///< positions of unescaped * in value.text
};

struct Expression {
  enum class Kind { kAnd, kOr, kNot, kComparison };
  Kind kind = Kind::kAnd;
  std::vector<Expression> children;  ///< one for kNot; none for an empty filter, which is a kAnd
  Comparison comparison;             ///< kComparison
};

/// INVALID_ARGUMENT with the position, the text found there and what is accepted.
absl::StatusOr<Expression> parseFilter(std::string_view filter);

/// Error of the parser and the checker, as a v1::Failure.
absl::Status filterError(size_t position, std::string_view found, std::string_view accepted);

}  // namespace tessera::storage
