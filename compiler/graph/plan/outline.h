#pragma once

#include <optional>
#include <vector>

#include "compiler/graph/plan/groups.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera::compiler {

/// A group as a function of its own. `arguments` are the values of main it reads, in order of first use;
/// its results are the group's. Constants, fills and scalar arithmetic are copied in; so are slices, whose reader
/// gets the whole tensor: a part of it is an offset in the access function, never a copy.
struct OutlinedGroup {
  mlir::OwningOpRef<mlir::func::FuncOp> function;
  std::vector<mlir::Value> arguments;
  std::optional<v1::ChainTiling> chain;         ///< the group's
  v1::Choice choice = {};                       ///< the group's
  std::optional<v1::FusionProfit> fusion = {};  ///< the group's
};

/// Tensors of i1 have no defined byte layout, so they cross the border as i8 holding 0 or 1.
OutlinedGroup outlineGroup(const Group& group);

/// A function that copies a tensor of the given type: for results of the model that no group writes.
mlir::OwningOpRef<mlir::func::FuncOp> makeCopyFunction(mlir::Location location, mlir::RankedTensorType type);

/// The type a value has at a workload's border.
mlir::RankedTensorType borderType(mlir::RankedTensorType type);

}  // namespace tessera::compiler
