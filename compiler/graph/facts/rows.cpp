#include "compiler/graph/facts/rows.h"

#include <algorithm>
#include <functional>

#include "compiler/graph/facts/extent_series.h"
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

/// Of a loop, or of a dimension of a tensor: iteration i is needed where i / per mod count is a row that is.
struct Part {
  int64_t place = 0;  ///< of the loop or dimension
  int64_t per = 1;
  Rows rows;  ///< without a stride
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
  Finder(const ImportedModel& model, mlir::func::FuncOp main) : model_(model), main_(main), series_(model, main) {
    enterInputs();
  }

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
      if (model_.inputs[input++].bounded_dims_size() > 0) ranged_.insert(argument);
    }
    for (mlir::Operation& op : main_.getBody().front().without_terminator()) {
      const auto is_ranged = [&](Value value) { return ranged_.contains(value); };
      if (llvm::any_of(op.getOperands(), is_ranged) || llvm::any_of(captured(&op), is_ranged))
        ranged_.insert(op.result_begin(), op.result_end());
    }
  }

  // What is needed, as functions of counts.

  int64_t most(int dimension) const { return series_.most(dimension); }

  /// Row i for i < n where `rows.needed` is null, written out.
  int64_t neededAt(const Rows& rows, int64_t n) const {
    return rows.needed ? (*rows.needed)[static_cast<size_t>(n)] : n;
  }
  /// Rows of which `of(n)` are needed in a run of n; nothing where all are, or the range is too long for a table.
  template <typename Of>
  std::optional<Rows> rowsBy(int dimension, int64_t count, Of of) const {
    if (most(dimension) > ExtentSeries::kLongest) return std::nullopt;
    auto needed = std::make_shared<std::vector<int64_t>>();
    bool identity = count == most(dimension), all = true;
    for (int64_t n = 0; n <= most(dimension); ++n) {
      needed->push_back(std::clamp<int64_t>(of(n), 0, count));
      identity &= needed->back() == n;
      all &= needed->back() == count;
    }
    if (all) return std::nullopt;
    Rows rows{.dimension = dimension, .count = count};
    if (!identity) rows.needed = std::move(needed);
    return rows;
  }
  /// As many rows as one of both needs (`greatest`), or as both do.
  std::optional<Rows> combined(const Rows& a, const Rows& b, bool greatest) const {
    if (a.needed == b.needed) return a;
    auto both = rowsBy(a.dimension, a.count, [&](int64_t n) {
      const int64_t x = neededAt(a, n), y = neededAt(b, n);
      return greatest ? std::max(x, y) : std::min(x, y);
    });
    if (both) both->stride = a.stride;
    return both;
  }
  std::optional<Rows> rowsOf(const Series& series, int64_t count) const {
    if (series.dimension < 0) return std::nullopt;
    if (!series.at.empty())
      return rowsBy(series.dimension, count, [&](int64_t n) { return series.at[static_cast<size_t>(n)]; });
    if (count != most(series.dimension)) return std::nullopt;
    return Rows{.dimension = series.dimension, .count = count};
  }

  // What is needed of values.

  /// Besides what others need of `value`.
  void need(Value value, Entries entries) {
    const auto [known, fresh] = rows_.try_emplace(value, entries);
    if (fresh) return;
    Entries kept;
    for (const Rows& rows : known->second) {
      const auto* other = llvm::find_if(entries, [&](const Rows& each) {
        return each.dimension == rows.dimension && each.stride == rows.stride && each.count == rows.count;
      });
      if (other == entries.end()) continue;
      if (auto both = combined(rows, *other, /*greatest=*/true)) kept.push_back(*std::move(both));
    }
    known->second = std::move(kept);
  }
  void needAll(mlir::Operation* op) {
    for (Value operand : op->getOperands()) need(operand, {});
    for (Value value : captured(op)) need(value, {});
  }
  /// Beside what is there already.
  void add(Entries& entries, Rows rows) const {
    for (Rows& known : entries) {
      if (known.dimension != rows.dimension || known.stride != rows.stride || known.count != rows.count) continue;
      if (auto both = combined(known, rows, /*greatest=*/false)) known = *std::move(both);
      return;
    }
    entries.push_back(std::move(rows));
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
        const auto series = series_.of(terminator->getOperand(static_cast<unsigned>(outputs + k)));
        auto rows = series ? rowsOf(*series, type.getDimSize(extent.dimension)) : std::nullopt;
        if (!rows) continue;
        rows->stride = below(type, extent.dimension);
        add(entries, *std::move(rows));
      }
      need(value, std::move(entries));
    }
  }

  // Between elements and dimensions.

  /// The dimension of a tensor along which these rows are told apart, where one alone does.
  std::optional<Part> partOf(RankedTensorType type, const Rows& rows) const {
    for (int64_t d = 0; d < type.getRank(); ++d) {
      const int64_t inside = below(type, d), size = type.getDimSize(d);
      if (size < 2) continue;
      if (rows.stride % inside == 0) {
        const int64_t per = rows.stride / inside;
        if (per < size && size % (per * rows.count) == 0) return Part{d, per, rows};
      } else if (inside % rows.stride == 0 && size * inside == rows.count * rows.stride) {
        const int64_t whole = inside / rows.stride;  // rows of one step along the dimension
        if (rows.count % whole != 0) continue;
        auto coarse = rowsBy(rows.dimension, rows.count / whole,
                             [&](int64_t n) { return (neededAt(rows, n) + whole - 1) / whole; });
        if (coarse) return Part{d, 1, *std::move(coarse)};
      }
    }
    return std::nullopt;
  }
  Parts partsOf(RankedTensorType type, ArrayRef<Rows> entries) const {
    Parts parts;
    for (const Rows& rows : entries)
      if (auto part = partOf(type, rows)) parts.push_back(*std::move(part));
    return parts;
  }
  /// Of a dimension all along which the part goes.
  void addPart(Entries& entries, RankedTensorType type, int64_t dim, const Part& part) const {
    if (type.getDimSize(dim) % (part.per * part.rows.count) != 0) return;
    Rows rows = part.rows;
    rows.stride = part.per * below(type, dim);
    add(entries, std::move(rows));
  }
  /// Whether the part is the first so many of `extent` iterations.
  static bool isPrefix(const Part& part, int64_t extent) { return part.per == 1 && part.rows.count == extent; }

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

  /// Whether a value of a body depends on elements that may be missing, and not on positions or whole tensors alone.
  bool dependsOnRows(Value value) const {
    SmallVector<Value> open{value};
    llvm::DenseSet<Value> seen;
    while (!open.empty()) {
      Value next = open.pop_back_val();
      if (!seen.insert(next).second) continue;
      mlir::Operation* op = next.getDefiningOp();
      if (!op || op->getNumRegions() > 0) return true;
      if (auto extract = mlir::dyn_cast<tensor::ExtractOp>(op)) {
        if (ranged_.contains(extract.getTensor())) return true;
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
    if (isDelicate(op)) return needAll(op);
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
        addAlong(entries, type, static_cast<int64_t>(dim), expression, all, extents);
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
        if (loop)
          addAlong(entries, type, static_cast<int64_t>(dim),
                   mlir::getAffineDimExpr(static_cast<unsigned>(loop.getDim()), op->getContext()), all, extents);
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
      parts = parts ? either(*parts, of_loops) : std::move(of_loops);
    }
    return parts.value_or(Parts());
  }
  /// What is in one of both.
  Parts either(ArrayRef<Part> a, ArrayRef<Part> b) const {
    Parts result;
    for (const Part& part : a) {
      const auto* other = llvm::find_if(b, [&](const Part& each) {
        return each.place == part.place && each.per == part.per && each.rows.dimension == part.rows.dimension &&
               each.rows.count == part.rows.count;
      });
      if (other == b.end()) continue;
      if (auto both = combined(part.rows, other->rows, /*greatest=*/true))
        result.push_back({part.place, part.per, *std::move(both)});
    }
    return result;
  }

  /// The rows of dimension `dim`, which `expression` says how the loops walk.
  void addAlong(Entries& entries, RankedTensorType type, int64_t dim, mlir::AffineExpr expression, ArrayRef<Part> parts,
                ArrayRef<int64_t> extents) const {
    if (auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression)) {
      if (extents[loop.getPosition()] != type.getDimSize(dim)) return;
      for (const Part& part : parts)
        if (part.place == loop.getPosition()) addPart(entries, type, dim, part);
      return;
    }
    SmallVector<int64_t> factors(extents.size(), 0);
    int64_t offset = 0;
    if (!addTerms(expression, 1, factors, offset)) return;
    for (int dimension = 0; dimension < series_.dimensions(); ++dimension) {
      if (!series_.isRange(dimension)) continue;
      SmallVector<const Part*> of_loops(extents.size(), nullptr);
      bool any = false;
      for (const Part& part : parts) {
        const auto loop = static_cast<size_t>(part.place);
        if (part.rows.dimension != dimension || factors[loop] == 0 || !isPrefix(part, extents[loop])) continue;
        of_loops[loop] = &part;
        any = true;
      }
      if (!any) continue;
      // The farthest element that the iterations which are needed read.
      auto rows = rowsBy(dimension, type.getDimSize(dim), [&](int64_t n) {
        int64_t last = offset;
        for (size_t loop = 0; loop < extents.size(); ++loop) {
          if (factors[loop] == 0) continue;
          const int64_t steps = of_loops[loop] ? neededAt(of_loops[loop]->rows, n) : extents[loop];
          if (steps == 0) return int64_t{0};
          last += factors[loop] * (steps - 1);
        }
        return last + 1;
      });
      if (!rows) continue;
      rows->stride = below(type, dim);
      add(entries, *std::move(rows));
    }
  }
  /// Adds `expression` times `by` to the factors of loops; false unless it is a sum of products with positive numbers.
  static bool addTerms(mlir::AffineExpr expression, int64_t by, SmallVector<int64_t>& factors, int64_t& offset) {
    if (by < 0) return false;
    if (auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression)) {
      factors[loop.getPosition()] += by;
      return true;
    }
    if (auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expression)) {
      offset += by * constant.getValue();
      return true;
    }
    auto binary = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
    if (!binary) return false;
    if (binary.getKind() == mlir::AffineExprKind::Add)
      return addTerms(binary.getLHS(), by, factors, offset) && addTerms(binary.getRHS(), by, factors, offset);
    auto factor = mlir::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS());
    return binary.getKind() == mlir::AffineExprKind::Mul && factor && factor.getValue() >= 0 &&
           addTerms(binary.getLHS(), by * factor.getValue(), factors, offset);
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
    const auto series = loop ? series_.of(extent) : std::nullopt;
    auto rows = series ? rowsOf(*series, extents[loop.getDim()]) : std::nullopt;
    if (!rows) return std::nullopt;
    return Part{static_cast<int64_t>(loop.getDim()), 1, *std::move(rows)};
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
    Rows rows = part->rows;
    rows.stride = part->per * below(mlir::cast<RankedTensorType>(conditions.getType()), *dim);
    return rows;
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
        if (!fresh) known->second = either(known->second, around);
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
      around.push_back(*std::move(part));
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
      const int64_t offset = slice.getStaticOffsets()[dim], step = slice.getStaticStrides()[dim];
      const int64_t size = to.getDimSize(part.place), whole = from.getDimSize(static_cast<int64_t>(dim));
      if (mlir::ShapedType::isDynamic(offset)) continue;
      if (offset == 0 && step == 1 && size == whole) {
        addPart(entries, from, static_cast<int64_t>(dim), part);
      } else if (isPrefix(part, size)) {
        moved(entries, from, static_cast<int64_t>(dim), part,
              [&](int64_t rows) { return rows == 0 ? 0 : offset + (rows - 1) * step + 1; });
      }
    }
    need(slice.getSource(), std::move(entries));
    for (Value operand : slice->getOperands().drop_front()) need(operand, {});
  }
  /// Rows of dimension `dim` in what a part of a prefix is made of.
  template <typename Of>
  void moved(Entries& entries, RankedTensorType type, int64_t dim, const Part& part, Of of) const {
    auto rows =
        rowsBy(part.rows.dimension, type.getDimSize(dim), [&](int64_t n) { return of(neededAt(part.rows, n)); });
    if (!rows) return;
    rows->stride = below(type, dim);
    add(entries, *std::move(rows));
  }

  void visitPad(tensor::PadOp pad) {
    const auto from = pad.getSourceType();
    const auto to = mlir::cast<RankedTensorType>(pad.getResult().getType());
    Entries entries;
    for (const Part& part : partsOf(to, rows_.lookup(pad.getResult()))) {
      const int64_t low = pad.getStaticLow()[static_cast<size_t>(part.place)];
      if (mlir::ShapedType::isDynamic(low)) continue;
      if (from.getDimSize(part.place) == to.getDimSize(part.place)) {
        addPart(entries, from, part.place, part);
      } else if (isPrefix(part, to.getDimSize(part.place))) {
        moved(entries, from, part.place, part, [&](int64_t rows) { return rows - low; });
      }
    }
    need(pad.getSource(), std::move(entries));
    for (Value operand : pad->getOperands().drop_front()) need(operand, {});
    for (Value value : captured(pad)) need(value, {});
  }

  void visitConcat(tensor::ConcatOp concat) {
    const auto to = mlir::cast<RankedTensorType>(concat.getResult().getType());
    const auto along = static_cast<int64_t>(concat.getDim());
    const Parts parts = partsOf(to, rows_.lookup(concat.getResult()));
    int64_t offset = 0;
    for (Value input : concat.getInputs()) {
      const auto type = mlir::cast<RankedTensorType>(input.getType());
      Entries entries;
      for (const Part& part : parts) {
        if (part.place != along) {
          addPart(entries, type, part.place, part);
        } else if (isPrefix(part, to.getDimSize(along))) {
          moved(entries, type, along, part, [&](int64_t rows) { return rows - offset; });
        }
      }
      need(input, std::move(entries));
      offset += type.getDimSize(along);
    }
  }

  const ImportedModel& model_;
  mlir::func::FuncOp main_;
  ExtentSeries series_;
  llvm::DenseSet<Value> ranged_;  // what inputs that have ranges decide
  RowsOfValues rows_;             // of what something needs; no entry: nobody asked for it yet
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
