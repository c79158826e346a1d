#pragma once

#include <string>

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

namespace tessera::compiler::training {

/// Returns the name of the graph node that an operation of an imported model belongs to.
inline std::string nodeName(mlir::Operation& op) {
  const auto name = mlir::dyn_cast<mlir::NameLoc>(op.getLoc());
  return name ? name.getName().str() : "";
}

}  // namespace tessera::compiler::training
