#include "compiler/codegen/emit/separable.h"

#include <cmath>

#include "compiler/codegen/tiling/loop_order.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"

namespace tessera::compiler::codegen {
namespace {

namespace arith = mlir::arith;
using mlir::Value;

/// A block is held in registers and on the stack: longer sides are better left to the contraction's tiles.
constexpr int64_t kLongestSide = 8;

/// The elements of a constant buffer, or nothing.
std::optional<mlir::DenseElementsAttr> constantOf(Value root) {
  auto get = root.getDefiningOp<mlir::memref::GetGlobalOp>();
  if (!get) return std::nullopt;
  auto global = mlir::SymbolTable::lookupNearestSymbolFrom<mlir::memref::GlobalOp>(get, get.getNameAttr());
  if (!global || !global.getConstant() || !global.getInitialValue()) return std::nullopt;
  auto elements = mlir::dyn_cast<mlir::DenseElementsAttr>(*global.getInitialValue());
  if (!elements || !mlir::isa<mlir::FloatType>(elements.getElementType())) return std::nullopt;
  return elements;
}

/// Reads an operand that one parallel and one reduction loop walk as a matrix of constants.
std::optional<TransformSide> sideOf(const Nest& nest, const Operand& operand) {
  if (!operand.access.root) return std::nullopt;
  auto elements = constantOf(operand.access.root);
  if (!elements) return std::nullopt;
  TransformSide side;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    if (!varies(operand, loop)) continue;
    int& place = nest.reduction[loop] ? side.reduction : side.parallel;
    if (place >= 0 || nest.extents[loop] > kLongestSide) return std::nullopt;
    place = loop;
  }
  if (side.reduction < 0 || side.parallel < 0) return std::nullopt;
  auto values = elements->getValues<mlir::APFloat>();
  for (int64_t row = 0; row < nest.extents[side.parallel]; ++row) {
    auto& entries = side.matrix.emplace_back();
    for (int64_t column = 0; column < nest.extents[side.reduction]; ++column)
      entries.push_back(values[operand.access.offset + row * operand.access.strides[side.parallel] +
                               column * operand.access.strides[side.reduction]]
                            .convertToDouble());
  }
  return side;
}

/// Whether the body is out + in * in * in, in any order; inputs may be halves that are widened.
bool multipliesAll(const Statement& statement) {
  mlir::Block& body = *statement.body();
  auto sum = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  const auto widened = llvm::count_if(body, [](mlir::Operation& op) { return llvm::isa<arith::ExtFOp>(op); });
  if (!sum || std::distance(body.begin(), body.end()) != 4 + widened) return false;
  Value accumulator = body.getArgument(3);
  Value term = sum.getLhs() == accumulator ? sum.getRhs() : sum.getLhs();
  if (sum.getLhs() != accumulator && sum.getRhs() != accumulator) return false;
  auto outer = term.getDefiningOp<arith::MulFOp>();
  if (!outer) return false;
  auto inner = outer.getLhs().getDefiningOp<arith::MulFOp>();
  Value third = outer.getRhs();
  if (!inner) {
    inner = outer.getRhs().getDefiningOp<arith::MulFOp>();
    third = outer.getLhs();
  }
  if (!inner) return false;
  llvm::SmallVector<Value> factors = {inner.getLhs(), inner.getRhs(), third};
  for (Value& factor : factors)
    if (auto wide = factor.getDefiningOp<arith::ExtFOp>()) factor = wide.getIn();
  return llvm::all_of(llvm::seq<unsigned>(0, 3),
                      [&](unsigned input) { return llvm::is_contained(factors, body.getArgument(input)); });
}

class Combination {
 public:
  Combination(mlir::OpBuilder& builder, bool fuse) : b_(builder), loc_(builder.getUnknownLoc()), fuse_(fuse) {}

  /// sum of factors[i] * values[i]; null for an empty sum. Plain terms first: they start it without a product.
  Value sum(llvm::ArrayRef<double> factors, llvm::ArrayRef<Value> values) {
    llvm::SmallVector<size_t> order;
    for (const auto wanted : {1.0, -1.0, 0.0})
      for (size_t i = 0; i < values.size(); ++i) {
        const double factor = factors[i];
        const double kind = factor == 1.0 || factor == -1.0 ? factor : 0.0;
        if (factor != 0 && values[i] && kind == wanted) order.push_back(i);
      }
    Value total;
    for (size_t i : order) total = add(total, factors[i], values[i]);
    return total;
  }

  /// total + factor * value.
  Value add(Value total, double factor, Value value) {
    if (!value) return total;
    if (!total)
      return factor == 1.0 ? value : arith::MulFOp::create(b_, loc_, value, constant(factor, value)).getResult();
    if (factor == 1.0) return arith::AddFOp::create(b_, loc_, total, value);
    if (factor == -1.0) return arith::SubFOp::create(b_, loc_, total, value);
    if (fuse_) return mlir::math::FmaOp::create(b_, loc_, value, constant(factor, value), total);
    return arith::AddFOp::create(b_, loc_, total, arith::MulFOp::create(b_, loc_, value, constant(factor, value)));
  }

  Value zeroLike(Value value) { return constant(0, value); }

 private:
  Value constant(double number, Value like) {
    mlir::Type type = like.getType();
    mlir::TypedAttr attribute = b_.getFloatAttr(mlir::getElementTypeOrSelf(type), number);
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      attribute = mlir::DenseElementsAttr::get(vector, attribute);
    return arith::ConstantOp::create(b_, loc_, attribute);
  }

  mlir::OpBuilder& b_;
  mlir::Location loc_;
  bool fuse_;
};

}  // namespace

std::optional<SeparableTransform> separableTransform(const Nest& nest) {
  const Statement& main = nest.statements[0];
  if (main.inputs.size() != 3 || main.outputs.size() != 1 || !multipliesAll(main)) return std::nullopt;
  if (!main.init[0] || !mlir::matchPattern(main.init[0], mlir::m_AnyZeroFloat())) return std::nullopt;
  SeparableTransform transform;
  llvm::SmallVector<TransformSide> sides;
  for (int i = 0; i < 3; ++i) {
    if (auto side = sideOf(nest, main.inputs[i])) {
      sides.push_back(std::move(*side));
    } else {
      transform.source = i;
    }
  }
  if (sides.size() != 2 || transform.source < 0) return std::nullopt;
  transform.left = std::move(sides[0]);
  transform.right = std::move(sides[1]);
  const auto& [left, right] = std::pair(transform.left, transform.right);
  if (left.parallel == right.parallel || left.reduction == right.reduction) return std::nullopt;
  const Operand& source = main.inputs[transform.source];
  for (int loop = 0; loop < nest.loops(); ++loop) {
    const bool side = loop == left.reduction || loop == right.reduction;
    if (nest.reduction[loop] != side) return std::nullopt;
    if ((loop == left.parallel || loop == right.parallel) && varies(source, loop)) return std::nullopt;
  }
  return transform;
}

bool planTransform(const Nest& nest, const SeparableTransform& transform, int lanes, TilePlan& plan) {
  const Access& from = nest.statements[0].inputs[transform.source].access;
  const Access& to = nest.statements[0].outputs[0].access;
  for (int loop = 0; loop < nest.loops(); ++loop) {
    const bool side = loop == transform.left.parallel || loop == transform.right.parallel;
    if (!nest.reduction[loop] && !side && from.strides[loop] == 1 && to.strides[loop] == 1) plan.vector_loop = loop;
  }
  if (plan.vector_loop < 0) return false;
  plan.lanes = lanes;
  plan.tile[plan.vector_loop] = std::min<int64_t>(nest.extents[plan.vector_loop], lanes);
  for (const TransformSide* side : {&transform.left, &transform.right}) {
    plan.tile[side->parallel] = nest.extents[side->parallel];
    plan.tile[side->reduction] = nest.extents[side->reduction];
    plan.reductions.push_back(side->reduction);
    plan.rows *= static_cast<int>(nest.extents[side->parallel]);
  }
  plan.order = byOutputStride(nest);
  plan.points = plan.order;
  plan.orderLevels(0);
  plan.strategy = kTransformStrategy;
  return true;
}

llvm::SmallVector<Value> applyMatrix(mlir::OpBuilder& builder, llvm::ArrayRef<llvm::SmallVector<double>> matrix,
                                     llvm::ArrayRef<Value> values, bool fuse_multiply_add) {
  Combination combination(builder, fuse_multiply_add);
  const size_t rows = matrix.size(), columns = values.size();
  llvm::SmallVector<llvm::SmallVector<double>> entries(matrix.begin(), matrix.end());
  llvm::SmallVector<Value> terms(values.begin(), values.end());
  // Neighbouring columns equal up to sign in every row: their sum and difference take their place.
  for (size_t c = 0; c + 1 < columns; ++c) {
    int same = 0, opposite = 0, other = 0;
    for (size_t r = 0; r < rows; ++r) {
      const double a = entries[r][c], b = entries[r][c + 1];
      if (a == 0 && b == 0) continue;
      (a == b ? same : a == -b ? opposite : other) += 1;
    }
    if (other > 0 || same == 0 || opposite == 0 || same + opposite < 3) continue;
    const Value first = terms[c], second = terms[c + 1];
    terms[c] = combination.add(first, 1, second);
    terms[c + 1] = combination.add(first, -1, second);
    for (size_t r = 0; r < rows; ++r) entries[r][entries[r][c] == entries[r][c + 1] ? c + 1 : c] = 0;
    for (size_t r = 0; r < rows; ++r)
      if (entries[r][c + 1] != 0) entries[r][c + 1] = matrix[r][c];
    ++c;
  }
  llvm::SmallVector<Value> results(rows);
  for (size_t r = 0; r < rows; ++r) {
    if (results[r]) continue;
    // A following row equal up to the signs of some columns: u + v and u - v.
    llvm::SmallVector<double> equal(columns, 0), opposite(columns, 0);
    int equals = 0, opposites = 0, others = 0;
    if (r + 1 < rows)
      for (size_t c = 0; c < columns; ++c) {
        const double a = entries[r][c], b = entries[r + 1][c];
        if (a == 0 && b == 0) continue;
        if (a == b) {
          equal[c] = a, ++equals;
        } else if (a == -b) {
          opposite[c] = a, ++opposites;
        } else {
          ++others;
        }
      }
    if (r + 1 < rows && others == 0 && equals > 0 && opposites > 0 && equals + opposites > 2) {
      Value u = combination.sum(equal, terms), v = combination.sum(opposite, terms);
      results[r] = combination.add(u, 1, v);
      results[r + 1] = combination.add(u, -1, v);
      continue;
    }
    results[r] = combination.sum(entries[r], terms);
    if (!results[r]) results[r] = combination.zeroLike(values[0]);
  }
  return results;
}

}  // namespace tessera::compiler::codegen
