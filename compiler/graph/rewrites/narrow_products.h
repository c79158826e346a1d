#pragma once

#include <vector>

#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets products and convolutions of quantized operands read elements of 8 bits. With x and w of 8 bits, zero points z
/// and v, and K steps, all in 32-bit integers, whose wrapping changes no sum:
///
///   sum (x - z) (w - v)  =  sum x w  -  z sum w  -  v sum x  +  K z v
///
/// Sums of weights are constants. Signs become those that an instruction of the target takes: turning the sign bit of
/// an operand adds 128 to its zero point or takes it away. What is padded with zeros is padded with its zero point.
/// Products of dequantized operands, ((x - z) s) ((w - v) t) in single precision, are taken for what they stand for:
/// the exact sum in integers, scaled by s and by t. That rounds three times where the float product rounds at every
/// step, as ONNX Runtime does with such models. Left as they are: convolutions whose weights have zero points (their
/// sums of x are windows), zero points that vary along a sum, or that are not known where something is padded.
/// `weights`: of the model, or null where all constants are in the module. Returns the number of products.
int narrowProducts(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights);

}  // namespace tessera::compiler
