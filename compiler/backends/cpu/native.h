#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/target/chip.h"
#include "mlir/IR/BuiltinOps.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen {

/// The chip a unit is compiled for. Instructions whose intrinsic LLVM does not know, or not for this architecture, are
/// left out. Errors: INVALID_TARGET when LLVM does not know the triple or the cpu.
absl::StatusOr<Chip> chipOf(const v1::BuildUnit& unit);

/// Lowers arith, scf, math, vector, memref and func to the LLVM dialect. Mathematical functions become polynomials, so
/// that no library is needed.
absl::Status lowerToLlvm(mlir::ModuleOp module, bool fuses_multiply_add);

/// Translates to LLVM IR, optimizes, emits a relocatable object. Equal modules give equal bytes.
/// Errors: INTERNAL when the object would need a symbol it does not define.
absl::StatusOr<std::string> emitObject(mlir::ModuleOp module, const v1::CodeForm& code, int vector_bits);

}  // namespace tessera::compiler::codegen
