#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

struct LayoutReport {
  int operations = 0;                   ///< operations whose layout changed
  int transforms_before = 0;            ///< see GraphReport.layout_transforms_before
  std::vector<v1::Decision> decisions;  ///< of kind "layout", one for each conflict with a cost
  bool exact = true;                    ///< whether the assignment is optimal by the cost model
};

/// Assigns a layout to every activation: NCHW, NHWC, or NCHWc with c from the target's vectors (blocks that divide a
/// group where whole vectors do not; C0 of a matrix instruction, filled up, for chips that have one: see
/// Chip::matrixChannels()). The simulator's copies gather blocks from any layout, so pipelines for simulated chips
/// leave this pass out.
///
/// The layouts are the cheapest by LayoutCost. Convolutions, pools and depthwise convolutions are anchors: each
/// layout has a cost there. Elementwise operations, padding, reductions, concatenations and slices work in any layout
/// that their shapes allow. Transposes and reshapes of channels are aliases without cost. Where two operations that
/// share a value disagree, a transform is paid. The problem is solved exactly for narrow graphs, such as networks of
/// branches that meet again, and otherwise by exact solutions of improving parts (solveLabelling).
///
/// Constants are repacked, which costs nothing at run time: filters to [K/k, C/c, kh, kw, c, k], the rows of a matrix
/// that reads a flattened activation to the order of its layout. Grouped convolutions keep blocks within a group. A
/// channel shuffle is an access function between two layouts. A pixel shuffle, which turns channels into space, copies
/// whole vectors between blocks. After Liu et al., "Optimizing CNN Model Inference on CPUs", USENIX ATC 2019, section
/// 3.3, with the labelling solved by elimination.
///
/// Records choices of kind "layout", one for each anchor: the layouts of its activations in the order of its operands,
/// results last. Pinned layouts are fixed, and the others are the cheapest given these.
LayoutReport assignLayouts(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices);

/// Counts the remaining transforms of activations. Each moves a whole tensor.
int countLayoutTransforms(mlir::func::FuncOp main);

}  // namespace tessera::compiler
