#include "compiler/backends/cpu/static_nodes.h"

#include "compiler/backends/cpu/tree/leaf.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace tessera::compiler::codegen {
namespace {

bool isTensor(mlir::Value value) { return mlir::isa<mlir::MemRefType>(value.getType()); }

}  // namespace

std::vector<StaticAnalysis::Node> nodesOf(mlir::func::FuncOp func) {
  llvm::SmallVector<mlir::linalg::LinalgOp> operations;
  func.walk([&](mlir::linalg::LinalgOp op) {
    if (!mlir::isa<mlir::linalg::FillOp>(op.getOperation())) operations.push_back(op);
  });
  std::vector<StaticAnalysis::Node> nodes;
  for (mlir::linalg::LinalgOp op : operations) {
    StaticAnalysis::Node& node = nodes.emplace_back();
    for (auto [extent, kind] : llvm::zip_equal(op.getStaticLoopRanges(), op.getIteratorTypesArray())) {
      const bool sums = kind == mlir::utils::IteratorType::reduction;
      (sums ? node.reductions : node.spatial).push_back(extent);
      node.order += node.order.empty() ? "" : " ";
      node.order += sums ? "r" : "s";
    }
    for (mlir::Value input : op.getDpsInputs()) node.inputs += isTensor(input) ? 1 : 0;
    node.outputs = static_cast<int>(op.getNumDpsInits());
    // Consumers are counted through views: both sides are traced to the value that owns the elements.
    for (mlir::linalg::LinalgOp other : operations) {
      if (other == op) continue;
      const bool reads = llvm::any_of(other.getDpsInputs(), [&](mlir::Value input) {
        return isTensor(input) &&
               llvm::any_of(op.getDpsInits(), [&](mlir::Value output) { return rootOf(input) == rootOf(output); });
      });
      node.consumers += reads ? 1 : 0;
    }
  }
  return nodes;
}

std::map<std::pair<int, std::string>, int64_t> extentsOf(const PhaseList& list) {
  std::map<std::pair<int, std::string>, int64_t> extents;
  for (const Phase& phase : list.phases)
    for (auto [at, found] : llvm::enumerate(phase.nests)) {
      Nest nest = found;
      mergeLoops(nest);
      for (int loop = 0; loop < nest.loops(); ++loop)
        extents[{phase.first + static_cast<int>(at), loopName(nest, loop)}] = nest.extents[loop];
    }
  return extents;
}

}  // namespace tessera::compiler::codegen
