#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Removes operations that only move elements and that undo or repeat each other. All rules are exact.
/// - transposes of transposes become one, or none; a transpose that moves only dimensions of extent one is a reshape;
/// - a transpose moves after the elementwise operation that reads it, so that pairs on both sides of a chain meet
///   and products keep the chain as their epilogue; through a reshape if that brings two transposes together;
/// - slices of slices, of one part of a concatenation, of the inside of a padding;
/// - concatenations of concatenations, of neighbouring slices of one tensor; paddings of paddings with one value.
/// MLIR's canonicalization handles reshapes of reshapes, identity slices and empty paddings. Returns the number of
/// rewrites.
int simplifyMovement(mlir::func::FuncOp main);

}  // namespace tessera::compiler
