#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler::codegen {

/// A unit attribute of the operation around a block in which several points evaluate one body (v1::Kernel.interleaved):
/// their chains of dependent operations are interleaved, once functions are arithmetic.
inline constexpr char kInterleaved[] = "tessera.interleaved";

/// Orders what stands between two writes in such blocks by depth: first what depends on nothing there, then what
/// depends on that. One chain after another would leave the arithmetic units idle: a chain of a dozen multiply-adds of
/// four cycles' latency is longer than what a core keeps in view of the chains behind it.
void interleavePoints(mlir::ModuleOp module);

}  // namespace tessera::compiler::codegen
