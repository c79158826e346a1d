#include "compiler/graph/slices/access_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/op_kind.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/RegionUtils.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::LinalgOp;

namespace {

template <typename... Parts>
absl::Status notFollowed(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace

absl::Status AccessTrace::need(Value value, Subscripts subscripts, Operation* reader) {
  Operation* producer = value.getDefiningOp();
  // Constants and the like are cloned into every slice.
  if (producer && kindOf(producer) == OpKind::kCloned) return absl::OkStatus();
  // Values from outside are read, not computed, by a slice.
  if (!producer || !inside_.contains(producer)) {
    reads_.push_back({value, space_.hold(std::move(subscripts)), reader});
    return absl::OkStatus();
  }
  auto known = needed_.find(value);
  if (known == needed_.end()) {
    needed_[value] = space_.hold(std::move(subscripts));
    return absl::OkStatus();
  }
  // Two readers must agree on what they need, if necessary by splitting loops.
  if (space_.unite(known->second, subscripts)) return absl::OkStatus();
  return notFollowed(reader->getName().getStringRef().str(), " and others read a value in ways that no slice serves");
}

/// The loops of a window, and those it slides over in small steps, must not be cut separately.
void AccessTrace::keepWindowsWhole(LinalgOp op, mlir::AffineExpr expression, int iteration) {
  expression.walk([&](mlir::AffineExpr inner) {
    auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(inner);
    if (!dim || op.getIteratorTypesArray()[dim.getPosition()] == mlir::utils::IteratorType::parallel) return;
    for (const loopnest::Term& term : space_.at(iteration)[dim.getPosition()]) space_.keepWhole(term.loop);
  });
}

absl::Status AccessTrace::visitLinalg(LinalgOp op, int written) {
  llvm::SetVector<Value> captured;
  mlir::getUsedValuesDefinedAbove(op->getRegions(), captured);
  if (llvm::any_of(captured, [](Value value) { return mlir::isa<RankedTensorType>(value.getType()); })) {
    return notFollowed("elements are gathered");
  }
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (!map.isProjectedPermutation()) return notFollowed("a result is written through an access function of its own");
  const llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  Subscripts loops(op.getNumLoops());
  // A result's loops are those of its readers; summed loops are new ones that a slice never cuts.
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop) {
    if (auto at = map.getResultPosition(mlir::getAffineDimExpr(loop, op.getContext()))) {
      loops[loop] = space_.at(written)[*at];
    } else if (extents[loop] > 1) {
      loops[loop] = {{space_.add(extents[loop], /*cuttable=*/false), 1}};
    }
  }
  const int iteration = space_.hold(loops);
  iterations_[op] = iteration;
  for (mlir::OpOperand* input : op.getDpsInputOperands()) {
    if (!mlir::isa<RankedTensorType>(input->get().getType())) continue;
    Subscripts read;
    for (mlir::AffineExpr expression : op.getMatchingIndexingMap(input).getResults()) {
      // Substitutes the present loops, since some may have been split meanwhile.
      auto subscript = LoopSpace::substitute(expression, space_.at(iteration));
      if (!subscript) return notFollowed("an access function is not linear");
      // A sum of loops is a window.
      if (!mlir::isa<mlir::AffineDimExpr>(expression)) keepWindowsWhole(op, expression, iteration);
      read.push_back(std::move(*subscript));
    }
    TESSERA_RETURN_IF_ERROR(need(input->get(), std::move(read), op));
  }
  return absl::OkStatus();
}

absl::Status AccessTrace::visitCollapse(mlir::tensor::CollapseShapeOp op, int written) {
  const int source = space_.hold(Subscripts(op.getSrcType().getRank()));
  for (auto [position, group] : llvm::enumerate(op.getReassociationIndices())) {
    std::vector<int64_t> sizes;
    for (int64_t d : group) sizes.push_back(op.getSrcType().getDimSize(d));
    auto digits = space_.digits(space_.at(written)[position], sizes);
    // A slice must read whole runs of the merged dimension.
    if (!digits) return notFollowed("a view merges dimensions that are not read as one run");
    for (size_t i = 0; i < group.size(); ++i) space_.set(source, group[i], (*digits)[i]);
  }
  return need(op.getSrc(), space_.at(source), op);
}

absl::Status AccessTrace::visitExpand(mlir::tensor::ExpandShapeOp op, int written) {
  Subscripts source;
  for (const auto& group : op.getReassociationIndices()) {
    Terms merged;
    int64_t stride = 1;
    for (int64_t d : llvm::reverse(group)) {
      // A merged dimension is the sum of its digits.
      for (loopnest::Term term : space_.at(written)[d]) merged.push_back({term.loop, term.coefficient * stride});
      stride *= op.getType().getDimSize(d);
    }
    source.push_back(std::move(merged));
  }
  return need(op.getSrc(), std::move(source), op);
}

absl::Status AccessTrace::visit(Operation* op) {
  if (op->getNumResults() != 1) return notFollowed("an operation has ", op->getNumResults(), " results");
  auto type = mlir::dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type) return notFollowed("an operation gives no tensor");
  if (!needed_.contains(op->getResult(0))) {
    // No operation inside reads it, so it is the result.
    if (op != ops_.back()) return notFollowed("there are two results");
    Subscripts loops;
    for (int64_t extent : type.getShape()) {
      loops.push_back(extent > 1 ? Terms{{space_.add(extent, /*cuttable=*/true), 1}} : Terms{});
    }
    needed_[op->getResult(0)] = space_.hold(std::move(loops));
  }
  const int written = needed_.lookup(op->getResult(0));
  if (auto linalg_op = mlir::dyn_cast<LinalgOp>(op)) return visitLinalg(linalg_op, written);
  if (auto collapse = mlir::dyn_cast<mlir::tensor::CollapseShapeOp>(op)) return visitCollapse(collapse, written);
  if (auto expand = mlir::dyn_cast<mlir::tensor::ExpandShapeOp>(op)) return visitExpand(expand, written);
  if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(op)) return need(pad.getSource(), space_.at(written), op);
  return notFollowed(op->getName().getStringRef().str(), " is not followed");
}

void AccessTrace::findCuts() {
  const Subscripts& result = space_.at(needed_.lookup(ops_.back()->getResult(0)));
  for (auto [dimension, subscript] : llvm::enumerate(result)) {
    // A dimension split by a view has an outer loop, and an inner one that stays whole.
    const auto at =
        std::ranges::find_if(subscript, [&](const loopnest::Term& term) { return space_.cuttable(term.loop); });
    if (at == subscript.end()) continue;
    // A slice of this loop must slice every value inside, or parts would be computed several times.
    const bool everywhere = llvm::all_of(needed_, [&](const auto& made) {
      return std::ranges::any_of(space_.at(made.second), [&](const Terms& own) {
        return std::ranges::count(own, at->loop, &loopnest::Term::loop) > 0;
      });
    });
    if (everywhere) cuts_.push_back({static_cast<int>(dimension), at->loop, at->coefficient});
  }
}

absl::StatusOr<AccessTrace> AccessTrace::of(std::vector<Operation*> ops) {
  AccessTrace trace;
  trace.ops_ = std::move(ops);
  trace.inside_.insert(trace.ops_.begin(), trace.ops_.end());
  // Backwards, because the needs of an operation follow from its readers.
  for (Operation* op : llvm::reverse(trace.ops_)) {
    TESSERA_RETURN_IF_ERROR(trace.visit(op));
  }
  trace.findCuts();
  return trace;
}

std::vector<Operation*> inProgramOrder(std::vector<Operation*> ops) {
  std::ranges::sort(ops, [](Operation* a, Operation* b) { return a->isBeforeInBlock(b); });
  return ops;
}

double vectorWork(LinalgOp op) {
  double work = 0, points = 1;
  for (int64_t extent : op.getStaticLoopRanges()) points *= static_cast<double>(extent);
  for (Operation& inner : op.getBlock()->without_terminator()) {
    if (mlir::isa<mlir::math::MathDialect>(inner.getDialect())) {
      // Functions cost about as much as twenty plain operations.
      work += 40;
    } else if (mlir::isa<mlir::arith::ArithDialect>(inner.getDialect()) &&
               !inner.hasTrait<mlir::OpTrait::ConstantLike>()) {
      work += 2;
    }
  }
  return work * points;
}

}  // namespace tessera::compiler
