#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/backends/cpu/nest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

/// The analysis of a bufferized workload that deciding and applying a schedule share: its operations as loop nests, the
/// buffers they touch, which of them can share a nest, and which nests can run in one phase.
namespace tessera::compiler::codegen {

/// One top-level operation, or several fused in one nest, with the buffers that it reads and writes.
struct WorkItem {
  using Roots = llvm::SmallVector<mlir::Value>;
  std::optional<Nest> nest;  ///< nothing: not a loop nest over dense data (scf, memref)
  mlir::Operation* op = nullptr;
  Roots reads, writes;
  /// For a fill whose interior another item overwrites: nests that fill the border only. They replace `nest`.
  std::vector<Nest> border;
  /// The item that writes that interior: it writes the same buffer, but disjoint boxes of it. -1: none.
  int disjoint_from = -1;
  bool removed = false;
  std::string cut;                         ///< see Phase::cut
  llvm::SmallVector<int> operations = {};  ///< numbers of those in the nest, in program order

  /// The nests in the order in which they run.
  std::vector<Nest> nests() const {
    if (!nest) return {};
    return disjoint_from >= 0 ? border : std::vector<Nest>{*nest};
  }
};

/// A bufferized workload with nothing decided: each operation is an item of its own. A fill has become the initial
/// value of the reduction that follows it.
struct WorkloadAnalysis {
  mlir::func::FuncOp func;
  std::vector<WorkItem> items;
};

WorkloadAnalysis analyze(mlir::func::FuncOp func);

/// An item and the first reader of its results, which could run as one nest.
struct FusionCandidate {
  size_t reader = 0;           ///< item that would hold the nest
  Nest nest;                   ///< of both
  bool loses_vectors = false;  ///< the reader's body has no vector code, the producer's has
  int live_vectors = 0;        ///< of the fused body
  int live_in_reader = 0;      ///< of the reader's body alone

  /// Whether the fused body needs more registers than there are, and more than the reader's body alone. A reader that
  /// spills anyway gains nothing from separate nests.
  bool spills(int vector_registers) const { return live_vectors > vector_registers && live_vectors > live_in_reader; }
};

/// Returns the candidate that fuses item `producer` with its first reader. Nothing if the loops of the two differ, if
/// the reader already has several statements, or if an item between the two must stay between them.
std::optional<FusionCandidate> fusionCandidate(llvm::ArrayRef<WorkItem> items, size_t producer);

/// Replaces the producer and its reader by one item, at the reader's place.
void fuse(std::vector<WorkItem>& items, size_t producer, FusionCandidate candidate);

/// Completes the nests once all fusions are made: a fill whose interior is overwritten shrinks to its border, and a
/// value that only its own nest reads is not stored.
void completeNests(std::vector<WorkItem>& items);

/// Whether `item` may run in the same phase as the earlier items `phase` (not empty). Nests of one phase must not
/// depend on each other, and operations that are not nests do not share a phase with nests.
bool mayShareAPhase(llvm::ArrayRef<WorkItem> items, llvm::ArrayRef<int> phase, int item);

}  // namespace tessera::compiler::codegen
