#include "compiler/graph/passes.h"

#include <array>

#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/constants/fold_scales.h"
#include "compiler/graph/layout/interleave_products.h"
#include "compiler/graph/layout/layout.h"
#include "compiler/graph/layout/matmul_layout.h"
#include "compiler/graph/layout/widen_products.h"
#include "compiler/graph/plan/groups.h"
#include "compiler/graph/plan/outline.h"
#include "compiler/graph/rewrites/absorb_transposes.h"
#include "compiler/graph/rewrites/algebra.h"
#include "compiler/graph/rewrites/busy_taps.h"
#include "compiler/graph/rewrites/casts.h"
#include "compiler/graph/rewrites/concat.h"
#include "compiler/graph/rewrites/fusion.h"
#include "compiler/graph/rewrites/half_sums.h"
#include "compiler/graph/rewrites/hoist_elementwise.h"
#include "compiler/graph/rewrites/hoist_from_loops.h"
#include "compiler/graph/rewrites/idle_taps.h"
#include "compiler/graph/rewrites/merge_products.h"
#include "compiler/graph/rewrites/movement.h"
#include "compiler/graph/rewrites/narrow_pads.h"
#include "compiler/graph/rewrites/narrow_products.h"
#include "compiler/graph/rewrites/position_masks.h"
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
#include "compiler/target/target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

namespace tessera::compiler {
namespace {

using mlir::func::FuncOp;

/// Outlines each group of a function as planGraph would compile it, next to the function.
int outlineGroups(FuncOp main) {
  int count = 0;
  for (const Group& group : formGroups(main)) {
    OutlinedGroup outlined = outlineGroup(group);
    FuncOp function = outlined.function.release();
    function.setName((main.getName() + "_group_" + std::to_string(count++)).str());
    main->getBlock()->push_back(function);
  }
  return count;
}

/// A processor with these lanes, for passes that compare prices.
v1::Target referenceTarget(int64_t lanes) {
  v1::Target target;
  target.mutable_registers()->set_vector_bits(static_cast<int32_t>(lanes * 32));
  v1::ComputeUnit* unit = target.add_units();
  unit->set_frequency_ghz(2.7);
  unit->set_ops_per_cycle(static_cast<double>(4 * lanes));
  for (auto [capacity, bandwidth] : {std::pair(1 << 20, 64), std::pair(32 << 20, 16), std::pair(0, 5)}) {
    v1::MemoryLevel* level = target.add_memory();
    level->set_capacity_bytes(capacity);
    level->set_bandwidth_bytes_per_cycle(bandwidth);
  }
  return target;
}

struct Rewrite {
  const char* argument;
  const char* description;
  int (*run)(FuncOp main, int64_t lanes);
};

constexpr Rewrite kRewrites[] = {
    {"tessera-generalize", "Named linalg operations become linalg.generic",
     [](FuncOp main, int64_t) { return generalizeNamedOps(main); }},
    {"tessera-hoist-from-loops",
     "Compute before a loop what its iterations share, and products of all their inputs at once",
     [](FuncOp main, int64_t) { return hoistFromLoops(main); }},
    {"tessera-recognize-concat", "Chains of insert_slice become tensor.concat",
     [](FuncOp main, int64_t) { return recognizeConcats(main); }},
    {"tessera-nest-concats", "Let a concatenation begin with an earlier one of its first parts",
     [](FuncOp main, int64_t) { return nestConcats(main); }},
    {"tessera-cut-wide-concats", "Make a concatenation of many operands a tree of narrow ones",
     [](FuncOp main, int64_t) { return cutWideConcats(main); }},
    {"tessera-cut-wide-splits", "Copy a tensor of which many equal parts are read in stages, so that readers are equal",
     [](FuncOp main, int64_t) { return cutWideSplits(main); }},
    {"tessera-share-bodies", "Let very many operations that differ in numbers of their bodies share one kernel",
     [](FuncOp main, int64_t) { return shareBodiesOfManyNumbers(main); }},
    {"tessera-remove-dead-code", "Remove operations whose results nobody reads",
     [](FuncOp main, int64_t) { return removeDeadCode(main); }},
    {"tessera-eliminate-duplicates", "Compute equal values once",
     [](FuncOp main, int64_t) { return eliminateDuplicates(main); }},
    {"tessera-drop-unit-broadcasts", "Read broadcast operands without their dimensions of extent one",
     [](FuncOp main, int64_t) { return dropUnitBroadcasts(main); }},
    {"tessera-eliminate-casts", "Remove conversions that change no value",
     [](FuncOp main, int64_t) { return eliminateCasts(main); }},
    {"tessera-simplify-algebra", "Neutral elements, signs, small powers, chains of constants",
     [](FuncOp main, int64_t) { return simplifyAlgebra(main); }},
    {"tessera-simplify-movement", "Transposes, slices, concatenations and paddings of each other",
     [](FuncOp main, int64_t) { return simplifyMovement(main); }},
    {"tessera-split-elementwise-of-concat", "Do what follows a concatenation on its parts",
     [](FuncOp main, int64_t) { return splitElementwiseOfConcat(main); }},
    {"tessera-merge-products", "Merge matrix products with one common left operand",
     [](FuncOp main, int64_t) { return mergeProducts(main); }},
    {"tessera-stack-products", "Merge matrix products of slices of one tensor with the same weights",
     [](FuncOp main, int64_t) { return stackProducts(main, Chip()); }},
    {"tessera-drop-idle-taps", "Cut off taps of windows that meet nothing but padding",
     [](FuncOp main, int64_t) { return dropIdleTaps(main); }},
    {"tessera-keep-busy-taps", "Leave blocks of a convolution's outputs the taps at which their weights are not zeros",
     [](FuncOp main, int64_t lanes) { return keepBusyTaps(main, Chip(referenceTarget(lanes)), nullptr); }},
    {"tessera-share-pads", "Read what is also padded from inside the padded tensor",
     [](FuncOp main, int64_t) { return sharePads(main); }},
    {"tessera-compare-positions", "Compute masks that are a band of a matrix from positions",
     [](FuncOp main, int64_t) { return comparePositions(main, nullptr); }},
    {"tessera-sum-halves-in-single", "Build up sums of f16 and bf16 in f32",
     [](FuncOp main, int64_t) { return sumHalvesInSingle(main); }},
    {"tessera-widen-on-load", "Widen f16 and bf16 operands of reductions where they are loaded",
     [](FuncOp main, int64_t) { return widenOnLoad(main); }},
    {"tessera-narrow-products", "Let products of quantized operands read 8 bits, signed as a Cascade Lake wants them",
     [](FuncOp main, int64_t) { return narrowProducts(main, Chip(*findBuiltinTarget("cascadelake")), nullptr); }},
    {"tessera-narrow-products-for-tiles", "The same as a Sapphire Rapids wants them, which has tiles",
     [](FuncOp main, int64_t) { return narrowProducts(main, Chip(*findBuiltinTarget("sapphirerapids")), nullptr); }},
    {"tessera-widen-products-avx2", "Let products of 8 bits read 16 where a Haswell is faster with them",
     [](FuncOp main, int64_t) { return widenProducts(main, Chip(*findBuiltinTarget("haswell")), nullptr); }},
    {"tessera-interleave-products",
     "Interleave operands of products, of 8 bits by four, of bf16 by two, where they are constant or copies pay, for a "
     "Zen 4",
     [](FuncOp main, int64_t) {
       const Chip chip(*findBuiltinTarget("znver4"));
       return interleaveProducts(main, chip, 8) + interleaveProducts(main, chip, 16);
     }},
    {"tessera-round-products", "Round operands of f32 products with a constant to bf16",
     [](FuncOp main, int64_t) { return roundProducts(main); }},
    {"tessera-multiply-exactly-in-single", "Compute small sums of 8-bit products in single precision",
     [](FuncOp main, int64_t) { return multiplyExactlyInSingle(main); }},
    {"tessera-fold-constants", "Evaluate what depends on constants alone",
     [](FuncOp main, int64_t) { return foldConstants(main, nullptr); }},
    {"tessera-fuse-elementwise", "Merge elementwise operations into their only reader",
     [](FuncOp main, int64_t) { return fuseElementwise(main); }},
    {"tessera-hoist-elementwise", "Move elementwise operations from behind moved results of a product to the product",
     [](FuncOp main, int64_t) { return hoistElementwise(main); }},
    {"tessera-sink-views", "Move views behind the elementwise operations that follow a product",
     [](FuncOp main, int64_t) { return sinkViews(main); }},
    {"tessera-fold-scales", "Fold per-channel factors into the weights of a product",
     [](FuncOp main, int64_t) { return foldScales(main, nullptr); }},
    {"tessera-absorb-transposes", "Read and write products through transposed access functions",
     [](FuncOp main, int64_t) { return absorbTransposes(main); }},
    {"tessera-pack-matmuls", "Pack constant right-hand sides of matrix products into panels",
     [](FuncOp main, int64_t lanes) { return packMatmuls(main, Chip(referenceTarget(lanes))); }},
    {"tessera-assign-layouts", "Give activations the cheapest layouts",
     [](FuncOp main, int64_t lanes) {
       v1::Target target;
       target.mutable_registers()->set_vector_bits(static_cast<int32_t>(lanes * 32));
       target.add_memory()->set_bandwidth_bytes_per_cycle(16);
       GraphChoices choices;
       return assignLayouts(main, Chip(target), choices).operations;
     }},
    {"tessera-assign-layouts-for-tiles", "The same on a Sapphire Rapids, whose products of bytes are on tiles",
     [](FuncOp main, int64_t) {
       GraphChoices choices;
       return assignLayouts(main, Chip(*findBuiltinTarget("sapphirerapids")), choices).operations;
     }},
    {"tessera-narrow-pads", "Let paddings leave out dimensions of extent one",
     [](FuncOp main, int64_t) { return narrowPads(main); }},
    {"tessera-cut-behind-followers", "Let what follows whole blocks compute them whole, and cut behind it",
     [](FuncOp main, int64_t) { return cutBehindFollowers(main); }},
    {"tessera-winograd", "Compute 3x3 convolutions in Winograd's domain where that pays",
     [](FuncOp main, int64_t lanes) {
       GraphChoices choices;
       return applyWinograd(main, Chip(referenceTarget(lanes)), choices).rewritten;
     }},
    {"tessera-split-sums", "Cut sums of few results into parts that eight cores share",
     [](FuncOp main, int64_t lanes) {
       v1::Target target = referenceTarget(lanes);
       target.mutable_units(0)->set_count(8);
       GraphChoices choices;
       return static_cast<int>(splitSums(main, Chip(target), choices).size());
     }},
    {"tessera-outline-groups", "Show the fused groups as functions",
     [](FuncOp main, int64_t) { return outlineGroups(main); }},
};

class RewritePass : public mlir::PassWrapper<RewritePass, mlir::OperationPass<mlir::ModuleOp>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RewritePass)
  explicit RewritePass(const Rewrite& rewrite) : rewrite_(rewrite) {}
  RewritePass(const RewritePass& other) : PassWrapper(other), rewrite_(other.rewrite_) {}

  llvm::StringRef getArgument() const override { return rewrite_.argument; }
  llvm::StringRef getDescription() const override { return rewrite_.description; }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::arith::ArithDialect, mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                    mlir::tensor::TensorDialect, mlir::func::FuncDialect>();
  }
  void runOnOperation() override {
    for (FuncOp function : llvm::to_vector(getOperation().getOps<FuncOp>())) rewrite_.run(function, lanes_);
  }

 private:
  const Rewrite& rewrite_;
  Option<int64_t> lanes_{*this, "lanes", llvm::cl::desc("f32 lanes of one vector register"), llvm::cl::init(16)};
};

}  // namespace

void registerGraphPasses() {
  registerPlanPass();
  registerFuseChainsPass();
  for (const Rewrite& rewrite : kRewrites) {
    mlir::registerPass([&rewrite]() -> std::unique_ptr<mlir::Pass> { return std::make_unique<RewritePass>(rewrite); });
  }
}

}  // namespace tessera::compiler
