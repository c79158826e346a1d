#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/Location.h"

namespace tessera::compiler {

/// Names the model's nodes of these locations, each once, joined by " + ". Long lists keep their first and last names.
std::string nodeNames(llvm::ArrayRef<mlir::Location> locations);

/// Returns the name of the location's first node; empty if it has none.
std::string firstNodeName(mlir::Location location);

}  // namespace tessera::compiler
