#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/nest.h"
#include "compiler/codegen/tiling/tile_plan.h"
#include "mlir/IR/Builders.h"

/// How a nest computes its products by an instruction of the target (instruction/product_instruction.h).
namespace tessera::compiler::codegen {

/// The nest as instructions take it up: of each kind the first that it can use and whose kernel runs it, those of the
/// fewest cycles on one core first. `wanted`: of the kernels' plans. None: multiply-adds are all there is.
std::vector<Nest> instructedForms(mlir::OpBuilder& builder, const Nest& nest, const Chip& chip,
                                  const Wanted& wanted = {});

/// The nest takes up the instruction called `name`; empty: none. Errors: INVALID_SCHEDULE with the leaf's path, and
/// why, where the target has no such instruction or the nest cannot use it.
absl::Status takeUpInstruction(mlir::OpBuilder& builder, Nest& nest, const Chip& chip, const std::string& name,
                               const std::string& path);

}  // namespace tessera::compiler::codegen
