#include "compiler/graph/graph_pass.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/constants/fold_scales.h"
#include "compiler/graph/layout/interleave_products.h"
#include "compiler/graph/layout/layout.h"
#include "compiler/graph/layout/matmul_layout.h"
#include "compiler/graph/layout/narrow_pairs.h"
#include "compiler/graph/layout/widen_products.h"
#include "compiler/graph/plan/loop_bodies.h"
#include "compiler/graph/plan/prepared_weights.h"
#include "compiler/graph/rewrites/absorb_transposes.h"
#include "compiler/graph/rewrites/algebra.h"
#include "compiler/graph/rewrites/casts.h"
#include "compiler/graph/rewrites/concat.h"
#include "compiler/graph/rewrites/cut_bodies.h"
#include "compiler/graph/rewrites/fusion.h"
#include "compiler/graph/rewrites/hoist_elementwise.h"
#include "compiler/graph/rewrites/hoist_from_loops.h"
#include "compiler/graph/rewrites/lower_to_int8_matmul.h"
#include "compiler/graph/rewrites/merge_products.h"
#include "compiler/graph/rewrites/movement.h"
#include "compiler/graph/rewrites/narrow_pads.h"
#include "compiler/graph/rewrites/position_masks.h"
#include "compiler/graph/rewrites/promote_accumulators.h"
#include "compiler/graph/rewrites/prune_padding_taps.h"
#include "compiler/graph/rewrites/prune_zero_taps.h"
#include "compiler/graph/rewrites/round_products.h"
#include "compiler/graph/rewrites/share_pads.h"
#include "compiler/graph/rewrites/shared_bodies.h"
#include "compiler/graph/rewrites/simplify.h"
#include "compiler/graph/rewrites/sink_views.h"
#include "compiler/graph/rewrites/split_sums.h"
#include "compiler/graph/rewrites/stack_products.h"
#include "compiler/graph/rewrites/wide_concats.h"
#include "compiler/graph/rewrites/wide_splits.h"
#include "compiler/graph/winograd/whole_blocks.h"
#include "compiler/graph/winograd/winograd.h"
#include "llvm/Support/ErrorHandling.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::StatusOr<int> foldAll(PassState& s) {
  const int folded = foldConstants(s.main, s.weights, s.folded_weights, s.code.prepares_weights);
  if (s.weights == nullptr) return folded;
  if (s.compute_derived) {
    TESSERA_RETURN_IF_ERROR(computeDerived(s.main, *s.weights, s.folded_weights));
  } else {
    freeUnreadWeights(s.main, *s.weights);
  }
  return folded;
}

absl::StatusOr<int> roundAll(PassState& s) {
  const bool requested = s.code.factors == v1::DATA_TYPE_UNSPECIFIED;
  const ProductRounding rounding =
      requested ? ProductRounding{} : ProductRounding{.to = s.code.factors, .activations = true};
  const int products = roundProducts(s.main, rounding);
  v1::Decision& decision = s.decisions.emplace_back();
  decision.set_kind("precision");
  decision.set_place("model");
  decision.set_taken(products > 0);
  const bool half = rounding.to == v1::DATA_TYPE_F16;
  std::string reason = absl::StrCat(products, products == 1 ? " product reads" : " products read",
                                    " operands rounded to ", half ? "f16" : "bf16", ", summed up in f32 ");
  if (!requested) {
    absl::StrAppend(&reason, "by the target's instructions, none of which multiplies f32");
    if (half) absl::StrAppend(&reason, "; magnitudes above 65504 become infinite");
  } else {
    absl::StrAppend(&reason, dotProductGroup(s.chip.dotProducts(), 16) > 0
                                 ? "by pairs"
                                 : "one by one: the target has no instruction for pairs");
  }
  decision.set_reason(std::move(reason));
  return products;
}

absl::StatusOr<int> assignAll(PassState& s) {
  if (s.pins != nullptr) s.choices = GraphChoices(pinsOutsideLoops(s.main, *s.pins));
  LayoutReport layouts = assignLayouts(s.main, s.chip, s.choices);
  TESSERA_RETURN_IF_ERROR(s.choices.status());
  for (v1::Decision& decision : layouts.decisions) s.decisions.push_back(std::move(decision));
  s.layout_transforms_before = layouts.transforms_before;
  return layouts.operations;
}

absl::StatusOr<int> winogradAll(PassState& s) {
  std::optional<UsedRowAnalysis> rows;
  if (s.model != nullptr) rows.emplace(*s.model, s.main);
  WinogradReport report = applyWinograd(s.main, s.chip, s.choices, s.fusion_policy, rows ? &*rows : nullptr);
  for (v1::Decision& decision : report.decisions) s.decisions.push_back(std::move(decision));
  return report.rewritten;
}

/// Returns the number of decisions that were taken.
int addDecisions(PassState& s, std::vector<v1::Decision> decisions) {
  const auto taken = std::ranges::count(decisions, true, &v1::Decision::taken);
  for (v1::Decision& decision : decisions) s.decisions.push_back(std::move(decision));
  return static_cast<int>(taken);
}

constexpr GraphPass kPasses[] = {
    {"generalize-named-ops", "generalize-named-ops", "Turns named linalg operations into linalg.generic",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return generalizeNamedOps(s.main); }},
    {"hoist-from-loops", "hoist-from-loops",
     "Computes loop-invariant values before the loop, and products of all its iterations at once", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return hoistFromLoops(s.main); }},
    {"remove-dead-code", "remove-dead-code", "Removes operations whose results have no reader", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return removeDeadCode(s.main); }},
    {"eliminate-duplicates", "eliminate-duplicates", "Computes equal values once (CSE)", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return eliminateDuplicates(s.main); }},
    {"canonicalize", "canonicalize", "Applies MLIR's canonicalization without the patterns that change results",
     GraphPass::kUncounted,
     [](PassState& s) -> absl::StatusOr<int> {
       TESSERA_RETURN_IF_ERROR(canonicalizeGraph(s.main, s.canonicalizer));
       return 1;
     }},
    {"recognize-concat", "recognize-concat", "Turns chains of insert_slice into tensor.concat", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return recognizeConcats(s.main); }},
    {"nest-concats", "nest-concats", "Begins a concatenation with an earlier concatenation of its first parts",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return nestConcats(s.main); }},
    {"drop-unit-broadcasts", "drop-unit-broadcasts", "Reads broadcast operands without their dimensions of extent one",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return dropUnitBroadcasts(s.main); }},
    {"sum-halves-in-single", "sum-halves-in-single", "Accumulates sums of f16 and bf16 in f32", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return promoteAccumulators(s.main); }},
    {"widen-on-load", "widen-on-load", "Widens f16 and bf16 operands of reductions where they are loaded",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return widenOnLoad(s.main); }},
    {"narrow-products", "narrow-products",
     "Lets products of quantized operands read 8 bits, in the signs that the chip's instructions take",
     GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return lowerToInt8Matmul(s.main, s.chip, s.weights, s.code.bytes); }},
    {"fold-constants", "fold-constants",
     "Evaluates operations on constants and weights, or turns them into derived weights", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return foldAll(s); }},
    {"eliminate-casts", "eliminate-casts", "Removes conversions that change no value", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return eliminateCasts(s.main); }},
    {"simplify-algebra", "simplify-algebra",
     "Removes neutral elements, signs and chains of constants; expands small powers", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return simplifyAlgebra(s.main); }},
    {"simplify-movement", "simplify-movement", "Composes transposes, slices, concatenations and paddings of each other",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return simplifyMovement(s.main); }},
    {"drop-idle-taps", "drop-idle-taps", "Cuts off window taps that read padding only", GraphPass::kStaticShapes,
     [](PassState& s) -> absl::StatusOr<int> { return prunePaddingTaps(s.main); }},
    {"keep-busy-taps", "keep-busy-taps",
     "Leaves blocks of a convolution's output channels the taps whose weights are not all zero",
     GraphPass::kStaticShapes | GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return pruneZeroTaps(s.main, s.chip, s.weights); }},
    {"fuse-elementwise", "fuse-elementwise", "Merges elementwise operations into their only reader", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return fuseElementwise(s.main); }},
    {"hoist-elementwise", "hoist-elementwise",
     "Moves elementwise operations from the moved results of a product to the product", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return hoistElementwise(s.main); }},
    {"sink-views", "sink-views", "Moves views past the elementwise operations that follow a product", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return sinkViews(s.main); }},
    {"split-elementwise-of-concat", "split-elementwise-of-concat",
     "Applies elementwise operations to the parts of a concatenation", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return splitElementwiseOfConcat(s.main); }},
    {"fold-scales", "fold-scales", "Folds per-channel factors into the weights of a product", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return foldScales(s.main, s.weights); }},
    {"merge-products", "merge-products", "Merges matrix products that share their left operand", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return mergeProducts(s.main); }},
    {"stack-products", "stack-products", "Merges matrix products of slices of one tensor with the same weights",
     GraphPass::kChip, [](PassState& s) -> absl::StatusOr<int> { return stackProducts(s.main, s.chip); }},
    {"absorb-transposes", "absorb-transposes", "Reads and writes products through transposed access functions",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return absorbTransposes(s.main); }},
    {"round-products", "round-products", "Rounds the operands of f32 products to bf16 or f16",
     GraphPass::kChip | GraphPass::kRounds, [](PassState& s) -> absl::StatusOr<int> { return roundAll(s); }},
    {"assign-layouts", "assign-layouts", "Gives activations the cheapest layouts", GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return assignAll(s); }},
    {"narrow-pads", "narrow-pads", "Drops dimensions of extent one from paddings", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return dropUnitPadDimensions(s.main); }},
    {"pack-matmuls", "pack-matmuls", "Packs constant right-hand sides of matrix products into panels", GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return packMatmuls(s.main, s.chip); }},
    {"widen-products", "widen-products", "Lets products of 8 bits read 16 where the chip multiplies 16 bits faster",
     GraphPass::kChip, [](PassState& s) -> absl::StatusOr<int> { return widenProducts(s.main, s.chip, s.weights); }},
    {"interleave-bytes", "interleave-products", "Interleaves 8-bit operands of products by the chip's group size",
     GraphPass::kChip, [](PassState& s) -> absl::StatusOr<int> { return interleaveProducts(s.main, s.chip, 8); }},
    {"interleave-halves", "interleave-products", "Interleaves 16-bit operands of products by the chip's group size",
     GraphPass::kChip, [](PassState& s) -> absl::StatusOr<int> { return interleaveProducts(s.main, s.chip, 16); }},
    {"multiply-exactly-in-single", "multiply-exactly-in-single",
     "Computes small sums of 8-bit products in single precision", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return lowerInt8ToSingle(s.main); }},
    {"count-layout-transforms", "count-layout-transforms", "Counts the layout transforms that are left",
     GraphPass::kUncounted,
     [](PassState& s) -> absl::StatusOr<int> {
       s.layout_transforms = countLayoutTransforms(s.main);
       return 0;
     }},
    {"winograd", "winograd", "Computes 3x3 convolutions in Winograd's domain where that is faster", GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return winogradAll(s); }},
    {"cut-behind-followers", "cut-behind-followers",
     "Lets elementwise operations after whole blocks compute the blocks, and slices after them", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return sinkSlicePastElementwise(s.main); }},
    {"compare-positions", "compare-positions", "Computes masks that are a band of a matrix from positions",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return comparePositions(s.main, s.weights); }},
    {"share-pads", "share-pads", "Reads a tensor that is also padded from inside the padded tensor", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return sharePads(s.main); }},
    {"align-slices", "align-slices", "Ends the borders of padded results at the end of a slice", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return alignSlices(s.main); }},
    {"split-sums", "split-sums", "Splits sums of few results into parts that the cores share",
     GraphPass::kStaticShapes | GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return addDecisions(s, splitSums(s.main, s.chip, s.choices)); }},
    {"split-long-sums", "split-long-sums", "Splits long sums for precision",
     GraphPass::kStaticShapes | GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return splitLongSums(s.main, s.chip); }},
    {"cut-bodies", "cut-bodies", "Cuts elementwise bodies with more live values than the chip has registers",
     GraphPass::kChip,
     [](PassState& s) -> absl::StatusOr<int> { return addDecisions(s, splitBodies(s.main, s.chip, s.choices)); }},
    {"cut-wide-splits", "cut-wide-splits",
     "Copies a tensor with many equal parts in stages, so that its readers are equal", GraphPass::kNone,
     [](PassState& s) -> absl::StatusOr<int> { return stageWideSplits(s.main); }},
    {"cut-wide-concats", "cut-wide-concats", "Turns a concatenation of many operands into a tree of narrow ones",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return splitWideConcats(s.main); }},
    {"share-bodies", "share-bodies", "Shares one kernel among many operations whose bodies differ in constants",
     GraphPass::kNone, [](PassState& s) -> absl::StatusOr<int> { return shareBodiesAcrossConstants(s.main); }},
    {"constants-to-weights", "constants-to-weights", "Turns the constants that are left into weights",
     GraphPass::kUncounted,
     [](PassState& s) -> absl::
                          StatusOr<int> {
                            std::vector<Weight> unnamed;
                            constantsToWeights(s.main, s.weights != nullptr ? *s.weights : unnamed);
                            return 1;
                          }},
    {"mark-narrow-pairs", "mark-narrow-pairs",
     "Marks products whose pairs of 8-bit weights vpmaddubsw multiplies exactly",
     GraphPass::kChip | GraphPass::kWeights,
     [](PassState& s) -> absl::
                          StatusOr<int> {
                            if (s.weights != nullptr) markNarrowPairs(s.main, s.chip, *s.weights);
                            return 0;
                          }},
};

}  // namespace

std::span<const GraphPass> graphPasses() { return kPasses; }

const GraphPass& graphPass(std::string_view name) {
  const auto* found = std::ranges::find(kPasses, name, &GraphPass::name);
  if (found == std::end(kPasses)) llvm::report_fatal_error(llvm::Twine("no graph pass is named ") + name);
  return *found;
}

}  // namespace tessera::compiler
