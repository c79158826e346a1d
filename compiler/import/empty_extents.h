#pragma once

#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// An extent that an operator derives from another and that must not become 0: later operators would get an empty image
/// where the model's author expects one.
struct NonEmptyExtent {
  mlir::Value from, result;   ///< tensor<i64>
  std::string node;           ///< the node's name in errors
  std::string before, after;  ///< error text around the value of the extent
};

/// Returns the sizes of ranges at which one of `extents` becomes 0 although its source is not, with the first node
/// responsible. Only extents that depend on one range are checked, up to ExtentFunctions::kLongest.
std::vector<v1::RefusedSizes> refusedSizes(const ImportedModel& model, mlir::func::FuncOp main,
                                           const std::vector<NonEmptyExtent>& extents);

}  // namespace tessera::compiler
