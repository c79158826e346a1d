#pragma once

#include <optional>

#include "compiler/graph/layout/channel_layout.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {

/// How one operand of a linalg operation takes part when its activations get another layout.
struct OperandForm {
  enum Kind {
    kUntouched,   ///< does not vary along channels
    kActivation,  ///< lies in `layout`
    kInPlace,     ///< keeps its layout; split dimensions are views ([n, C] becomes [n, C/c, c])
    kConstant,    ///< known at compile time: repacked in the order in which it is read
  };
  Kind kind = kUntouched;
  Channels channels{};
  ChannelLayout layout{};
};

/// Per loop the loops it becomes, outermost first; their product exceeds the extent where blocks are filled up.
using LoopSplits = llvm::SmallVector<llvm::SmallVector<int64_t, 3>>;

/// The loops of `op` (inputs, then results) with operands in these forms; nothing when an access would not be linear
/// in any split of the loops (a block across a group's border), or when what fills blocks up could reach a result.
std::optional<LoopSplits> splitLoops(mlir::linalg::GenericOp op, llvm::ArrayRef<OperandForm> forms);

/// `op` again, on activations in their layouts. `inputs` holds the physical tensors of inputs that are activations.
/// Constants whose innermost loop is an output's channel are packed in panels of `lanes` where they divide. Results:
/// physical tensors of activations, the type of before for others; empty when an initial value is no fill.
llvm::SmallVector<mlir::Value> rewriteInLayouts(mlir::OpBuilder& builder, mlir::linalg::GenericOp op,
                                                llvm::ArrayRef<OperandForm> forms, llvm::ArrayRef<mlir::Value> inputs,
                                                int64_t lanes);

/// The loops that index the channel dimensions of an operand, empty when they are not single distinct loops.
llvm::SmallVector<unsigned> channelLoops(mlir::AffineMap map, Channels channels);

}  // namespace tessera::compiler
