#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/codegen/static_analysis.h"

namespace tessera::compiler::space {

/// The nodes of a tensor expression: a statement each, as it is written (thesis, 4.3.1). Extents must stand in the
/// text. INVALID_MODEL as importing it says.
absl::StatusOr<std::vector<StaticAnalysis::Node>> nodesOfExpression(std::string_view text);

}  // namespace tessera::compiler::space
