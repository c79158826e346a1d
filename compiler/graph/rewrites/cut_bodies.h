#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Cuts bodies of elementwise operations that keep more values alive than the chip has vector registers into two, at
/// the point that the fewest values cross, if that moves less than spilling would (hardware adaptation, section 6.1.1).
/// Returns a decision "cut" for every such body, cut or not. Both parts stay in one group; code generation counts live
/// values in the same way and does not rejoin them.
std::vector<v1::Decision> splitBodies(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices);

}  // namespace tessera::compiler
