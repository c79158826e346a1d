#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Removes conversions that change no value, so that mixed-precision graphs compute and move the narrow type.
///
/// A conversion preserves values if the wider type represents every value of the narrower one: f16 and bf16 in f32, f32
/// in f64, an integer in a wider one, i8 in f32. Only such a step may vanish: f16 -> f32 -> f16 is the identity; f32 ->
/// f16 -> f32 rounds and stays. In particular:
/// - chains of conversions lose their value-preserving middle, also through integer <-> float with its saturation
///   (the comparisons and selects of the importer fold away when the range of the source decides them);
/// - maxima, minima, signs, selections and comparisons of widened values work on the narrow ones (type propagation:
///   none of them rounds);
/// - widening moves after reshapes, transposes and slices, narrowing before them: they then move fewer bytes, meet
///   each other and cancel, and equal conversions of different views become one.
/// Returns the number of rewrites.
int eliminateCasts(mlir::func::FuncOp main);

}  // namespace tessera::compiler
