#include "compiler/graph/analysis/used_rows.h"

#include <algorithm>
#include <utility>

#include "compiler/graph/analysis/address_or_divisor.h"
#include "compiler/graph/analysis/extent_masks.h"
#include "compiler/graph/analysis/used_parts.h"
#include "compiler/ir/extent_functions.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler {
namespace {

namespace linalg = mlir::linalg;
namespace tensor = mlir::tensor;
using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::RankedTensorType;
using mlir::Value;

SmallVector<Value> captured(mlir::Operation* op) {
  llvm::SetVector<Value> values;
  for (mlir::Region& region : op->getRegions()) mlir::getUsedValuesDefinedAbove(region, values);
  return SmallVector<Value>(values.begin(), values.end());
}

}  // namespace

class UsedRowAnalysis::Finder {
 public:
  Finder(const ImportedModel& model, mlir::func::FuncOp main)
      : model_(model), main_(main), series_(model, main), parts_(series_), masks_(series_, parts_) {
    enterInputs();
  }

  UsedRowsOfValues all() {
    enterResults();
    // Backwards: an operation's needs follow from those of its readers.
    for (mlir::Operation& op : llvm::reverse(main_.getBody().front().without_terminator())) visit(&op);
    return std::move(rows_);
  }

  UsedRowsOfValues within(ArrayRef<mlir::Operation*> ops, const UsedRowsOfValues& results) {
    // Views before the operations belong to them.
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
    with_masks_ = false;
    for (mlir::Operation* op : ordered) visit(op);
    with_masks_ = true;
    return std::move(rows_);
  }

  /// Returns how many of these rows the smallest run needs.
  int64_t neededByLeast(const UsedRows& rows) const {
    int64_t least = 1, most = 1;
    for (size_t dimension = 0; dimension < model_.dimensions.size(); ++dimension) {
      if ((rows.ranges >> dimension & 1) == 0) continue;
      // Without a smaller variant, the smallest run has size 1.
      const auto known = model_.least.find(model_.dimensions[dimension].name());
      least *= known == model_.least.end() ? 1 : known->second;
      most *= -model_.dimensions[dimension].size();
    }
    if (rows.needed) return (*rows.needed)[static_cast<size_t>(least)];
    // Proportional part plus slack, see UsedPartBuilder::bySum().
    return std::min(rows.count, (least * rows.count + most - 1) / most + rows.slack);
  }

 private:
  // Finding values that depend on ranges.

  /// Marks values that depend on inputs with ranges; all other values are the same in every run.
  void enterInputs() {
    size_t input = 0;
    for (mlir::BlockArgument argument : main_.getArguments()) {
      if (main_.getArgAttr(argument.getArgNumber(), kWeightAttribute)) continue;
      if (input == model_.inputs.size()) break;
      if (model_.inputs[input++].bounded_dims_size() > 0) ranged_.insert(argument);
    }
    // One pass suffices, as operations come in order.
    for (mlir::Operation& op : main_.getBody().front().without_terminator()) {
      const auto is_ranged = [&](Value value) { return ranged_.contains(value); };
      if (llvm::any_of(op.getOperands(), is_ranged) || llvm::any_of(captured(&op), is_ranged))
        ranged_.insert(op.result_begin(), op.result_end());
    }
  }

  // Recording needs.

  /// Adds to the needs of `value`.
  void need(Value value, const UsedRowsList& entries) {
    const auto [known, fresh] = rows_.try_emplace(value, entries);
    if (fresh) return;
    // Both needs must be covered: keeps the unions of entries that meet, and drops entries without a counterpart.
    UsedRowsList kept;
    for (const UsedRows& rows : known->second) {
      for (const UsedRows& other : entries) {
        if (!UsedPartBuilder::haveUnion(rows, other)) continue;
        if (auto both = parts_.unionOf(rows, other)) parts_.addBound(kept, *std::move(both));
      }
    }
    known->second = std::move(kept);
  }
  void needAll(mlir::Operation* op) {
    // An empty list means all rows.
    for (Value operand : op->getOperands()) need(operand, {});
    for (Value value : captured(op)) need(value, {});
  }

  /// The extents of the results bound the needs of the results.
  void enterResults() {
    mlir::Operation* terminator = main_.getBody().front().getTerminator();
    const size_t outputs = model_.outputs.size();
    for (size_t i = 0; i < terminator->getNumOperands(); ++i) {
      const Value value = terminator->getOperand(static_cast<unsigned>(i));
      UsedRowsList entries;
      // Outputs come first among the results, their extents after them.
      for (size_t k = 0; i < outputs && k < model_.extents.size(); ++k) {
        const OutputExtent& extent = model_.extents[k];
        if (static_cast<size_t>(extent.output) != i || outputs + k >= terminator->getNumOperands()) continue;
        const auto type = mlir::cast<RankedTensorType>(value.getType());
        const auto series = series_.of(terminator->getOperand(static_cast<unsigned>(outputs + k)));
        auto rows = series ? parts_.rowsByExtent(*series, type.getDimSize(extent.dimension)) : std::nullopt;
        if (!rows) continue;
        rows->stride = elementStride(type, extent.dimension);
        parts_.addBound(entries, *std::move(rows));
      }
      need(value, entries);
    }
  }

  // Propagating needs through operations.

  void visit(mlir::Operation* op) {
    if (llvm::none_of(op->getResults(), [&](Value result) { return rows_.contains(result); })) return;  // no reader
    if (auto structured = mlir::dyn_cast<linalg::LinalgOp>(op)) return visitStructured(structured);
    if (mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
      // A view keeps the order of elements, and rows are defined on that order.
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
    // With an unused element as index or divisor the operation could read outside or trap, so everything is needed.
    if (computesAddressOrDivisor(op, [&](Value tensor) { return ranged_.contains(tensor); })) return needAll(op);
    const SmallVector<int64_t> extents = op.getStaticLoopRanges();
    const UsedParts parts = partsOfResults(op);
    const MaskedValues narrowed = with_masks_ ? masks_.maskedValues(op, extents) : MaskedValues();
    // A mask can narrow the needs of a single operand further.
    const auto partsWith = [&](Value read) {
      UsedParts all = parts;
      if (const auto more = narrowed.find(read); more != narrowed.end()) all.append(more->second);
      return all;
    };
    for (mlir::OpOperand& operand : op->getOpOperands()) {
      const auto type = mlir::dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type) continue;
      const UsedParts all = partsWith(op.getMatchingBlockArgument(&operand));
      UsedRowsList entries;
      for (auto [dim, expression] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
        parts_.addAlong(entries, type, static_cast<int64_t>(dim), expression, all, extents);
      need(operand.get(), entries);
    }
    // Elements that a body reads at computed positions (a resize, a gather): bounded along its loops, or all elements.
    llvm::DenseSet<Value> taken;
    op->walk([&](tensor::ExtractOp extract) {
      if (extract.getTensor().getParentRegion() != op->getParentRegion()) return;
      taken.insert(extract.getTensor());
      const UsedParts all = partsWith(extract.getResult());
      const auto type = mlir::cast<RankedTensorType>(extract.getTensor().getType());
      UsedRowsList entries;
      for (auto [dim, index] : llvm::enumerate(extract.getIndices())) {
        auto loop = index.getDefiningOp<linalg::IndexOp>();
        if (!loop) addUpTo(entries, type, static_cast<int64_t>(dim), series_.greatest(index));
        if (loop)
          parts_.addAlong(entries, type, static_cast<int64_t>(dim),
                          mlir::getAffineDimExpr(static_cast<unsigned>(loop.getDim()), op->getContext()), all, extents);
      }
      need(extract.getTensor(), entries);
    });
    for (Value value : captured(op))
      if (!taken.contains(value) || readOtherwise(value, op)) need(value, {});
  }

  /// Adds the rows up to position `last`.
  void addUpTo(UsedRowsList& entries, RankedTensorType type, int64_t dim,
               const std::optional<ExtentFunction>& last) const {
    if (!last || (last->sum.empty() && (last->dimension < 0 || last->at.empty()))) return;
    ExtentFunction count = *last;
    // The last position is an index; its row count is one more.
    for (int64_t& each : count.at) each = std::max<int64_t>(each, 0) + 1;
    if (!count.sum.empty()) count.sum.push_back({});
    auto rows = parts_.rowsByExtent(count, type.getDimSize(dim));
    if (!rows) return;
    rows->stride = elementStride(type, dim);
    parts_.addBound(entries, *std::move(rows));
  }

  /// Whether an operation inside `op` reads the tensor other than by single elements.
  static bool readOtherwise(Value tensor, mlir::Operation* op) {
    return llvm::any_of(tensor.getUsers(), [&](mlir::Operation* user) {
      return op->isProperAncestor(user) && !mlir::isa<tensor::ExtractOp>(user);
    });
  }

  /// Returns the parts of the loops that all results together need.
  UsedParts partsOfResults(linalg::LinalgOp op) const {
    std::optional<UsedParts> parts;
    for (auto [result, init] : llvm::zip(op->getResults(), op.getDpsInitsMutable())) {
      const auto needed = rows_.find(result);
      if (needed == rows_.end()) continue;
      UsedParts of_loops = parts_.partsOf(mlir::cast<RankedTensorType>(result.getType()), needed->second);
      const mlir::AffineMap map = op.getMatchingIndexingMap(&init);
      // A result's dimension that no single loop indexes says nothing about loops.
      llvm::erase_if(of_loops, [&](UsedPart& part) {
        auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(static_cast<unsigned>(part.position)));
        // A part of the result is a part of the loop that indexes it.
        if (loop) part.position = loop.getPosition();
        return !loop;
      });
      parts = parts ? parts_.unionOf(*parts, of_loops) : std::move(of_loops);
    }
    return parts.value_or(UsedParts());
  }

  // Propagating needs through data movement.

  void visitSlice(tensor::ExtractSliceOp slice) {
    const auto from = slice.getSourceType();
    const auto to = mlir::cast<RankedTensorType>(slice.getResult().getType());
    const llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<int64_t> source_of;
    for (int64_t d = 0; d < from.getRank(); ++d)
      if (!dropped.test(static_cast<unsigned>(d))) source_of.push_back(d);
    UsedRowsList entries;
    for (const UsedPart& part : parts_.partsOf(to, rows_.lookup(slice.getResult()))) {
      const auto dim = static_cast<size_t>(source_of[static_cast<size_t>(part.position)]);
      const int64_t offset = slice.getStaticOffsets()[dim], step = slice.getStaticStrides()[dim];
      const int64_t size = to.getDimSize(part.position), whole = from.getDimSize(static_cast<int64_t>(dim));
      if (mlir::ShapedType::isDynamic(offset) || mlir::ShapedType::isDynamic(step)) continue;
      // An uncut dimension keeps its part.
      if (offset == 0 && step == 1 && size == whole) {
        parts_.addPart(entries, from, static_cast<int64_t>(dim), part);
      } else if (UsedPartBuilder::isPrefix(part, size)) {
        // The first rows of a slice are the rows up to their last one in the source.
        parts_.addTranslated(entries, from, static_cast<int64_t>(dim), part,
                             [&](int64_t rows) { return rows == 0 ? 0 : offset + (rows - 1) * step + 1; });
      }
    }
    // Only the first steps, which every run has.
    for (int64_t d = 0; d < from.getRank(); ++d) {
      const auto at = static_cast<size_t>(d);
      // Backward slices would read the last rows.
      const int64_t offset = slice.getStaticOffsets()[at], step = slice.getStaticStrides()[at];
      if (mlir::ShapedType::isDynamic(offset) || mlir::ShapedType::isDynamic(step) || step < 1) continue;
      // Reads no further than the slice's last element, in every run.
      auto first = UsedPartBuilder::firstRowsOfEveryRun(from.getDimSize(d),
                                                        offset + (slice.getStaticSizes()[at] - 1) * step + 1);
      if (first) {
        first->stride = elementStride(from, d);
        parts_.addBound(entries, *std::move(first));
      }
      // A slice of the first index needs row 0, which every run has, so the rows of a range of this size apply too.
      if (offset != 0 || slice.getStaticSizes()[at] != 1) continue;
      for (int dimension = 0; dimension < series_.dimensions(); ++dimension) {
        if (series_.isRange(dimension) && series_.most(dimension) == from.getDimSize(d))
          parts_.addBound(
              entries,
              {.ranges = uint32_t{1} << dimension, .stride = elementStride(from, d), .count = from.getDimSize(d)});
      }
    }
    need(slice.getSource(), entries);
    for (Value operand : slice->getOperands().drop_front()) need(operand, {});
  }
  void visitPad(tensor::PadOp pad) {
    const auto from = pad.getSourceType();
    const auto to = mlir::cast<RankedTensorType>(pad.getResult().getType());
    UsedRowsList entries;
    for (const UsedPart& part : parts_.partsOf(to, rows_.lookup(pad.getResult()))) {
      const int64_t low = pad.getStaticLow()[static_cast<size_t>(part.position)];
      if (mlir::ShapedType::isDynamic(low)) continue;
      // A dimension without padding keeps its part.
      if (low == 0 && from.getDimSize(part.position) == to.getDimSize(part.position)) {
        parts_.addPart(entries, from, part.position, part);
      } else if (UsedPartBuilder::isPrefix(part, to.getDimSize(part.position))) {
        // The padding before the first row needs none of the source.
        parts_.addTranslated(entries, from, part.position, part, [&](int64_t rows) { return rows - low; });
      }
    }
    need(pad.getSource(), entries);
    for (Value operand : pad->getOperands().drop_front()) need(operand, {});
    for (Value value : captured(pad)) need(value, {});
  }

  void visitConcat(tensor::ConcatOp concat) {
    const auto to = mlir::cast<RankedTensorType>(concat.getResult().getType());
    const auto along = static_cast<int64_t>(concat.getDim());
    const UsedParts parts = parts_.partsOf(to, rows_.lookup(concat.getResult()));
    int64_t offset = 0;
    for (Value input : concat.getInputs()) {
      const auto type = mlir::cast<RankedTensorType>(input.getType());
      UsedRowsList entries;
      for (const UsedPart& part : parts) {
        // Along the concatenation, the needed prefix covers the parts one after another.
        if (part.position != along) {
          parts_.addPart(entries, type, part.position, part);
        } else if (UsedPartBuilder::isPrefix(part, to.getDimSize(along))) {
          parts_.addTranslated(entries, type, along, part, [&](int64_t rows) { return rows - offset; });
        }
      }
      need(input, entries);
      offset += type.getDimSize(along);
    }
  }

  const ImportedModel& model_;
  mlir::func::FuncOp main_;
  ExtentFunctions series_;
  UsedPartBuilder parts_;
  ExtentMasks masks_;
  llvm::DenseSet<Value> ranged_;  // values that depend on the sizes of ranges
  UsedRowsOfValues rows_;         // needs of values; no entry: no need recorded yet
  bool with_masks_ = true;
};

UsedRowAnalysis::UsedRowAnalysis(const ImportedModel& model, mlir::func::FuncOp main)
    : finder_(std::make_unique<Finder>(model, main)), rows_(finder_->all()) {}

UsedRowAnalysis::~UsedRowAnalysis() = default;

ArrayRef<UsedRows> UsedRowAnalysis::of(Value value) const {
  const auto found = rows_.find(value);
  return found == rows_.end() ? ArrayRef<UsedRows>() : ArrayRef<UsedRows>(found->second);
}

bool hasRanges(const ImportedModel& model) {
  return llvm::any_of(model.dimensions, [](const v1::DimensionBinding& dimension) { return dimension.size() < 0; });
}

int64_t UsedRowAnalysis::minIndices(Value value, int64_t dimension) const {
  const auto type = mlir::cast<RankedTensorType>(value.getType());
  const int64_t size = type.getDimSize(dimension), stride = elementStride(type, dimension);
  int64_t fewest = size;
  for (const UsedRows& rows : of(value)) {
    // Only rows along exactly this dimension count.
    if (rows.ranges == 0 || rows.stride != stride || rows.count != size) continue;
    const int64_t least = finder_->neededByLeast(rows);
    fewest = std::min(fewest, std::max<int64_t>(least, 1));
  }
  return fewest;
}

UsedRowsOfValues UsedRowAnalysis::usedByAll(ArrayRef<mlir::Operation*> ops, ArrayRef<Value> results) const {
  UsedRowsOfValues needed;
  for (Value result : results) needed[result] = UsedRowsList(of(result));
  return finder_->within(ops, needed);
}

}  // namespace tessera::compiler
