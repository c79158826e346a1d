#pragma once

#include <vector>

#include "compiler/graph/code_facts.h"
#include "compiler/ir/imported_model.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

/// Lets products and convolutions of quantized operands read 8-bit elements. With x and w of 8 bits, zero points z and
/// v, and K steps, all in 32-bit integers, whose wrapping changes no sum:
///
///   sum (x - z) (w - v)  =  sum x w  -  z sum w  -  v sum x  +  K z v
///
/// Sums of weights are constants. Operands get the signs that an instruction of the target requires: flipping the sign
/// bit of an operand adds 128 to its zero point or subtracts it. Zero padding becomes padding with the zero point.
/// A product of dequantized operands, ((x - z) s) ((w - v) t) in single precision, becomes the exact sum in integers,
/// scaled by s and by t. That rounds three times, whereas the float product rounds at every step; ONNX Runtime does the
/// same.
/// Unchanged: convolutions whose weights have zero points (their sums of x are windows), and zero points that vary
/// along a sum or that are unknown where an operand is padded.
/// `weights` are the model's, or null if all constants are in the module. `blocks` are the signs that instructions for
/// blocks take in addition to the chip's vector instructions. Returns the number of products.
int lowerToInt8Matmul(mlir::func::FuncOp main, const Chip& chip, const std::vector<Weight>* weights,
                      llvm::ArrayRef<CodeFacts::ByteFactors> blocks = {});

}  // namespace tessera::compiler
