#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Returns from the calling function when `expr` (an absl::Status) is not OK.
#define TESSERA_TRY(expr)                                             \
  do {                                                                \
    if (absl::Status tessera_status = (expr); !tessera_status.ok()) { \
      return tessera_status;                                          \
    }                                                                 \
  } while (false)

#define TESSERA_CONCAT_INNER(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_INNER(a, b)

/// `TESSERA_ASSIGN(auto job, tx.getJob(id));` declares `job`, or returns the error.
#define TESSERA_ASSIGN(declaration, expr) TESSERA_ASSIGN_AS(TESSERA_CONCAT(tessera_or_, __LINE__), declaration, expr)
// Its arguments are a new name and a declaration, which take no parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TESSERA_ASSIGN_AS(result, declaration, expr) \
  auto result = (expr);                              \
  if (!result.ok()) {                                \
    return result.status();                          \
  }                                                  \
  declaration = std::move(result).value()
// NOLINTEND(bugprone-macro-parentheses)
