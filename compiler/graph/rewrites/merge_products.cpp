#include "compiler/graph/rewrites/merge_products.h"

#include "compiler/graph/analysis/channel_block.h"
#include "compiler/graph/analysis/move_before.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/returned.h"
#include "compiler/graph/constants/fold_constants.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OperationSupport.h"

namespace tessera::compiler {
namespace {

using mlir::AffineMap;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Returns the position of a dimension of `map` that is exactly loop `loop`; -1 if there is none or the loop occurs
/// elsewhere.
int64_t positionOf(AffineMap map, unsigned loop) {
  for (auto [position, result] : llvm::enumerate(map.getResults())) {
    if (result == mlir::getAffineDimExpr(loop, map.getContext())) return static_cast<int64_t>(position);
  }
  return -1;
}

bool sameAccess(GenericOp a, GenericOp b) {
  return a.getIndexingMapsArray() == b.getIndexingMapsArray() && a.getIteratorTypesArray() == b.getIteratorTypesArray();
}

bool sameBody(GenericOp a, GenericOp b) {
  return mlir::OperationEquivalence::isRegionEquivalentTo(&a.getRegion(), &b.getRegion(),
                                                          mlir::OperationEquivalence::Flags::IgnoreLocations);
}

/// Whether the types differ at most in the extent of dimension `dim`.
bool sameBut(mlir::Type a, mlir::Type b, int64_t dim) {
  auto x = mlir::dyn_cast<RankedTensorType>(a);
  auto y = mlir::dyn_cast<RankedTensorType>(b);
  if (!x || !y || x.getElementType() != y.getElementType() || x.getRank() != y.getRank()) return false;
  for (int64_t d = 0; d < x.getRank(); ++d) {
    if (d != dim && x.getDimSize(d) != y.getDimSize(d)) return false;
  }
  return true;
}

/// Returns the column loop of a product [.., columns] = left [.., k] x right, which indexes the right operand and the
/// result but not the left operand; -1 if there is none.
int columnLoop(GenericOp product) {
  if (!isProduct(product) || mlir::failed(mlir::linalg::inferContractionDims(product))) return -1;
  // A convolution has such dimensions too, but it reads neighbours and its channels have their own layout.
  if (!llvm::all_of(product.getIndexingMapsArray(), [](AffineMap map) { return map.isProjectedPermutation(); })) {
    return -1;
  }
  auto dims = *mlir::linalg::inferContractionDims(product);
  if (!dims.batch.empty() || dims.n.size() != 1 || dims.k.size() != 1) return -1;
  auto maps = product.getIndexingMapsArray();
  const unsigned loop = dims.n[0];
  if (positionOf(maps[1], loop) < 0 || positionOf(maps[2], loop) < 0) return -1;
  return static_cast<int>(loop);
}

/// Returns the only reader of `value` if it is elementwise and reads it at the same points.
GenericOp epilogueOf(Value value) {
  if (!value.hasOneUse()) return {};
  mlir::OpOperand& use = *value.use_begin();
  auto reader = mlir::dyn_cast<GenericOp>(use.getOwner());
  if (!reader || kindOf(reader) != OpKind::kElementwise || reader->getNumResults() != 1) return {};
  if (reader.isDpsInit(&use) || !reader.getMatchingIndexingMap(&use).isIdentity()) return {};
  return reader;
}

/// One product, or its epilogue, per member, in program order.
using Row = llvm::SmallVector<GenericOp>;

class Merger {
 public:
  Merger(Row products, int loop)
      : anchor_(products.front()), row_(std::move(products)), loop_(loop), builder_(anchor_) {}
  /// Whether merging loses no epilogue: the operations after the products can follow the merged product.
  bool keepsEpilogues();
  void run();

 private:
  Row epilogues();
  bool canFollow(Row next);
  Value joined(llvm::ArrayRef<Value> parts, int64_t dim);
  GenericOp rebuild(const Row& row, llvm::ArrayRef<Value> inputs, Value init);

  mlir::Operation* anchor_;  // the first product; everything new is inserted before it
  Row row_;
  unsigned loop_;  // of row_: the loop over columns
  mlir::OpBuilder builder_;
  Value merged_;
};

/// Concatenates the parts along `dim`; they are known at compile time.
Value Merger::joined(llvm::ArrayRef<Value> parts, int64_t dim) {
  for (Value part : parts) moveBefore(part, anchor_);
  llvm::SmallVector<mlir::Location> locations;
  for (Value part : parts) locations.push_back(part.getLoc());
  return mlir::tensor::ConcatOp::create(builder_, builder_.getFusedLoc(locations), dim, parts);
}

/// Builds one operation with the first member's body and maps on merged operands.
GenericOp Merger::rebuild(const Row& row, llvm::ArrayRef<Value> inputs, Value init) {
  GenericOp first = row.front();
  llvm::SmallVector<mlir::Location> locations;
  for (GenericOp op : row) locations.push_back(op.getLoc());
  auto merged = GenericOp::create(builder_, builder_.getFusedLoc(locations), mlir::TypeRange{init.getType()}, inputs,
                                  mlir::ValueRange{init}, first.getIndexingMapsArray(), first.getIteratorTypesArray());
  builder_.cloneRegionBefore(first.getRegion(), merged.getRegion(), merged.getRegion().begin());
  return merged;
}

/// Whether the epilogues `next` can be one operation on concatenated operands: equal arithmetic and access functions,
/// and each other operand either the same value, independent of the column, or known at compile time.
bool Merger::canFollow(Row next) {
  GenericOp first = next.front();
  if (!first || first.hasIndexSemantics()) return false;
  const int64_t column = positionOf(row_.front().getMatchingIndexingMap(row_.front().getDpsInitOperand(0)), loop_);
  for (auto [member, op] : llvm::zip_equal(row_, next)) {
    if (!op || !sameAccess(first, op) || !sameBody(first, op)) return false;
    for (unsigned i = 0; i < first.getNumDpsInputs(); ++i) {
      Value a = first.getDpsInputs()[i];
      Value b = op.getDpsInputs()[i];
      // The operand that continues the chain must be the same in every member.
      const bool chain_a = a == row_.front().getResult(0), chain_b = b == member.getResult(0);
      if (chain_a != chain_b) return false;
      if (chain_a) continue;
      const AffineMap map = first.getIndexingMapsArray()[i];
      if (!map.isFunctionOfDim(column)) {
        // A value that is the same for all columns must be one value.
        // A value defined after the first member would have to move before it, which only constants can.
        mlir::Operation* producer = a.getDefiningOp();
        if (a != b || (producer && !isKnownAtCompileTime(a) && !producer->isBeforeInBlock(anchor_))) return false;
        continue;
      }
      const int64_t position = positionOf(map, column);
      if (position < 0 || !isKnownAtCompileTime(a) || !isKnownAtCompileTime(b)) return false;
      if (!sameBut(a.getType(), b.getType(), position)) return false;
    }
    if (isReturned(op.getResult(0)) || !op.getDpsInits()[0].getDefiningOp<mlir::tensor::EmptyOp>()) return false;
  }
  return true;
}

Row Merger::epilogues() {
  Row next;
  for (GenericOp op : row_) next.push_back(epilogueOf(op.getResult(0)));
  return next;
}

bool Merger::keepsEpilogues() {
  const Row next = epilogues();
  return llvm::none_of(next, [](GenericOp op) { return op != nullptr; }) || canFollow(next);
}

void Merger::run() {
  GenericOp first = row_.front();
  auto maps = first.getIndexingMapsArray();
  llvm::SmallVector<int64_t> offsets = {0};
  int64_t column = positionOf(maps[2], loop_);
  auto resultType = [](GenericOp op) { return mlir::cast<RankedTensorType>(op.getResult(0).getType()); };
  for (GenericOp op : row_) offsets.push_back(offsets.back() + resultType(op).getDimSize(column));
  llvm::SmallVector<int64_t> shape(resultType(first).getShape());
  shape[column] = offsets.back();

  // Concatenates the weights along their columns and builds the merged product.
  llvm::SmallVector<Value> weights;
  for (GenericOp op : row_) weights.push_back(op.getDpsInputs()[1]);
  Value right = joined(weights, positionOf(maps[1], loop_));
  Value init = refill(builder_, first.getDpsInits()[0], shape);
  merged_ = rebuild(row_, {first.getDpsInputs()[0], right}, init).getResult(0);

  // Merges the epilogues as well, as long as they are equal.
  llvm::SmallVector<Row> dead = {row_};
  for (Row next = epilogues(); canFollow(next); next = epilogues()) {
    GenericOp epilogue = next.front();
    llvm::SmallVector<Value> inputs;
    for (unsigned i = 0; i < epilogue.getNumDpsInputs(); ++i) {
      Value input = epilogue.getDpsInputs()[i];
      if (input == row_.front().getResult(0)) {
        inputs.push_back(merged_);
        continue;
      }
      const AffineMap map = epilogue.getIndexingMapsArray()[i];
      if (!map.isFunctionOfDim(column)) {
        if (isKnownAtCompileTime(input)) moveBefore(input, anchor_);
        inputs.push_back(input);
        continue;
      }
      llvm::SmallVector<Value> parts;
      for (GenericOp op : next) parts.push_back(op.getDpsInputs()[i]);
      inputs.push_back(joined(parts, positionOf(map, column)));
    }
    auto element = resultType(epilogue).getElementType();
    Value empty = mlir::tensor::EmptyOp::create(builder_, epilogue.getLoc(), shape, element);
    merged_ = rebuild(next, inputs, empty).getResult(0);
    // The loops of an elementwise operation are the dimensions of its result.
    loop_ = static_cast<unsigned>(column);
    row_ = next;
    dead.push_back(next);
  }
  // Each member's result becomes a slice of the merged one.
  const auto rank = static_cast<int64_t>(shape.size());
  for (auto [index, op] : llvm::enumerate(row_)) {
    llvm::SmallVector<mlir::OpFoldResult> at(rank, builder_.getIndexAttr(0)), sizes,
        steps(rank, builder_.getIndexAttr(1));
    at[column] = builder_.getIndexAttr(offsets[index]);
    for (int64_t extent : resultType(op).getShape()) sizes.push_back(builder_.getIndexAttr(extent));
    Value part = mlir::tensor::ExtractSliceOp::create(builder_, op.getLoc(), merged_, at, sizes, steps);
    op.getResult(0).replaceAllUsesWith(part);
  }
  for (Row& row : llvm::reverse(dead)) {
    for (GenericOp op : row) op.erase();
  }
}

/// Whether the products alone allow merging both.
bool isSibling(GenericOp a, GenericOp b, int loop) {
  auto maps = a.getIndexingMapsArray();
  auto fill = [](GenericOp op) { return op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>(); };
  return columnLoop(b) == loop && sameAccess(a, b) && sameBody(a, b) &&
         fill(a).getInputs()[0] == fill(b).getInputs()[0] &&
         sameBut(a.getDpsInputs()[1].getType(), b.getDpsInputs()[1].getType(), positionOf(maps[1], loop)) &&
         sameBut(a.getResult(0).getType(), b.getResult(0).getType(), positionOf(maps[2], loop));
}

/// Returns the largest power of two up to 32 that divides the columns: the possible width of weight panels.
int64_t alignmentOf(int64_t columns) {
  int64_t alignment = 32;
  while (columns % alignment != 0) alignment /= 2;
  return alignment;
}

/// Whether the merged product can be packed as well as each of its members.
bool keepsPanels(llvm::ArrayRef<GenericOp> row, int loop) {
  int64_t total = 0;
  int64_t best = 1;
  for (GenericOp op : row) {
    const int64_t columns = op.getStaticLoopRanges()[loop];
    total += columns;
    best = std::max(best, alignmentOf(columns));
  }
  return alignmentOf(total) >= best;
}

/// Whether both epilogues have the same arithmetic, so that they can be merged, or neither product has one.
bool hasSameEpilogue(GenericOp a, GenericOp b) {
  GenericOp x = epilogueOf(a.getResult(0));
  GenericOp y = epilogueOf(b.getResult(0));
  if (!x || !y) return !x && !y;
  return sameAccess(x, y) && sameBody(x, y);
}

}  // namespace

int mergeProducts(mlir::func::FuncOp main) {
  llvm::MapVector<Value, llvm::SmallVector<Row>> by_left;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>()) {
    const int loop = columnLoop(op);
    // Only products that start from a fill can share one initial value.
    if (loop < 0 || !op.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>()) continue;
    Value left = op.getDpsInputs()[0];
    // Merging copies the weights at compile time; a returned result must keep its own buffer.
    if (isKnownAtCompileTime(left) || !isKnownAtCompileTime(op.getDpsInputs()[1]) || isReturned(op.getResult(0)))
      continue;
    llvm::SmallVector<Row>& rows = by_left[left];
    // Rows have equal shapes and equal operations after the product.
    auto* row = llvm::find_if(rows, [&](const Row& other) {
      return isSibling(other.front(), op, loop) && hasSameEpilogue(other.front(), op);
    });
    if (row == rows.end()) {
      rows.push_back({op});
    } else {
      row->push_back(op);
    }
  }
  int count = 0;
  for (auto& [left, rows] : by_left) {
    for (Row& row : rows) {
      if (row.size() < 2) continue;
      const int loop = columnLoop(row.front());
      Merger merger(row, loop);
      if (!keepsPanels(row, loop) || !merger.keepsEpilogues()) continue;
      count += static_cast<int>(row.size()) - 1;
      merger.run();
    }
  }
  return count;
}

}  // namespace tessera::compiler
