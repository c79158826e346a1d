#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/Location.h"

namespace tessera::compiler {

/// Names the model's nodes of these locations, each once, joined by " + ". Long lists keep their first and last names.
std::string nodeNames(llvm::ArrayRef<mlir::Location> locations);

}  // namespace tessera::compiler
