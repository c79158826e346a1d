#pragma once

#include "mlir/IR/BuiltinTypes.h"

/// What the operations of a convolution rewritten as stages (Winograd's) carry for those who group, slice and describe
/// them.
namespace tessera::compiler {

/// On the stages of one rewritten convolution: a number that they share, so that they become one group.
constexpr char kStageOf[] = "tessera.stage_of";
/// On the product of a rewritten convolution: the algorithm's name, and the convolution in words.
constexpr char kAlgorithm[] = "tessera.algorithm";
constexpr char kConvolution[] = "tessera.convolution";
/// On the product too: microseconds by which it is priced below the direct convolution.
constexpr char kSavedUs[] = "tessera.saved_us";
/// On the stages, where they run slice by slice: rows of the result a slice has, a multiple of m, and m.
constexpr char kSliceRows[] = "tessera.slice_rows";
constexpr char kBlockRows[] = "tessera.block_rows";

/// The dimension of rows of what stages read and make, [N, C/c, H, W, c], or [N, H, W, c] of one block of channels.
inline int rowsOf(mlir::RankedTensorType type) { return static_cast<int>(type.getRank()) - 3; }

}  // namespace tessera::compiler
