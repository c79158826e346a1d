#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Cuts bodies of elementwise operations that keep more values alive at once than the chip has vector registers in two,
/// where fewest values cross from one to the other, as long as less is moved for that than would be spilled (hardware
/// adaptation, section 6.1.1). A decision "cut" for every such body, cut or not. Both parts stay in one group; code
/// generation, which counts in the same way, does not join them again.
std::vector<v1::Decision> cutBodies(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices);

}  // namespace tessera::compiler
