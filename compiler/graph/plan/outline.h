#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/plan/groups.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera::compiler {

/// A group as a function. `arguments` are the values of main that it reads, in order of first use; its results are the
/// group's. Constants, fills and scalar arithmetic are copied in. Slices are copied in too: the function takes the
/// whole tensor, and the slice is an offset in its reader's access function, never a copy.
struct OutlinedGroup {
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  std::vector<mlir::Value> arguments;
  std::optional<v1::ChainTiling> chain;         ///< the group's
  v1::Choice choice = {};                       ///< the group's
  std::optional<v1::FusionProfit> fusion = {};  ///< the group's
};

/// Outlines a group. Tensors of i1 have no defined byte layout, so arguments and results of that type are i8 with
/// values 0 and 1.
OutlinedGroup outlineGroup(const Group& group);

/// Returns a function that copies a tensor, for model outputs that no group writes.
mlir::OwningOpRef<mlir::func::FuncOp> makeCopyFunction(mlir::Location location, mlir::RankedTensorType type);

/// Returns the type of a value as an argument or result of a workload.
mlir::RankedTensorType interfaceType(mlir::RankedTensorType type);

}  // namespace tessera::compiler
