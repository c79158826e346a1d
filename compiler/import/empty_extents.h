#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// An extent `result` that an operator derives from the extent `from`, and that must not become 0 unless `from` is 0:
/// later operators would get an empty image where the model's author expects a non-empty one.
struct NonEmptyExtent {
  mlir::Value from, result;   ///< tensor<i64>
  std::string node;           ///< the node's name in errors
  std::string before, after;  ///< error text around the value of the extent
};

/// The sizes of a range from `refused_from` to `least` - 1 are refused for an extent, and no size from `least` on is.
struct LeastSize {
  int dimension;  ///< position in ImportedModel.dimensions
  int64_t refused_from, least;
};

/// Returns the least size that an extent does not refuse, for an extent that refuses only sizes below it. Nothing if
/// refusedSizes() would not find these sizes. The model may be incomplete.
std::optional<LeastSize> leastSize(const ImportedModel& model, mlir::func::FuncOp main, const NonEmptyExtent& extent);

/// Returns the sizes of ranges at which the `result` of one of `extents` is 0 and its `from` is not, each with the
/// first node for which this holds. Checks only pairs that depend on one range, the same for both, and sizes of that
/// range up to ExtentFunctions::kLongest.
std::vector<v1::RefusedSizes> refusedSizes(const ImportedModel& model, mlir::func::FuncOp main,
                                           const std::vector<NonEmptyExtent>& extents);

}  // namespace tessera::compiler
