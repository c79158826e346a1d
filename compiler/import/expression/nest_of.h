#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"
#include "compiler/loopnest/nest.h"

namespace tessera::compiler::expression {

/// The statements of a text as one loop nest. Variables of one name are one loop of the joint loop space, so statements
/// that share a name agree on its extent. Bodies are described by their combination and number of operations. A result
/// has the element type of a cast around its right side, otherwise that of the first tensor read.
///
/// Fails with INVALID_MODEL naming line and column: extents must be numbers or params, subscripts sums of multiples of
/// variables, and a variable has one extent in the whole text.
absl::StatusOr<loopnest::Nest> nestOf(const Program& program, const std::string& name);

}  // namespace tessera::compiler::expression
