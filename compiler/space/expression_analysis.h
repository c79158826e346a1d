#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/static_analysis.h"

namespace tessera::compiler::space {

/// The nodes of a tensor expression, one per statement (thesis, 4.3.1). Extents must be given in the text. Fails with
/// INVALID_MODEL like the import.
absl::StatusOr<std::vector<StaticAnalysis::Node>> nodesOfExpression(std::string_view text);

}  // namespace tessera::compiler::space
