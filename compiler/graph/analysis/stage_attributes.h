#pragma once

#include "mlir/IR/BuiltinTypes.h"

/// Attributes of the three stages of a convolution in Winograd's domain (input transform, batched product, output
/// transform), for grouping, slicing and describing them.
namespace tessera::compiler {

/// On each stage: a number that the stages of one convolution share, so that they become one group.
constexpr char kStageOf[] = "tessera.stage_of";
/// On the product: the algorithm's name, and the convolution in words.
constexpr char kAlgorithm[] = "tessera.algorithm";
constexpr char kConvolution[] = "tessera.convolution";
/// On the product: predicted time of the direct convolution minus that of the stages, in microseconds.
constexpr char kSavedUs[] = "tessera.saved_us";
/// On stages that run slice by slice: rows of the result in a slice (a multiple of m), and m.
constexpr char kSliceRows[] = "tessera.slice_rows";
constexpr char kBlockRows[] = "tessera.block_rows";

/// Returns the dimension of rows of a stage's operands and results: [N, C/c, H, W, c], or [N, H, W, c] with one block
/// of channels.
inline int rowsOf(mlir::RankedTensorType type) { return static_cast<int>(type.getRank()) - 3; }

}  // namespace tessera::compiler
