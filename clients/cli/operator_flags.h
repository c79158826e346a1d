#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/loopnest/nest.h"
#include "proto/support/cli11.h"
#include "tessera/v1/target.pb.h"

namespace tessera::client {

/// An operator without a model: `--op` and `--extents`.
struct OperatorFlags {
  std::string text, extents;

  /// Adds `--op`, with `what` as its description, and "--extents", which needs it. Returns the option of `--op`.
  CLI::Option* addTo(CLI::App* command, const std::string& what);
  /// Returns the named operator, or the expression with its extents. `mappable`: it must be one that instructions map
  /// to (checkMappable()).
  absl::StatusOr<compiler::loopnest::Nest> nest(bool mappable = true) const;
};

/// Returns the named instruction. Without a name, returns the multiply-add instruction with the most iterations, among
/// equals the one with the fewest subscripts: a matrix-vector product is preferred to pairs of vectors.
absl::StatusOr<v1::Intrinsic> instructionOf(const v1::Target& target, const std::string& name);

}  // namespace tessera::client
