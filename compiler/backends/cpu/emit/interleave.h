#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace tessera::compiler::codegen {

/// A unit attribute of the operation around a block in which several points evaluate one body (v1::Kernel.interleaved).
/// After functions have become arithmetic, the points' chains of dependent operations are interleaved.
inline constexpr char kInterleaved[] = "tessera.interleaved";

/// Orders the operations between two writes in such blocks by depth: first those that depend on nothing in the block,
/// then those that depend on them. Emitting one chain after the other would leave the arithmetic units idle: a chain of
/// a dozen multiply-adds of four cycles' latency is longer than the core's out-of-order window, so the next chain would
/// not overlap with it.
void interleavePoints(mlir::ModuleOp module);

}  // namespace tessera::compiler::codegen
