#include "compiler/graph/facts/rows.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
namespace linalg = mlir::linalg;
namespace tensor = mlir::tensor;
using mlir::RankedTensorType;
using mlir::Value;

/// A dimension of a tensor that walks rows: `per` elements of it are one row.
struct Walk {
  int64_t dim = 0;
  int64_t per = 1;
};

class RowFinder {
 public:
  explicit RowFinder(const ImportedModel& model) : model_(model) {}

  RowsOfValues run(mlir::func::FuncOp main) {
    enterInputs(main);
    for (mlir::Operation& op : main.getBody().front().without_terminator()) visit(&op);
    for (const auto& [value, dimension] : needed_) {
      const auto known = rows_.find(value);
      if (known != rows_.end())
        llvm::erase_if(known->second, [&, of = dimension](const Rows& rows) { return rows.dimension == of; });
    }
    return std::move(rows_);
  }

 private:
  int64_t most(int dimension) const { return -model_.dimensions[dimension].size(); }

  void enterInputs(mlir::func::FuncOp main) {
    size_t input = 0;
    for (mlir::BlockArgument argument : main.getArguments()) {
      if (main.getArgAttr(argument.getArgNumber(), "tessera.weight")) continue;
      if (input == model_.inputs.size()) return;
      const v1::TensorSpec& spec = model_.inputs[input++];
      for (int i = 0; i < std::min(spec.bounded_dims_size(), spec.bounded_by_size()); ++i)
        give(argument, spec.bounded_by(i), {spec.bounded_dims(i), 1});
    }
  }

  static int64_t below(RankedTensorType type, int64_t dim) {
    int64_t elements = 1;
    for (int64_t d = dim + 1; d < type.getRank(); ++d) elements *= type.getDimSize(d);
    return elements;
  }

  /// Says that `walk` walks the rows of `dimension` in `value`; two ways to walk them are none.
  void give(Value value, int dimension, Walk walk) {
    const auto type = mlir::cast<RankedTensorType>(value.getType());
    if (type.getDimSize(walk.dim) != most(dimension) * walk.per) return need(value, dimension);
    give(value, {dimension, walk.per * below(type, walk.dim)});
  }
  void give(Value value, Rows rows) {
    auto& known = rows_[value];
    for (const Rows& other : known) {
      if (other.dimension == rows.dimension && other.stride != rows.stride) return need(value, rows.dimension);
      if (other.dimension == rows.dimension) return;
    }
    known.push_back(rows);
  }

  /// The dimension of a tensor that walks the rows, where one alone does.
  std::optional<Walk> walkOf(RankedTensorType type, const Rows& rows) const {
    for (int64_t d = 0; d < type.getRank(); ++d) {
      const int64_t inside = below(type, d);
      if (rows.stride % inside == 0 && type.getDimSize(d) * inside == most(rows.dimension) * rows.stride)
        return Walk{d, rows.stride / inside};
    }
    return std::nullopt;
  }

  /// All rows of a dimension have to be there in `value`, and with it whatever it is made of.
  void need(Value value, int dimension) {
    llvm::SmallVector<Value> open{value};
    while (!open.empty()) {
      Value next = open.pop_back_val();
      if (!needed_.insert({next, dimension}).second) continue;
      mlir::Operation* op = next.getDefiningOp();
      if (!op) continue;
      open.append(op->operand_begin(), op->operand_end());
      open.append(captured(op));
    }
  }
  static llvm::SmallVector<Value> captured(mlir::Operation* op) {
    llvm::SetVector<Value> values;
    for (mlir::Region& region : op->getRegions()) mlir::getUsedValuesDefinedAbove(region, values);
    return llvm::SmallVector<Value>(values.begin(), values.end());
  }
  void needOperands(mlir::Operation* op) {
    for (int dimension = 0; dimension < static_cast<int>(model_.dimensions.size()); ++dimension) {
      if (model_.dimensions[dimension].size() >= 0) continue;
      for (Value operand : op->getOperands()) need(operand, dimension);
      for (Value value : captured(op)) need(value, dimension);
    }
  }

  llvm::ArrayRef<Rows> of(Value value) const {
    const auto found = rows_.find(value);
    return found == rows_.end() ? llvm::ArrayRef<Rows>() : llvm::ArrayRef<Rows>(found->second);
  }

  void visit(mlir::Operation* op) {
    if (auto structured = mlir::dyn_cast<linalg::LinalgOp>(op)) return visitStructured(structured);
    if (mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
      for (const Rows& rows : llvm::SmallVector<Rows>(of(op->getOperand(0)))) give(op->getResult(0), rows);
    } else if (auto slice = mlir::dyn_cast<tensor::ExtractSliceOp>(op)) {
      visitSlice(slice);
    } else if (auto pad = mlir::dyn_cast<tensor::PadOp>(op)) {
      visitPad(pad);
    } else if (auto concat = mlir::dyn_cast<tensor::ConcatOp>(op)) {
      visitConcat(concat);
    } else if (!mlir::isa<tensor::EmptyOp, arith::ConstantOp>(op)) {
      needOperands(op);
    }
  }

  /// Whether a value of a body depends on elements that may be missing, and not on positions or whole tensors alone.
  bool dependsOnRows(Value value) const {
    llvm::SmallVector<Value> open{value};
    llvm::DenseSet<Value> seen;
    while (!open.empty()) {
      Value next = open.pop_back_val();
      if (!seen.insert(next).second) continue;
      mlir::Operation* op = next.getDefiningOp();
      if (!op || op->getNumRegions() > 0) return true;
      if (auto extract = mlir::dyn_cast<tensor::ExtractOp>(op)) {
        if (!of(extract.getTensor()).empty()) return true;
        continue;  // its indices are looked at for themselves
      }
      open.append(op->operand_begin(), op->operand_end());
    }
    return false;
  }

  /// An address or a divisor that comes of a row nobody computed could be anything.
  bool isDelicate(mlir::Operation* op) const {
    return op
        ->walk([&](mlir::Operation* inner) {
          bool any = false;
          if (auto extract = mlir::dyn_cast<tensor::ExtractOp>(inner)) {
            any = llvm::any_of(extract.getIndices(), [&](Value index) { return dependsOnRows(index); });
          } else if (mlir::isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::FloorDivSIOp,
                               arith::CeilDivSIOp, arith::CeilDivUIOp>(inner)) {
            any = dependsOnRows(inner->getOperand(1));
          }
          return any ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
        })
        .wasInterrupted();
  }

  void visitStructured(linalg::LinalgOp op) {
    if (isDelicate(op)) needOperands(op);
    const auto iterators = op.getIteratorTypesArray();
    llvm::DenseMap<std::pair<unsigned, int>, int64_t> per;  // loop, dimension -> iterations for each row
    llvm::DenseSet<int> doubtful;
    for (mlir::OpOperand& operand : op->getOpOperands()) {
      const auto type = mlir::dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type) continue;
      for (const Rows& rows : of(operand.get())) {
        const auto walk = walkOf(type, rows);
        const auto place =
            walk ? mlir::dyn_cast<mlir::AffineDimExpr>(op.getMatchingIndexingMap(&operand).getResult(walk->dim))
                 : mlir::AffineDimExpr(nullptr);
        if (!place || iterators[place.getPosition()] != mlir::utils::IteratorType::parallel) {
          need(operand.get(), rows.dimension);
          continue;
        }
        const auto [known, fresh] = per.try_emplace({place.getPosition(), rows.dimension}, walk->per);
        if (!fresh && known->second != walk->per) doubtful.insert(rows.dimension);
      }
    }
    // What a body reads at places of its own (a resize, a gather): along its loops, or all of it.
    op->walk([&](tensor::ExtractOp extract) {
      for (const Rows& rows : of(extract.getTensor())) {
        const auto walk = walkOf(extract.getTensor().getType(), rows);
        auto index = walk ? extract.getIndices()[walk->dim].getDefiningOp<linalg::IndexOp>() : linalg::IndexOp();
        if (!index || iterators[index.getDim()] != mlir::utils::IteratorType::parallel) {
          need(extract.getTensor(), rows.dimension);
          continue;
        }
        const auto [known, fresh] = per.try_emplace({static_cast<unsigned>(index.getDim()), rows.dimension}, walk->per);
        if (!fresh && known->second != walk->per) doubtful.insert(rows.dimension);
      }
    });
    for (auto [result, init] : llvm::zip(op->getResults(), op.getDpsInitsMutable())) {
      for (int dimension : doubtful) need(result, dimension);
      const mlir::AffineMap map = op.getMatchingIndexingMap(&init);
      for (const auto& [loop, each] : per) {
        if (doubtful.contains(loop.second)) continue;
        if (const auto dim = map.getResultPosition(mlir::getAffineDimExpr(loop.first, op->getContext())))
          give(result, loop.second, {static_cast<int64_t>(*dim), each});
      }
    }
  }

  void visitSlice(tensor::ExtractSliceOp slice) {
    const auto type = slice.getSourceType();
    const llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (const Rows& rows : llvm::SmallVector<Rows>(of(slice.getSource()))) {
      const auto walk = walkOf(type, rows);
      if (!walk || slice.getStaticOffsets()[walk->dim] != 0 || slice.getStaticStrides()[walk->dim] != 1 ||
          slice.getStaticSizes()[walk->dim] != type.getDimSize(walk->dim) || dropped.test(walk->dim)) {
        need(slice.getSource(), rows.dimension);
        continue;
      }
      int64_t dim = 0;
      for (int64_t d = 0; d < walk->dim; ++d) dim += dropped.test(d) ? 0 : 1;
      give(slice.getResult(), rows.dimension, {dim, walk->per});
    }
  }

  void visitPad(tensor::PadOp pad) {
    for (const Rows& rows : llvm::SmallVector<Rows>(of(pad.getSource()))) {
      const auto walk = walkOf(pad.getSourceType(), rows);
      if (walk && pad.getStaticLow()[walk->dim] == 0 && pad.getStaticHigh()[walk->dim] == 0) {
        give(pad.getResult(), rows.dimension, *walk);
      } else {
        need(pad.getSource(), rows.dimension);
      }
    }
  }

  void visitConcat(tensor::ConcatOp concat) {
    for (Value part : concat.getInputs()) {
      for (const Rows& rows : llvm::SmallVector<Rows>(of(part))) {
        const auto walk = walkOf(mlir::cast<RankedTensorType>(part.getType()), rows);
        if (walk && walk->dim != static_cast<int64_t>(concat.getDim())) {
          give(concat.getResult(), rows.dimension, *walk);
        } else {
          need(part, rows.dimension);
        }
      }
    }
  }

  const ImportedModel& model_;
  RowsOfValues rows_;
  llvm::DenseSet<std::pair<Value, int>> needed_;
};

}  // namespace

RowsOfValues findRows(const ImportedModel& model, mlir::func::FuncOp main) { return RowFinder(model).run(main); }

}  // namespace tessera::compiler
