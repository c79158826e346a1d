#pragma once

#include <memory>
#include <optional>

#include "compiler/backends/cpu/instruction/product_step.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinOps.h"

/// A loop nest as code generation sees it: loops with extents, and operands that are linear functions of the loops.
/// This is the access function of the thesis (definition 1) with the buffer's strides multiplied in, so that every
/// question about layout (contiguous? invariant? mergeable?) becomes a question about one integer.
namespace tessera::compiler::codegen {

/// Element offset into a dense buffer: offset + sum_d strides[d] * loop[d].
struct Access {
  mlir::Value root;  ///< memref with identity layout: function argument, allocation or global
  mlir::Type element;
  int64_t offset = 0;                  ///< elements
  llvm::SmallVector<int64_t> strides;  ///< elements, one per loop of the nest; 0 = invariant
  /// For an operand in panels, each as wide as one register tile: elements per iteration from one tile to the next.
  /// `strides` then hold within a tile only, and a tile's origin is a multiple of the panel's width. Empty: strides
  /// hold everywhere.
  llvm::SmallVector<int64_t> panel;
  llvm::SmallVector<int64_t> slice;  ///< elements per slice number of each slice loop of a region; empty: none
  int64_t between(int loop) const { return panel.empty() ? strides[loop] : panel[loop]; }
  bool operator==(const Access& other) const {
    return root == other.root && offset == other.offset && strides == other.strides && panel == other.panel &&
           slice == other.slice;
  }
};

/// Names a value that a statement leaves in registers: output `output` of statement `statement`.
struct RegisterRef {
  int statement = 0;
  int output = 0;
};

/// One input or output of a statement: memory, a scalar of the enclosing function, or (inputs of followers) a value
/// that an earlier statement of the same nest has just computed.
struct Operand {
  Access access;       ///< valid when access.root is set
  mlir::Value scalar;  ///< a loop-invariant scalar
  std::optional<RegisterRef> from;
  int64_t runs = 1;  ///< runs of the nest that read the same content: slices of a region that share it
};

/// One linalg operation inside a nest. Its region is the body; block arguments are inputs, then outputs.
struct Statement {
  mlir::linalg::LinalgOp op;
  llvm::SmallVector<Operand> inputs;
  llvm::SmallVector<Operand> outputs;
  llvm::SmallVector<mlir::Value> init;  ///< per output: the scalar it starts from; null: the content of the memory
  llvm::SmallVector<bool> stored;       ///< per output: false when later statements read it from registers only
  /// linalg.index d is the sum over nest loops l of index_weights[d][l] * loop[l].
  llvm::SmallVector<llvm::SmallVector<int64_t>> index_weights;
  /// Within a slice of a region, added to linalg.index d: a constant, and multiples of the slice numbers.
  llvm::SmallVector<int64_t> index_start;
  llvm::SmallVector<llvm::SmallVector<int64_t>> index_slice;
  /// Set if an instruction evaluates the body, a step of a product, on whole vectors.
  std::shared_ptr<const ProductInstructionStep> step;
  mlir::Block* body() const { return &op->getRegion(0).front(); }
};

/// The first statement may reduce. The others (followers) run over the parallel loops only, on its results while they
/// are in registers.
struct Nest {
  llvm::SmallVector<int64_t> extents;
  llvm::SmallVector<bool> reduction;
  std::vector<Statement> statements;

  int loops() const { return static_cast<int>(extents.size()); }
  bool hasReduction() const { return llvm::is_contained(reduction, true); }
  int64_t iterations() const {
    int64_t product = 1;
    for (int64_t extent : extents) product *= extent;
    return product;
  }
};

/// The nest of one linalg operation on memrefs. Nothing if an operand is not a linear function of the loops (dynamic
/// offset, floordiv) or a shape is dynamic.
std::optional<Nest> nestOf(mlir::linalg::LinalgOp op);

/// Fuses loops that every operand walks as one (outer stride = inner stride * inner extent) and drops loops of extent
/// 1. Loops whose index a body reads stay separate.
void mergeLoops(Nest& nest);

/// Replaces loop `loop` of extent e by an outer loop of extent e / inner and an inner one of extent `inner`, which must
/// divide e.
void splitLoop(Nest& nest, int loop, int64_t inner);

/// Appends `follower` (a nest without reductions) to `nest`; it then reads an output of `nest` from registers. Returns
/// false, with nothing changed, when the loops of the two nests differ.
bool appendFollower(Nest& nest, const Nest& follower);

/// The buffer that a chain of views refers to.
mlir::Value rootOf(mlir::Value memref);

}  // namespace tessera::compiler::codegen
