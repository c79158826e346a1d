#include "compiler/graph/rewrites/hoist_from_loops.h"

#include <algorithm>

#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/tensor_type.h"
#include "compiler/graph/rewrites/simplify.h"
#include "compiler/ir/loop_op.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::tensor::CollapseShapeOp;
using mlir::tensor::ExpandShapeOp;

constexpr int64_t kMaxBytes = int64_t{1} << 30;

/// The dependence of a body's value, in ascending order: nothing, values outside, a part of a scanned tensor, or the
/// previous iteration.
enum class Depends { kNothing, kOutside, kPart, kPartReversed, kState };

Depends both(Depends a, Depends b) {
  if (a == b || b == Depends::kNothing) return a;
  if (a == Depends::kNothing) return b;
  if (a == Depends::kOutside && b != Depends::kState) return b;
  if (b == Depends::kOutside && a != Depends::kState) return a;
  return Depends::kState;  // or parts of different iterations
}

bool isOfPart(Depends depends) { return depends == Depends::kPart || depends == Depends::kPartReversed; }

/// Hoists operations out of one loop.
class LoopHoister {
 public:
  explicit LoopHoister(LoopOp loop) : loop_(loop), body_(loop.body()), form_(loop.form()) {}

  int run() {
    if (!body_ || form_.most == 0) return 0;
    generalizeNamedOps(body_);
    classify();
    llvm::SmallVector<mlir::Operation*> leaving;
    for (mlir::Operation& op : block().without_terminator())
      if (leaves(&op)) leaving.push_back(&op);
    for (mlir::Operation* op : leaving) hoist(op);
    if (leaving.empty()) return 0;
    rebuild();
    return static_cast<int>(leaving.size());
  }

 private:
  mlir::Block& block() { return body_.getBody().front(); }
  Depends of(Value value) const { return depends_.lookup(value); }

  void classify() {
    const auto carried = static_cast<unsigned>(form_.carried);
    const auto scanned = static_cast<unsigned>(form_.scanned_reversed.size());
    for (mlir::BlockArgument argument : block().getArguments()) {
      const unsigned i = argument.getArgNumber();
      Depends depends = Depends::kState;
      if (i > carried && i <= carried + scanned)
        depends = form_.scanned_reversed[i - 1 - carried] ? Depends::kPartReversed : Depends::kPart;
      if (i > carried + scanned) depends = Depends::kOutside;
      depends_[argument] = depends;
    }
    for (mlir::Operation& op : block().without_terminator()) {
      Depends depends = Depends::kNothing;
      for (Value operand : operandsOf(&op)) depends = both(depends, of(operand));
      // Nested loops are never copied: each loop must have its own body.
      if (mlir::isa<LoopOp>(op)) depends = Depends::kState;
      for (Value result : op.getResults()) depends_[result] = depends;
    }
  }

  /// Returns the operands, including values that its regions capture.
  static llvm::SmallVector<Value> operandsOf(mlir::Operation* op) {
    llvm::SetVector<Value> operands(op->operand_begin(), op->operand_end());
    for (mlir::Region& region : op->getRegions()) mlir::getUsedValuesDefinedAbove(region, operands);
    return llvm::to_vector(operands);
  }

  bool leaves(mlir::Operation* op) {
    const OpKind kind = kindOf(op);
    if ((kind != OpKind::kHeavy && kind != OpKind::kReduction) || op->getNumResults() != 1 ||
        tensorType(op->getResult(0)).getElementType().isInteger(1)) {
      return false;
    }
    const Depends depends = of(op->getResult(0));
    if (depends == Depends::kOutside) return true;
    if (!isOfPart(depends) || form_.most < 0) return false;
    auto product = mlir::dyn_cast<GenericOp>(op);
    // Only a product with a loop-invariant value gains.
    if (!product || !isProduct(product) || tensorBytes(op->getResult(0).getType()) > kMaxBytes / form_.most)
      return false;
    if (llvm::none_of(product.getDpsInputs(), [&](Value input) { return of(input) == Depends::kOutside; }))
      return false;
    return stacks(op);
  }

  /// Whether an operation on a part can run on all parts at once, and so can the operations that it depends on.
  bool stacks(mlir::Operation* op) {
    if (auto known = stacks_.find(op); known != stacks_.end()) return known->second;
    bool possible = mlir::isa<ExpandShapeOp, CollapseShapeOp>(op);
    if (auto generic = mlir::dyn_cast<GenericOp>(op)) {
      possible = !generic.getRegion()
                      .walk([](mlir::Operation* inner) {
                        return mlir::isa<mlir::tensor::ExtractOp>(inner) ? mlir::WalkResult::interrupt()
                                                                         : mlir::WalkResult::advance();
                      })
                      .wasInterrupted();
      for (Value init : generic.getDpsInits()) possible &= of(init) == Depends::kNothing;
    }
    for (Value operand : operandsOf(op)) {
      if (!possible || !isOfPart(of(operand))) continue;
      mlir::Operation* producer = operand.getDefiningOp();
      possible = !producer || stacks(producer);
    }
    return stacks_[op] = possible;
  }

  // Building values outside the loop.

  /// Returns the outer value; for a value that depends on a part, the tensor of all parts.
  Value outside(Value value) {
    if (Value known = outside_.lookup(value)) return known;
    mlir::OpBuilder builder(loop_);
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
      const unsigned i = argument.getArgNumber() - 1 - static_cast<unsigned>(form_.carried);
      const auto scanned = static_cast<unsigned>(form_.scanned_reversed.size());
      return outside_[value] = i < scanned ? loop_.scanned()[i] : loop_.captured()[i - scanned];
    }
    mlir::Operation* op = value.getDefiningOp();
    if (isOfPart(of(value))) return outside_[value] = stacked(builder, op);
    mlir::IRMapping mapping;
    for (Value operand : operandsOf(op)) mapping.map(operand, outside(operand));
    mlir::Operation* copy = builder.clone(*op, mapping);
    for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults())) outside_[from] = to;
    return outside_.lookup(value);
  }

  RankedTensorType withParts(RankedTensorType type) const {
    llvm::SmallVector<int64_t> shape = {form_.most};
    llvm::append_range(shape, type.getShape());
    return RankedTensorType::get(shape, type.getElementType());
  }

  Value stacked(mlir::OpBuilder& builder, mlir::Operation* op) {
    if (auto generic = mlir::dyn_cast<GenericOp>(op)) {
      // Stacks the rows of all parts, so that a product of two matrices stays one.
      if (Value rows = stackedRows(builder, generic)) return rows;
      return stackedGeneric(builder, generic);
    }
    const bool expands = mlir::isa<ExpandShapeOp>(op);
    auto groups = expands ? mlir::cast<ExpandShapeOp>(op).getReassociationIndices()
                          : mlir::cast<CollapseShapeOp>(op).getReassociationIndices();
    for (auto& group : groups)
      for (int64_t& dim : group) ++dim;
    groups.insert(groups.begin(), {0});
    const RankedTensorType type = withParts(tensorType(op->getResult(0)));
    Value source = outside(op->getOperand(0));
    if (expands) return ExpandShapeOp::create(builder, op->getLoc(), type, source, groups);
    return CollapseShapeOp::create(builder, op->getLoc(), type, source, groups);
  }

  Value initOf(mlir::OpBuilder& builder, Value init, RankedTensorType type) {
    Value empty = mlir::tensor::EmptyOp::create(builder, init.getLoc(), type.getShape(), type.getElementType());
    auto fill = init.getDefiningOp<mlir::linalg::FillOp>();
    if (!fill) return empty;  // of an elementwise operation
    return mlir::linalg::FillOp::create(builder, init.getLoc(), outside(fill.getInputs()[0]), empty).getResult(0);
  }

  GenericOp rebuilt(mlir::OpBuilder& builder, GenericOp op, RankedTensorType type, llvm::ArrayRef<Value> inputs,
                    llvm::ArrayRef<mlir::AffineMap> maps, llvm::ArrayRef<mlir::utils::IteratorType> loops,
                    unsigned more_loops) {
    Value init = initOf(builder, op.getDpsInits()[0], type);
    auto made = GenericOp::create(builder, op.getLoc(), type, inputs, init, maps, loops);
    mlir::IRMapping mapping;
    for (Value value : operandsOf(op))
      if (!llvm::is_contained(op->getOperands(), value)) mapping.map(value, outside(value));
    op.getRegion().cloneInto(&made.getRegion(), mapping);
    made.getRegion().walk([&](mlir::linalg::IndexOp index) { index.setDim(index.getDim() + more_loops); });
    return made;
  }

  /// Turns a product [m, n] of a part [m, k] into a product of all parts [most m, k]; null if it has another form.
  Value stackedRows(mlir::OpBuilder& builder, GenericOp op) {
    mlir::MLIRContext* context = op.getContext();
    const auto maps = op.getIndexingMapsArray();
    if (op.getNumLoops() != 3 || op.getNumDpsInputs() != 2 || !isProduct(op)) return {};
    const Value rows = op.getDpsInputs()[0], shared = op.getDpsInputs()[1];
    auto dims = mlir::linalg::inferContractionDims(op);
    if (!isOfPart(of(rows)) || isOfPart(of(shared)) || mlir::failed(dims) || dims->m.size() != 1) return {};
    const auto m = mlir::getAffineDimExpr(dims->m[0], context);
    if (maps[0].getNumResults() != 2 || maps[0].getResult(0) != m || maps[2].getResult(0) != m) return {};
    const auto flat = [&](RankedTensorType type) {
      return RankedTensorType::get({form_.most * type.getDimSize(0), type.getDimSize(1)}, type.getElementType());
    };
    const llvm::SmallVector<mlir::ReassociationIndices> groups = {{0, 1}, {2}};
    Value all = CollapseShapeOp::create(builder, op.getLoc(), flat(tensorType(rows)), outside(rows), groups);
    const RankedTensorType type = tensorType(op.getResult(0));
    GenericOp made = rebuilt(builder, op, flat(type), {all, outside(shared)}, maps, op.getIteratorTypesArray(), 0);
    return ExpandShapeOp::create(builder, op.getLoc(), withParts(type), made.getResult(0), groups);
  }

  /// Builds the same loops with an outer loop over the parts.
  Value stackedGeneric(mlir::OpBuilder& builder, GenericOp op) {
    mlir::MLIRContext* context = op.getContext();
    llvm::SmallVector<mlir::AffineMap> maps;
    llvm::SmallVector<Value> inputs;
    const unsigned num_loops = op.getNumLoops();
    const auto shifted = [&](mlir::AffineMap map, bool with_part) {
      llvm::SmallVector<mlir::AffineExpr> results;
      if (with_part) results.push_back(mlir::getAffineDimExpr(0, context));
      for (mlir::AffineExpr result : map.getResults()) results.push_back(result.shiftDims(num_loops, 1));
      return mlir::AffineMap::get(num_loops + 1, 0, results, context);
    };
    for (mlir::OpOperand* input : op.getDpsInputOperands()) {
      inputs.push_back(outside(input->get()));
      maps.push_back(shifted(op.getMatchingIndexingMap(input), isOfPart(of(input->get()))));
    }
    maps.push_back(shifted(op.getMatchingIndexingMap(op.getDpsInitOperand(0)), true));
    llvm::SmallVector<mlir::utils::IteratorType> loops = {mlir::utils::IteratorType::parallel};
    llvm::append_range(loops, op.getIteratorTypesArray());
    return rebuilt(builder, op, withParts(tensorType(op.getResult(0))), inputs, maps, loops, 1).getResult(0);
  }

  void hoist(mlir::Operation* op) {
    const Value result = op->getResult(0);
    outside(result);
    (isOfPart(of(result)) ? parts_ : captured_).push_back(result);
  }

  /// Rebuilds the loop with additional operands for hoisted values that the body still reads.
  void rebuild() {
    const size_t first_scanned = loop_.firstCaptured() - form_.scanned_reversed.size();
    llvm::SmallVector<Value> operands(loop_->getOperands().take_front(loop_.firstCaptured()));
    const unsigned first_argument = 1 + static_cast<unsigned>(operands.size() - first_scanned + form_.carried);
    for (auto [index, part] : llvm::enumerate(parts_)) {
      const unsigned at = first_argument + static_cast<unsigned>(index);
      part.replaceAllUsesWith(block().insertArgument(at, part.getType(), part.getLoc()));
    }
    llvm::SmallVector<mlir::BlockArgument> further;
    for (Value value : captured_) {
      further.push_back(block().addArgument(value.getType(), value.getLoc()));
      value.replaceAllUsesWith(further.back());
    }
    removeDeadCode(body_);
    unsigned at = first_argument;
    for (Value part : parts_) {
      if (block().getArgument(at).use_empty()) {
        block().eraseArgument(at);
        continue;
      }
      operands.push_back(outside_.lookup(part));
      form_.scanned_reversed.push_back(of(part) == Depends::kPartReversed);
      ++at;
    }
    llvm::append_range(operands, loop_.captured());
    for (auto [value, argument] : llvm::zip_equal(captured_, further)) {
      if (argument.use_empty()) {
        block().eraseArgument(argument.getArgNumber());
      } else {
        operands.push_back(outside_.lookup(value));
      }
    }
    mlir::OpBuilder builder(loop_);
    body_.setFunctionType(
        builder.getFunctionType(block().getArgumentTypes(), block().getTerminator()->getOperandTypes()));
    LoopOp made = LoopOp::create(builder, loop_.getLoc(), body_, form_, operands);
    loop_->replaceAllUsesWith(made->getResults());
    loop_->erase();
  }

  LoopOp loop_;
  mlir::func::FuncOp body_;
  LoopOp::Form form_;
  llvm::DenseMap<Value, Depends> depends_;
  llvm::DenseMap<mlir::Operation*, bool> stacks_;
  llvm::DenseMap<Value, Value> outside_;
  llvm::SmallVector<Value> parts_, captured_;  // hoisted values
};

}  // namespace

int hoistFromLoops(mlir::func::FuncOp main) {
  int hoisted = 0;
  for (LoopOp loop : llvm::to_vector(main.getBody().front().getOps<LoopOp>())) hoisted += LoopHoister(loop).run();
  return hoisted;
}

}  // namespace tessera::compiler
