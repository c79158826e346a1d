#pragma once

#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// An extent that an operator makes of another, of which it has to leave some: what follows would be computed of
/// nothing where the model's author expects an image.
struct DerivedExtent {
  mlir::Value from, result;   ///< tensor<i64>
  std::string node;           ///< as errors call it
  std::string before, after;  ///< what is wrong with a size, around the extent that it comes to
};

/// The sizes of ranges for which some of `extents` comes to 0 though what it is made of does not, with the node that is
/// to blame; the first of several. Of extents that follow one range, up to ExtentSeries::kLongest.
std::vector<v1::RefusedSizes> refusedSizes(const ImportedModel& model, mlir::func::FuncOp main,
                                           const std::vector<DerivedExtent>& extents);

}  // namespace tessera::compiler
