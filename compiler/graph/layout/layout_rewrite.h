#pragma once

#include <optional>

#include "compiler/graph/layout/channel_layout.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// The role of one operand of a linalg operation when its activations change layout.
struct OperandForm {
  enum Kind {
    kUntouched,   ///< does not vary along channels
    kActivation,  ///< is in `layout`
    kInPlace,     ///< keeps its layout; split dimensions become views ([n, C] becomes [n, C/c, c])
    kConstant,    ///< known at compile time: repacked in reading order
  };
  Kind kind = kUntouched;
  Channels channels{};
  ChannelLayout layout{};
};

/// For each loop the loops that replace it, outermost first. Their product exceeds the extent if it is padded to whole
/// blocks.
using LoopSplits = llvm::SmallVector<llvm::SmallVector<int64_t, 3>>;

/// Splits the loops of `op` for operands (inputs, then results) in these forms. Returns nothing if an access would not
/// be linear in any split of the loops (a block with channels of two convolution groups), or if padding elements of
/// a block could influence a result.
std::optional<LoopSplits> splitLoops(mlir::linalg::GenericOp op, llvm::ArrayRef<OperandForm> forms);

/// Rebuilds `op` on activations in their layouts. `inputs` holds the physical tensors of inputs that are activations.
/// Constants whose innermost loop is an output's channel are packed in panels of `lanes` if `lanes` divides the
/// extent. Returns the physical tensors of activations and unchanged types for other results; empty if an initial value
/// is not a linalg.fill.
llvm::SmallVector<mlir::Value> rewriteInLayouts(mlir::OpBuilder& builder, mlir::linalg::GenericOp op,
                                                llvm::ArrayRef<OperandForm> forms, llvm::ArrayRef<mlir::Value> inputs,
                                                int64_t lanes);

/// Returns the loops that index the channel dimensions of an operand; empty if they are not single distinct loops.
llvm::SmallVector<unsigned> channelLoops(mlir::AffineMap map, Channels channels);

}  // namespace tessera::compiler
