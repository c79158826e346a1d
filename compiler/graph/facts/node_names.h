#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/Location.h"

namespace tessera::compiler {

/// The model's nodes behind these locations, each once, joined by " + "; long lists keep their ends.
std::string nodeNames(llvm::ArrayRef<mlir::Location> locations);

}  // namespace tessera::compiler
