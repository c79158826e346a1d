#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/import/emitter.h"
#include "compiler/import/expression/bounds.h"

namespace tessera::compiler::expression {

/// Emits one statement as a linalg.generic over `loops`. Unconditional reads with linear subscripts become operands
/// with affine access functions, which the schedule and mapping analyses use. All other reads become tensor.extract in
/// the body, with subscripts clamped to the tensor.
absl::StatusOr<Tensor> lowerStatement(Emitter& emitter, const Statement& statement, const std::vector<Loop>& loops,
                                      const std::map<std::string, Tensor>& tensors, const Constants& constants);

}  // namespace tessera::compiler::expression
