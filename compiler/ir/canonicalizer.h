#pragma once

#include <memory>

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

/// MLIR's canonicalizer without the patterns of it that change results (the list, and why, is in the source). Every
/// pipeline of the compiler, and every oracle that a pipeline is compared with, canonicalizes with this one.
std::unique_ptr<mlir::Pass> createCanonicalizer();

}  // namespace tessera::compiler
