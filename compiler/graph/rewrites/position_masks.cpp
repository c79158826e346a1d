#include "compiler/graph/rewrites/position_masks.h"

#include <cstring>
#include <optional>

#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/rewrites/simplify.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::Value;
using mlir::linalg::GenericOp;

/// Reading a smaller mask is faster than comparing positions.
constexpr int64_t kMinElements = 256;
constexpr int64_t kBudget = int64_t{1} << 30;

/// A matrix with `inside` where -below <= column - row <= above, and `outside` elsewhere.
struct Band {
  const char *inside = nullptr, *outside = nullptr;
  std::optional<int64_t> below, above;
};

/// Returns a matrix of `rows` x `columns` elements as a band; nothing if it is none, or if it is uniform.
std::optional<Band> bandOf(const char* data, int64_t width, int64_t rows, int64_t columns) {
  auto at = [&](int64_t row, int64_t column) { return data + (row * columns + column) * width; };
  auto same = [&](const char* a, const char* b) { return std::memcmp(a, b, width) == 0; };
  // Finds the diagonals at which the value changes, row by row.
  Band band;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 1; column < columns; ++column) {
      if (same(at(row, column - 1), at(row, column))) continue;
      const int64_t diagonal = column - row;
      if (!band.inside) {
        // The first change is in the uppermost row that has one. Left of it is inside, unless it is the start of a
        // window.
        band = {at(row, column - 1), at(row, column), std::nullopt, diagonal - 1};
      } else if (band.above == diagonal - 1 || (band.below && *band.below == -diagonal)) {
        continue;
      } else if (!band.below && same(at(row, column), band.inside)) {
        band.below = -diagonal;
      } else {
        return std::nullopt;
      }
    }
  }
  if (!band.inside) return std::nullopt;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const bool inside = column - row <= *band.above && (!band.below || row - column <= *band.below);
      if (!same(at(row, column), inside ? band.inside : band.outside)) return std::nullopt;
    }
  }
  return band;
}

/// Whether `value` is a constant or a few operations on constants: a large triangle of ones computed from small
/// operands is not folded.
bool madeOfConstants(Value value, int depth = 8) {
  if (isKnownAtCompileTime(value)) return true;
  mlir::Operation* op = value.getDefiningOp();
  return op && depth > 0 && ConstantEvaluator::hasRule(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return madeOfConstants(operand, depth - 1); });
}

mlir::TypedAttr attributeOf(mlir::Type type, const char* data) {
  if (auto real = mlir::dyn_cast<mlir::FloatType>(type)) {
    const unsigned bits = real.getWidth();
    uint64_t word = 0;
    std::memcpy(&word, data, bits / 8);
    return mlir::FloatAttr::get(real, llvm::APFloat(real.getFloatSemantics(), llvm::APInt(bits, word)));
  }
  if (!type.isInteger(1) && !type.isInteger(8)) return nullptr;
  return mlir::IntegerAttr::get(type, static_cast<int64_t>(type.isInteger(1) ? *data != 0 : *data));
}

class MaskReplacer {
 public:
  MaskReplacer(mlir::func::FuncOp main, const std::vector<Weight>* weights)
      : main_(main), constants_(knownWeights(main, weights)) {}

  int run() {
    int count = 0;
    for (auto op : llvm::make_early_inc_range(main_.getBody().front().getOps<GenericOp>())) {
      if (kindOf(op) != OpKind::kElementwise) continue;
      for (unsigned number = 0; number < op.getNumDpsInputs(); ++number) {
        if (auto replaced = replace(op, number)) {
          op = replaced;
          // The operand is gone, so the next one has this number.
          --number;
          ++count;
        }
      }
    }
    return count;
  }

 private:
  /// Returns the loops that index rows and columns of an operand whose other dimensions have extent 1.
  static std::optional<std::pair<unsigned, unsigned>> loopsOf(GenericOp op, unsigned number) {
    auto type = mlir::dyn_cast<mlir::RankedTensorType>(op.getDpsInputs()[number].getType());
    if (!type || type.getNumElements() < kMinElements) return std::nullopt;
    llvm::SmallVector<unsigned> loops;
    for (auto [extent, expression] : llvm::zip_equal(type.getShape(), op.getIndexingMapsArray()[number].getResults())) {
      // Dimensions of extent 1 are broadcast and do not count.
      if (extent == 1) continue;
      auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression);
      if (!loop) return std::nullopt;
      loops.push_back(loop.getPosition());
    }
    if (loops.size() != 2 || loops[0] == loops[1]) return std::nullopt;
    return std::pair(loops[0], loops[1]);
  }

  GenericOp replace(GenericOp op, unsigned number) {
    const auto loops = loopsOf(op, number);
    const Value operand = op.getDpsInputs()[number];
    if (!loops || op.getNumDpsInputs() < 2 || !madeOfConstants(operand)) return nullptr;
    const auto known = constants_.evaluate(operand, budget_);
    if (!known || known->width == 0) return nullptr;
    const llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
    // A band is a range of columns around the diagonal of each row.
    const auto band = bandOf(known->data, known->width, extents[loops->first], extents[loops->second]);
    if (!band) return nullptr;
    const mlir::Type element = mlir::getElementTypeOrSelf(operand.getType());
    const mlir::TypedAttr inside = attributeOf(element, band->inside), outside = attributeOf(element, band->outside);
    if (!inside || !outside) return nullptr;

    mlir::OpBuilder builder(op);
    llvm::SmallVector<Value> inputs(op.getDpsInputs());
    llvm::SmallVector<mlir::AffineMap> maps(op.getIndexingMapsArray());
    inputs.erase(inputs.begin() + number);
    maps.erase(maps.begin() + number);
    // Fails if a loop occurs in no other operand's map, since its extent would be unknown.
    if (!mlir::inversePermutation(mlir::concatAffineMaps(maps, op.getContext()))) return nullptr;
    auto replaced = GenericOp::create(
        builder, op.getLoc(), op->getResultTypes(), inputs, op.getDpsInits(), maps, op.getIteratorTypesArray(),
        [&](mlir::OpBuilder& b, mlir::Location loc, mlir::ValueRange arguments) {
          mlir::IRMapping mapping;
          unsigned next = 0;
          // The mask's argument becomes the comparison; the others keep their order.
          for (mlir::BlockArgument argument : op.getBody()->getArguments())
            mapping.map(argument, argument.getArgNumber() == number ? choose(b, loc, *loops, *band, inside, outside)
                                                                    : Value(arguments[next++]));
          for (mlir::Operation& inner : *op.getBody()) b.clone(inner, mapping);
        });
    op->replaceAllUsesWith(replaced);
    op->erase();
    return replaced;
  }

  static Value choose(mlir::OpBuilder& b, mlir::Location loc, std::pair<unsigned, unsigned> loops, const Band& band,
                      mlir::TypedAttr inside, mlir::TypedAttr outside) {
    auto position = [&](unsigned loop) -> Value {  // 32 bits instead of an index's 64, so that a vector holds twice as
                                                   // many
      return arith::IndexCastOp::create(b, loc, b.getI32Type(), mlir::linalg::IndexOp::create(b, loc, loop));
    };
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
    };
    const Value row = position(loops.first), column = position(loops.second);
    auto compare = [&](arith::CmpIPredicate predicate, int64_t offset) -> Value {
      // Columns left of the diagonal have negative offsets.
      Value edge = offset == 0 ? row : Value(arith::AddIOp::create(b, loc, row, constant(offset)));
      return arith::CmpIOp::create(b, loc, predicate, column, edge);
    };
    Value chosen = compare(arith::CmpIPredicate::sle, *band.above);
    if (band.below) chosen = arith::AndIOp::create(b, loc, chosen, compare(arith::CmpIPredicate::sge, -*band.below));
    return arith::SelectOp::create(b, loc, chosen, arith::ConstantOp::create(b, loc, inside),
                                   arith::ConstantOp::create(b, loc, outside));
  }

  mlir::func::FuncOp main_;
  ConstantEvaluator constants_;
  int64_t budget_ = kBudget;
};

}  // namespace

int comparePositions(mlir::func::FuncOp main, const std::vector<Weight>* weights) {
  const int count = MaskReplacer(main, weights).run();
  if (count > 0) removeDeadCode(main);
  return count;
}

}  // namespace tessera::compiler
