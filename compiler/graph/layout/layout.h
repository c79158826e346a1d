#pragma once

#include <vector>

#include "compiler/graph/choices.h"
#include "compiler/target/chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

struct LayoutReport {
  int operations = 0;                   ///< that work in another layout than they were written in
  int transforms_before = 0;            ///< see GraphReport.layout_transforms_before
  std::vector<v1::Decision> decisions;  ///< of kind "layout", one for each conflict that had a price
  bool exact = true;                    ///< no cheaper assignment exists, by the prices
};

/// Gives every activation a layout: NCHW, NHWC, or NCHWc with c from the target's vectors (blocks of channels that
/// divide a group where whole vectors do not; C0 of a matrix unit, filled up, on accelerators that have one).
///
/// The layouts are the cheapest by LayoutPrices. Convolutions, pools and depthwise convolutions are the anchors, each
/// layout has its price there; elementwise operations, padding, reductions, concatenation and slices work in any
/// layout their shapes allow; transposes and reshapes of channels are no work but another name; where two that share
/// a value disagree, a transform is paid. The problem is solved exactly where its graph is narrow, as it is in
/// networks of branches that meet again, else by exact solutions of parts that improve (solveLabelling).
/// Constants are repacked, which costs nothing at run time: filters to [K/k, C/c, kh, kw, c, k], the rows of a matrix
/// that reads a flattened activation to the order of its layout. Grouped convolutions keep blocks within a group;
/// a channel shuffle is an access function between two layouts; a pixel shuffle, which makes channels space, copies
/// whole vectors between blocks. After Liu et al., "Optimizing CNN Model Inference on CPUs", USENIX ATC 2019,
/// section 3.3, with the labelling solved by elimination.
///
/// Choices of kind "layout", one for each anchor: the layouts of its activations in the order of its operands, results
/// last. Those that are pinned are given, the rest is the cheapest around them.
LayoutReport assignLayouts(mlir::func::FuncOp main, const Chip& chip, GraphChoices& choices);

/// Transforms of activations that remain: each moves a whole tensor.
int countLayoutTransforms(mlir::func::FuncOp main);

}  // namespace tessera::compiler
