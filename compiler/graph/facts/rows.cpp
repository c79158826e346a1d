#include "compiler/graph/facts/rows.h"

#include <algorithm>
#include <functional>

#include "compiler/graph/facts/delicate.h"
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
using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::RankedTensorType;
using mlir::Value;

using Entries = SmallVector<Rows, 1>;

constexpr size_t kMostMasks = 6;  // within each other

/// Of a loop, or of a dimension of a tensor: iteration i is of row i / per mod N.
struct Part {
  int64_t place = 0;  ///< of the loop or dimension
  int64_t per = 1;
  int dimension = 0;
  bool operator==(const Part&) const = default;
};
using Parts = SmallVector<Part, 2>;

int64_t below(RankedTensorType type, int64_t dim) {
  int64_t elements = 1;
  for (int64_t d = dim + 1; d < type.getRank(); ++d) elements *= type.getDimSize(d);
  return elements;
}

SmallVector<Value> captured(mlir::Operation* op) {
  llvm::SetVector<Value> values;
  for (mlir::Region& region : op->getRegions()) mlir::getUsedValuesDefinedAbove(region, values);
  return SmallVector<Value>(values.begin(), values.end());
}

/// The values of a body that a part of its iterations reads only: up to `parts`, where a mask selects.
using Narrowed = llvm::DenseMap<Value, Parts>;

}  // namespace

class RowFacts::Finder {
 public:
  Finder(const ImportedModel& model, mlir::func::FuncOp main) : model_(model), main_(main) { enterInputs(); }

  RowsOfValues all() {
    enterResults();
    for (mlir::Operation& op : llvm::reverse(main_.getBody().front().without_terminator())) visit(&op);
    return std::move(rows_);
  }

  RowsOfValues within(ArrayRef<mlir::Operation*> ops, const RowsOfValues& results) {
    // Views in front of what they read belong to it.
    llvm::SetVector<mlir::Operation*> all(ops.begin(), ops.end());
    for (size_t i = 0; i < all.size(); ++i) {
      for (Value operand : all[i]->getOperands()) {
        mlir::Operation* source = operand.getDefiningOp();
        if (source && mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(source))
          all.insert(source);
      }
    }
    SmallVector<mlir::Operation*> ordered(all.begin(), all.end());
    llvm::sort(ordered, [](mlir::Operation* a, mlir::Operation* b) { return b->isBeforeInBlock(a); });
    rows_ = results;
    masks_ = false;
    for (mlir::Operation* op : ordered) visit(op);
    masks_ = true;
    return std::move(rows_);
  }

 private:
  // What follows a range at all.

  void enterInputs() {
    size_t input = 0;
    for (mlir::BlockArgument argument : main_.getArguments()) {
      if (main_.getArgAttr(argument.getArgNumber(), "tessera.weight")) continue;
      if (input == model_.inputs.size()) break;
      const v1::TensorSpec& spec = model_.inputs[input++];
      if (spec.bounded_dims_size() > 0) ranged_.insert(argument);
      for (auto [d, dimension] : llvm::enumerate(model_.dimensions))
        if (dimension.size() < -1 && dimension.name() == spec.name()) counts_[argument] = static_cast<int>(d);
    }
    for (mlir::Operation& op : main_.getBody().front().without_terminator()) {
      const auto is_ranged = [&](Value value) { return ranged_.contains(value); };
      if (llvm::any_of(op.getOperands(), is_ranged) || llvm::any_of(captured(&op), is_ranged))
        ranged_.insert(op.result_begin(), op.result_end());
    }
  }

  int64_t most(int dimension) const { return -model_.dimensions[static_cast<size_t>(dimension)].size(); }

  /// The range of which `value`, a number of a body or a tensor of one, is the count.
  std::optional<int> countedBy(Value value) const {
    while (!counts_.contains(value)) {
      mlir::Operation* op = value.getDefiningOp();
      if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
        auto around = mlir::dyn_cast_or_null<linalg::LinalgOp>(argument.getOwner()->getParentOp());
        if (!around) return std::nullopt;
        value = around->getOperand(argument.getArgNumber());
      } else if (mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractOp, arith::IndexCastOp,
                           arith::ExtSIOp>(op)) {
        value = op->getOperand(0);
      } else {
        return std::nullopt;
      }
    }
    return counts_.lookup(value);
  }

  // What is needed of values.

  /// Besides what others need of `value`.
  void need(Value value, Entries entries) {
    const auto [known, fresh] = rows_.try_emplace(value, entries);
    if (fresh) return;
    llvm::erase_if(known->second, [&](const Rows& rows) { return !llvm::is_contained(entries, rows); });
  }
  void needAll(mlir::Operation* op) {
    for (Value operand : op->getOperands()) need(operand, {});
    for (Value value : captured(op)) need(value, {});
  }
  static void add(Entries& entries, Rows rows) {
    if (!llvm::is_contained(entries, rows)) entries.push_back(rows);
  }

  void enterResults() {
    mlir::Operation* terminator = main_.getBody().front().getTerminator();
    const size_t outputs = model_.outputs.size();
    for (size_t i = 0; i < terminator->getNumOperands(); ++i) {
      const Value value = terminator->getOperand(static_cast<unsigned>(i));
      Entries entries;
      for (size_t k = 0; i < outputs && k < model_.extents.size(); ++k) {
        const OutputExtent& extent = model_.extents[k];
        if (static_cast<size_t>(extent.output) != i || outputs + k >= terminator->getNumOperands()) continue;
        const auto type = mlir::cast<RankedTensorType>(value.getType());
        const auto dimension = countedBy(terminator->getOperand(static_cast<unsigned>(outputs + k)));
        if (dimension && type.getDimSize(extent.dimension) == most(*dimension))
          add(entries, {*dimension, below(type, extent.dimension)});
      }
      need(value, std::move(entries));
    }
  }

  // Between elements and dimensions.

  /// The dimension of a tensor along which these rows are told apart, where one alone does.
  std::optional<Part> partOf(RankedTensorType type, const Rows& rows) const {
    for (int64_t d = 0; d < type.getRank(); ++d) {
      const int64_t inside = below(type, d), per = rows.stride / inside;
      if (rows.stride % inside == 0 && type.getDimSize(d) % (per * most(rows.dimension)) == 0)
        return Part{d, per, rows.dimension};
    }
    return std::nullopt;
  }
  Parts partsOf(RankedTensorType type, ArrayRef<Rows> entries) const {
    Parts parts;
    for (const Rows& rows : entries)
      if (auto part = partOf(type, rows)) parts.push_back(*part);
    return parts;
  }
  /// Of a dimension all along which the part goes.
  void addPart(Entries& entries, RankedTensorType type, int64_t dim, const Part& part) const {
    if (type.getDimSize(dim) % (part.per * most(part.dimension)) == 0)
      add(entries, {part.dimension, part.per * below(type, dim)});
  }

  // Operations.

  void visit(mlir::Operation* op) {
    if (llvm::none_of(op->getResults(), [&](Value result) { return rows_.contains(result); })) return;  // nobody reads
    if (auto structured = mlir::dyn_cast<linalg::LinalgOp>(op)) return visitStructured(structured);
    if (mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
      need(op->getOperand(0), rows_.lookup(op->getResult(0)));
    } else if (auto slice = mlir::dyn_cast<tensor::ExtractSliceOp>(op)) {
      visitSlice(slice);
    } else if (auto pad = mlir::dyn_cast<tensor::PadOp>(op)) {
      visitPad(pad);
    } else if (auto concat = mlir::dyn_cast<tensor::ConcatOp>(op)) {
      visitConcat(concat);
    } else {
      needAll(op);
    }
  }

  void visitStructured(linalg::LinalgOp op) {
    if (isDelicate(op, [&](Value tensor) { return ranged_.contains(tensor); })) return needAll(op);
    const SmallVector<int64_t> extents = op.getStaticLoopRanges();
    const Parts parts = partsOfResults(op);
    const Narrowed narrowed = masks_ ? narrowedBy(op, extents) : Narrowed();
    const auto partsWith = [&](Value read) {
      Parts all = parts;
      if (const auto more = narrowed.find(read); more != narrowed.end()) all.append(more->second);
      return all;
    };
    for (mlir::OpOperand& operand : op->getOpOperands()) {
      const auto type = mlir::dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type) continue;
      const Parts all = partsWith(op.getMatchingBlockArgument(&operand));
      Entries entries;
      for (auto [dim, expression] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
        if (auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression))
          addAlong(entries, type, static_cast<int64_t>(dim), loop.getPosition(), all, extents);
      need(operand.get(), std::move(entries));
    }
    // What a body reads at places of its own (a resize, a gather): along its loops, or all of it.
    llvm::DenseSet<Value> taken;
    op->walk([&](tensor::ExtractOp extract) {
      if (extract.getTensor().getParentRegion() != op->getParentRegion()) return;
      taken.insert(extract.getTensor());
      const Parts all = partsWith(extract.getResult());
      const auto type = mlir::cast<RankedTensorType>(extract.getTensor().getType());
      Entries entries;
      for (auto [dim, index] : llvm::enumerate(extract.getIndices())) {
        auto loop = index.getDefiningOp<linalg::IndexOp>();
        if (loop) addAlong(entries, type, static_cast<int64_t>(dim), loop.getDim(), all, extents);
      }
      need(extract.getTensor(), std::move(entries));
    });
    for (Value value : captured(op))
      if (!taken.contains(value) || readOtherwise(value, op)) need(value, {});
  }

  /// Whether something inside of `op` reads the tensor, and not one element of it.
  static bool readOtherwise(Value tensor, mlir::Operation* op) {
    return llvm::any_of(tensor.getUsers(), [&](mlir::Operation* user) {
      return op->isProperAncestor(user) && !mlir::isa<tensor::ExtractOp>(user);
    });
  }

  /// Parts of the loops that the results need together.
  Parts partsOfResults(linalg::LinalgOp op) const {
    std::optional<Parts> parts;
    for (auto [result, init] : llvm::zip(op->getResults(), op.getDpsInitsMutable())) {
      const auto needed = rows_.find(result);
      if (needed == rows_.end()) continue;
      Parts of_loops = partsOf(mlir::cast<RankedTensorType>(result.getType()), needed->second);
      const mlir::AffineMap map = op.getMatchingIndexingMap(&init);
      llvm::erase_if(of_loops, [&](Part& part) {
        auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(static_cast<unsigned>(part.place)));
        if (loop) part.place = loop.getPosition();
        return !loop;
      });
      if (parts) {
        keepShared(*parts, of_loops);
      } else {
        parts = std::move(of_loops);
      }
    }
    return parts.value_or(Parts());
  }
  static void keepShared(Parts& parts, ArrayRef<Part> others) {
    llvm::erase_if(parts, [&](const Part& part) { return !llvm::is_contained(others, part); });
  }

  /// The rows of dimension `dim`, which `loop` walks.
  void addAlong(Entries& entries, RankedTensorType type, int64_t dim, uint64_t loop, ArrayRef<Part> parts,
                ArrayRef<int64_t> extents) const {
    if (extents[loop] != type.getDimSize(dim)) return;
    for (const Part& part : parts)
      if (part.place == static_cast<int64_t>(loop)) addPart(entries, type, dim, part);
  }

  // Masks.

  /// Where a condition of a body holds at most: a part of a loop. Nothing when it is no comparison of a position with
  /// an extent.
  std::optional<Part> holdsFor(Value condition, linalg::LinalgOp op, ArrayRef<int64_t> extents) {
    if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(condition)) {
      if (argument.getOwner() != op.getBlock()) return std::nullopt;
      mlir::OpOperand& operand = op->getOpOperand(argument.getArgNumber());
      const auto type = mlir::dyn_cast<RankedTensorType>(operand.get().getType());
      const auto rows = type ? trueFor(operand.get()) : std::nullopt;
      auto part = rows ? partOf(type, *rows) : std::nullopt;
      if (!part) return std::nullopt;
      auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(
          op.getMatchingIndexingMap(&operand).getResult(static_cast<unsigned>(part->place)));
      if (!loop || extents[loop.getPosition()] != type.getDimSize(part->place)) return std::nullopt;
      part->place = loop.getPosition();
      return part;
    }
    auto compare = condition.getDefiningOp<arith::CmpIOp>();
    if (!compare) return std::nullopt;
    Value position = compare.getLhs(), extent = compare.getRhs();
    using Predicate = arith::CmpIPredicate;
    const Predicate predicate = compare.getPredicate();
    if (predicate == Predicate::sgt || predicate == Predicate::ugt)
      std::swap(position, extent);
    else if (predicate != Predicate::slt && predicate != Predicate::ult)
      return std::nullopt;
    while (
        position.getDefiningOp() &&
        mlir::isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp>(position.getDefiningOp()))
      position = position.getDefiningOp()->getOperand(0);
    auto loop = position.getDefiningOp<linalg::IndexOp>();
    const auto dimension = loop ? countedBy(extent) : std::nullopt;
    if (!dimension || extents[loop.getDim()] != most(*dimension)) return std::nullopt;
    return Part{static_cast<int64_t>(loop.getDim()), 1, *dimension};
  }

  /// The same of the elements of a tensor of conditions.
  std::optional<Rows> trueFor(Value conditions) {
    mlir::Operation* op = conditions.getDefiningOp();
    if (op && mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) return trueFor(op->getOperand(0));
    auto generic = mlir::dyn_cast_or_null<linalg::GenericOp>(op);
    if (!generic || generic.getNumResults() != 1 || generic.getNumReductionLoops() > 0) return std::nullopt;
    auto structured = mlir::cast<linalg::LinalgOp>(op);
    auto part =
        holdsFor(generic.getBody()->getTerminator()->getOperand(0), structured, structured.getStaticLoopRanges());
    if (!part) return std::nullopt;
    const auto dim =
        structured.getMatchingIndexingMap(&structured.getDpsInitsMutable()[0])
            .getResultPosition(mlir::getAffineDimExpr(static_cast<unsigned>(part->place), op->getContext()));
    if (!dim) return std::nullopt;
    return Rows{part->dimension, part->per * below(mlir::cast<RankedTensorType>(conditions.getType()), *dim)};
  }

  /// What a body reads in front of a mask alone: arguments, and elements it takes at places of its own.
  Narrowed narrowedBy(linalg::LinalgOp op, ArrayRef<int64_t> extents) {
    mlir::Block* body = op.getBlock();
    if (!body || llvm::any_of(*body, [](mlir::Operation& inner) { return inner.getNumRegions() > 0; }))
      return Narrowed();
    Narrowed found;
    llvm::DenseSet<Value> inside;  // reached behind the masks that are around now
    Parts around;
    const std::function<void(Value)> reach = [&](Value value) {
      if (!inside.insert(value).second) return;
      mlir::Operation* definition = value.getDefiningOp();
      if (!definition || mlir::isa<tensor::ExtractOp>(definition)) {
        const auto [known, fresh] = found.try_emplace(value, around);
        if (!fresh) keepShared(known->second, around);
        if (!definition) return;
      }
      auto select = mlir::dyn_cast<arith::SelectOp>(definition);
      auto part = select && around.size() < kMostMasks ? holdsFor(select.getCondition(), op, extents) : std::nullopt;
      if (!part) {
        for (Value operand : definition->getOperands()) reach(operand);
        return;
      }
      reach(select.getCondition());
      reach(select.getFalseValue());
      llvm::DenseSet<Value> outside;
      std::swap(inside, outside);
      around.push_back(*part);
      reach(select.getTrueValue());
      around.pop_back();
      std::swap(inside, outside);
    };
    for (Value result : body->getTerminator()->getOperands()) reach(result);
    return found;
  }

  // Movement.

  void visitSlice(tensor::ExtractSliceOp slice) {
    const auto from = slice.getSourceType();
    const auto to = mlir::cast<RankedTensorType>(slice.getResult().getType());
    const llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<int64_t> source_of;
    for (int64_t d = 0; d < from.getRank(); ++d)
      if (!dropped.test(static_cast<unsigned>(d))) source_of.push_back(d);
    Entries entries;
    for (const Part& part : partsOf(to, rows_.lookup(slice.getResult()))) {
      const auto dim = static_cast<size_t>(source_of[static_cast<size_t>(part.place)]);
      if (slice.getStaticOffsets()[dim] == 0 && slice.getStaticStrides()[dim] == 1)
        addPart(entries, from, static_cast<int64_t>(dim), part);
    }
    // The first row alone: a run has it.
    for (int64_t d = 0; d < from.getRank(); ++d) {
      const auto at = static_cast<size_t>(d);
      if (slice.getStaticOffsets()[at] != 0 || slice.getStaticSizes()[at] != 1) continue;
      for (auto [r, dimension] : llvm::enumerate(model_.dimensions))
        if (dimension.size() < -1 && -dimension.size() == from.getDimSize(d))
          add(entries, {static_cast<int>(r), below(from, d)});
    }
    need(slice.getSource(), std::move(entries));
    for (Value operand : slice->getOperands().drop_front()) need(operand, {});
  }
  void visitPad(tensor::PadOp pad) {
    const auto from = pad.getSourceType();
    const auto to = mlir::cast<RankedTensorType>(pad.getResult().getType());
    Entries entries;
    for (const Part& part : partsOf(to, rows_.lookup(pad.getResult()))) {
      if (pad.getStaticLow()[static_cast<size_t>(part.place)] == 0) addPart(entries, from, part.place, part);
    }
    need(pad.getSource(), std::move(entries));
    for (Value operand : pad->getOperands().drop_front()) need(operand, {});
    for (Value value : captured(pad)) need(value, {});
  }

  void visitConcat(tensor::ConcatOp concat) {
    const auto to = mlir::cast<RankedTensorType>(concat.getResult().getType());
    const auto along = static_cast<int64_t>(concat.getDim());
    const Parts parts = partsOf(to, rows_.lookup(concat.getResult()));
    for (Value input : concat.getInputs()) {
      Entries entries;
      for (const Part& part : parts)
        if (part.place != along) addPart(entries, mlir::cast<RankedTensorType>(input.getType()), part.place, part);
      need(input, std::move(entries));
    }
  }

  const ImportedModel& model_;
  mlir::func::FuncOp main_;
  llvm::DenseMap<Value, int> counts_;  // arguments of main that say how much of a range there is
  llvm::DenseSet<Value> ranged_;       // what inputs that have ranges decide
  RowsOfValues rows_;                  // of what something needs; no entry: nobody asked for it yet
  bool masks_ = true;
};

RowFacts::RowFacts(const ImportedModel& model, mlir::func::FuncOp main)
    : finder_(std::make_unique<Finder>(model, main)), rows_(finder_->all()) {}

RowFacts::~RowFacts() = default;

ArrayRef<Rows> RowFacts::of(Value value) const {
  const auto found = rows_.find(value);
  return found == rows_.end() ? ArrayRef<Rows>() : ArrayRef<Rows>(found->second);
}

RowsOfValues RowFacts::alongside(ArrayRef<mlir::Operation*> ops, ArrayRef<Value> results) const {
  RowsOfValues needed;
  for (Value result : results) needed[result] = Entries(of(result));
  return finder_->within(ops, needed);
}

}  // namespace tessera::compiler
