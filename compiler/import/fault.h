#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/failure.h"

/// Returns from the calling function when `expr`, an absl::Status, is an error.
#define TESSERA_RETURN_IF_ERROR(expr)                                 \
  do {                                                                \
    if (absl::Status status_ = (expr); !status_.ok()) return status_; \
  } while (false)

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are a declaration and an identifier
/// Assigns the value of `expr`, an absl::StatusOr, to `lhs` or returns its error from the calling function.
#define TESSERA_ASSIGN_OR_RETURN(lhs, expr) \
  TESSERA_ASSIGN_OR_RETURN_IMPL(TESSERA_CONCAT(status_or_, __LINE__), lhs, expr)
#define TESSERA_ASSIGN_OR_RETURN_IMPL(var, lhs, expr) \
  auto var = (expr);                                  \
  if (!var.ok()) return var.status();                 \
  lhs = *std::move(var)
// NOLINTEND(bugprone-macro-parentheses)
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_IMPL(a, b)
#define TESSERA_CONCAT_IMPL(a, b) a##b

namespace tessera::compiler {

/// The particulars of a Failure besides its reason and message.
struct FaultDetails {
  std::string attribute = {};
  std::string found = {};
  std::string accepted = {};
  std::string fix = {};
  std::string node = {};
  std::string op_type = {};
};

/// A Failure about the model as a status. All text is made printable (see printable()).
absl::Status fault(v1::Failure::Reason reason, std::string_view message, const FaultDetails& details = {});

/// Text of the model as it may appear in a message: at most 200 bytes, valid UTF-8, no control characters.
std::string printable(std::string_view text);

}  // namespace tessera::compiler
