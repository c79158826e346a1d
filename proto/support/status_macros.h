#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Evaluates an absl::Status and returns it from the calling function if it is an error.
#define TESSERA_RETURN_IF_ERROR(...)                                         \
  do {                                                                       \
    if (absl::Status tessera_status = (__VA_ARGS__); !tessera_status.ok()) { \
      return tessera_status;                                                 \
    }                                                                        \
  } while (false)

/// Evaluates an absl::StatusOr. Assigns its value to `lhs`, or returns its error from the calling function. `lhs` may
/// declare a variable; the type must not contain a comma: `TESSERA_ASSIGN_OR_RETURN(const auto job, tx.getJob(id));`
#define TESSERA_ASSIGN_OR_RETURN(lhs, ...) \
  TESSERA_ASSIGN_OR_RETURN_AS(TESSERA_CONCAT(tessera_status_or_, __LINE__), lhs, __VA_ARGS__)
// The arguments are a name and a declaration, which cannot be parenthesized.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TESSERA_ASSIGN_OR_RETURN_AS(result, lhs, ...) \
  auto result = (__VA_ARGS__);                        \
  if (!result.ok()) {                                 \
    return std::move(result).status();                \
  }                                                   \
  lhs = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define TESSERA_CONCAT_INNER(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_INNER(a, b)
