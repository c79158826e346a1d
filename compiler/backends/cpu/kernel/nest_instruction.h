#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/backends/cpu/nest.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "mlir/IR/Builders.h"

/// Applies an instruction of the target to the products of a nest (instruction/product_instruction.h).
namespace tessera::compiler::codegen {

/// Copies of the nest, each rewritten for one instruction: of each kind of instruction, the first one that the nest can
/// use and a kernel can run. In ascending order of cycles on one core. `wanted` constrains the kernels' plans. Empty if
/// the nest has to use multiply-adds.
std::vector<Nest> instructionVariants(mlir::OpBuilder& builder, const Nest& nest, const Chip& chip,
                                      const PlanConstraints& wanted = {});

/// Rewrites the nest for the instruction called `name`; an empty name leaves it unchanged. Errors: INVALID_SCHEDULE
/// with the leaf's path and the reason, when the target has no such instruction or the nest cannot use it.
absl::Status rewriteNestFor(mlir::OpBuilder& builder, Nest& nest, const Chip& chip, const std::string& name,
                            const std::string& path);

}  // namespace tessera::compiler::codegen
