#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/intrinsic/nest.h"
#include "proto/support/cli11.h"

namespace tessera::client {

/// An operator without a model: `--op` and `--extents`.
struct OperatorFlags {
  std::string text, extents;

  /// `--op`, described as `what`, and "--extents", which needs it. Returns the former.
  CLI::Option* addTo(CLI::App* command, const std::string& what);
  /// The operator that was named, or the expression with its extents.
  absl::StatusOr<compiler::intrinsic::Nest> nest() const;
};

/// The instruction that was named, else of those that multiply and add the first with the most iterations, and of
/// equals with the fewest subscripts: a matrix by a vector rather than pairs of vectors.
absl::StatusOr<v1::Intrinsic> instructionOf(const v1::Target& target, const std::string& name);

}  // namespace tessera::client
