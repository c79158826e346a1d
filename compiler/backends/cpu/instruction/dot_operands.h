#pragma once

#include <string>
#include <utility>
#include <variant>

#include "compiler/backends/cpu/instruction/grouping.h"
#include "compiler/target/dot_product.h"

/// What kinds of instructions that are dot products (target/dot_product.h) share: rewriting a nest to steps of groups,
/// and the call of the LLVM intrinsic.
namespace tessera::compiler::codegen {

/// Rewrites the nest to steps of groups for `instruction`. Returns its operands in the instruction's order, or the
/// reason why the instruction does not apply; the nest is then unchanged.
std::variant<std::string, std::pair<Reading, Reading>> takeUpGroups(mlir::OpBuilder& builder, Nest& nest,
                                                                    const DotProduct& instruction);

/// XORs every byte of the groups with `flipped`; the result is vectors of 32-bit groups.
mlir::Value flip(mlir::OpBuilder& builder, mlir::Value groups, uint8_t flipped);

/// The type of an element of the instruction's sources.
mlir::Type elementTypeOf(mlir::OpBuilder& builder, const DotProduct& instruction);

/// sum + products, with operands of the intrinsic's types.
mlir::Value callDotProduct(mlir::OpBuilder& builder, const DotProduct& instruction, mlir::Value first,
                           mlir::Value second, mlir::Value sum);

}  // namespace tessera::compiler::codegen
