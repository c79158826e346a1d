#pragma once

#include "compiler/codegen/tiling/tile_plan.h"
#include "compiler/schedule/kernel_traits.h"

namespace tessera::compiler::codegen {

class TileEmitter;

/// What may run at a leaf of the tile tree, one register tile at a time, and all that is asked about it: which nests it
/// takes and how their loops become its iterations, what its tile takes and costs, its code (Chimera, 3.4). The
/// instruction that evaluates a step of a product is Statement::step. Without state; each is an entry of
/// kernel/registry and a row of compiler/schedule/kernel_traits, and nobody asks which one it is.
class MicroKernel {
 public:
  /// Loops of a nest as the kernel's iterations: m rows by n columns of results, summed up over k, the innermost last.
  struct Iterations {
    llvm::SmallVector<int> m, n, k;
  };

  explicit MicroKernel(std::string_view name) : traits_(traitsOf(name)) {}
  virtual ~MicroKernel() = default;

  const KernelTraits& traits() const { return traits_; }
  /// The word of reports (KernelInfo.Phase.strategy).
  virtual std::string_view report(const Nest& nest) const = 0;

  /// The nest's plan, complete but for its grid; nothing where another kernel is to run it. `vectors`: planVectors().
  virtual std::optional<TilePlan> plan(const Nest& nest, const Chip& chip, const Wanted& wanted,
                                       const TilePlan& vectors) const = 0;
  /// Whether the kernel runs nests and vectors of this kind.
  virtual bool fits(const Nest& nest, const TilePlan& plan) const = 0;
  /// Whether a step of a product is this instruction then; else its body's operations, one by one.
  virtual bool evaluates(const ProductStep& step) const { return step.tiles() == nullptr; }
  /// Why it cannot follow this plan of a nest that it fits; empty: it can.
  virtual std::string refusal(const Nest& nest, const TilePlan& plan) const;

  virtual Iterations iterations(const Nest& nest, const TilePlan& plan) const;
  /// Vector registers that one tile takes: what it was chosen by.
  virtual int64_t registers(const Nest& nest, const Chip& chip, const TilePlan& plan) const = 0;
  /// Cycles of one tile over its whole sum.
  virtual double cycles(const Nest& nest, const Chip& chip, const TilePlan& plan) const;
  /// Instructions of the same, which the grid is cut by.
  virtual double instructions(const Nest& nest, const TilePlan& plan) const { return bodiesOfTile(nest, plan); }

  /// What comes before and behind all tiles of a nest that a thread runs: the state of registers that tiles share.
  virtual void enter(mlir::OpBuilder& /*builder*/, const Nest& /*nest*/, const TilePlan& /*plan*/) const {}
  virtual void leave(mlir::OpBuilder& /*builder*/, const Nest& /*nest*/) const {}
  virtual void emit(TileEmitter& tile) const = 0;

 private:
  const KernelTraits& traits_;
};

}  // namespace tessera::compiler::codegen
