#pragma once

#include "compiler/backends/cpu/phases.h"
#include "compiler/backends/cpu/static_analysis.h"

namespace tessera::compiler::codegen {

/// The nodes of a bufferized workload.
std::vector<StaticAnalysis::Node> nodesOf(mlir::func::FuncOp func);

/// Extents of all nests' loops, merged as in a tile tree.
std::map<std::pair<int, std::string>, int64_t> extentsOf(const PhaseList& list);

}  // namespace tessera::compiler::codegen
