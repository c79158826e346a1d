#pragma once

#include "compiler/graph/layout/channel_layout.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// The channel loops of a convolution with constant weights: plain or grouped, any number of spatial dimensions,
/// channels next to the batch or last. Depthwise convolutions are excluded, since they do not mix channels.
struct Convolution {
  Channels input;   ///< dimensions of the input: [group,] input channel
  Channels output;  ///< of the result: [group,] output channel
  int64_t groups = 1;
  int64_t stride = 1;  ///< between windows along the last spatial dimension
};
std::optional<Convolution> asConvolution(mlir::linalg::GenericOp op);

/// Whether `op` is elementwise with its operands' dimensions in any order. Such an operation may be a pixel shuffle,
/// which turns digits of the channel number into space or back.
bool movesDigits(mlir::linalg::GenericOp op);

/// Finds the activations among the values, and their channel dimensions.
///
/// Starts at convolutions and pools and spreads in both directions, through operations that treat channels alike,
/// padding, concatenation, slices, views that split or merge channel dimensions, transposes and pixel shuffles. A value
/// known at compile time is never an activation.
class ChannelRoles {
 public:
  explicit ChannelRoles(mlir::func::FuncOp main);

  std::optional<Channels> of(mlir::Value value) const;
  /// Returns the value that represents `value`: transposes of whole activations and views share memory with their
  /// source.
  mlir::Value root(mlir::Value value) const;
  /// Whether `op` only permutes or reshapes its operand; its result has the same root.
  bool isAlias(mlir::Operation* op) const;

 private:
  void set(mlir::Value value, Channels channels);
  void visit(mlir::Operation* op);
  void visitGeneric(mlir::linalg::GenericOp op);
  void visitView(mlir::Operation* op);

  llvm::DenseMap<mlir::Value, Channels> channels_;
  llvm::SmallVector<mlir::Operation*> pending_;
};

}  // namespace tessera::compiler
