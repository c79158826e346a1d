#pragma once

#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "compiler/schedule/kernel_traits.h"

namespace tessera::compiler::codegen {

class TileEmitter;

/// A micro-kernel runs at a leaf of the tile tree, one register tile at a time. The interface answers all questions
/// about it: which nests it accepts and how their loops map to its iterations, the registers and cycles of its tile,
/// and its code (Chimera, 3.4). The instruction that evaluates a step of a product is Statement::step. Stateless. Each
/// kernel is an entry of kernel/registry and a row of compiler/schedule/kernel_traits; no other code depends on a
/// specific kernel.
class MicroKernel {
 public:
  /// Loops of a nest as the kernel's iterations: m rows by n columns of results, summed over k; innermost loop last.
  struct Iterations {
    llvm::SmallVector<int> m, n, k;
  };

  explicit MicroKernel(std::string_view name) : traits_(traitsOf(name)) {}
  virtual ~MicroKernel() = default;

  const KernelTraits& traits() const { return traits_; }
  /// The word used in reports (KernelInfo.Phase.strategy).
  virtual std::string_view report(const Nest& nest) const = 0;

  /// The nest's plan, complete except for its grid; nothing if the kernel does not accept the nest. `vectors`: the
  /// result of planVectors().
  virtual std::optional<TilePlan> plan(const Nest& nest, const Chip& chip, const PlanConstraints& wanted,
                                       const TilePlan& vectors) const = 0;
  /// Whether the kernel can run this nest with the vectors of this plan.
  virtual bool fits(const Nest& nest, const TilePlan& plan) const = 0;
  /// Whether the kernel evaluates a step of a product with this instruction; otherwise it evaluates the body's
  /// operations.
  virtual bool evaluates(const ProductInstructionStep& step) const { return step.isByLane(); }
  /// The reason why the kernel cannot follow this plan, for a nest and plan that pass fits(); empty: it can.
  virtual std::string refusal(const Nest& nest, const TilePlan& plan) const;

  virtual Iterations iterations(const Nest& nest, const TilePlan& plan) const;
  /// Vector registers that one tile needs; the tile was chosen to respect this count.
  virtual int64_t registers(const Nest& nest, const Chip& chip, const TilePlan& plan) const = 0;
  /// Cycles of one tile over its whole sum.
  virtual double cycles(const Nest& nest, const Chip& chip, const TilePlan& plan) const;
  /// Instructions of one tile over its whole sum; used to size the points of the grid.
  virtual double instructions(const Nest& nest, const TilePlan& plan) const { return bodiesOfTile(nest, plan); }

  /// Code before and after all tiles of a nest that a thread runs: sets up and releases registers that tiles share.
  virtual void enter(mlir::OpBuilder& /*builder*/, const Nest& /*nest*/, const TilePlan& /*plan*/) const {}
  virtual void leave(mlir::OpBuilder& /*builder*/, const Nest& /*nest*/) const {}
  virtual void emit(TileEmitter& tile) const = 0;

 private:
  const KernelTraits& traits_;
};

}  // namespace tessera::compiler::codegen
