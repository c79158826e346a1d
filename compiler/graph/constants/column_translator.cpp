#include "compiler/graph/constants/column_body.h"
#include "compiler/graph/constants/element_arithmetic.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {

using mlir::Type;
using mlir::Value;

namespace {

/// Rounds to `type` if it is narrower than float.
void roundColumn(Type type, Column& column, int64_t count) {
  if (!isNarrowFloat(type)) return;
  for (int64_t i = 0; i < count; ++i) column.f32[i] = roundTo(type, column.f32[i]);
}

}  // namespace

/// Translates the operations of a body, in order, into instructions on columns.
class BodyTranslator {
 public:
  bool run(mlir::linalg::LinalgOp op);
  ColumnBody body;

 private:
  int columnOf(Value value);
  bool defineConstant(Value value);
  bool translate(mlir::Operation& op);
  bool translateFloat(mlir::Operation& op);
  bool translateCast(mlir::Operation& op);
  bool translateOther(mlir::Operation& op);
  void emit(ColumnBody::Instruction instruction) { body.instructions_.push_back(std::move(instruction)); }

  llvm::DenseMap<Value, int> column_of_;
};

int BodyTranslator::columnOf(Value value) {
  auto [it, inserted] = column_of_.try_emplace(value, static_cast<int>(body.columns_.size()));
  if (inserted) {
    Column& column = body.columns_.emplace_back();
    // 16-bit floats compute in f32 and are rounded after each operation; integers of all widths share 64 bits.
    if (value.getType().isF64()) {
      column.f64.resize(ColumnBody::kColumn);
    } else if (mlir::isa<mlir::FloatType>(value.getType())) {
      column.f32.resize(ColumnBody::kColumn);
    } else {
      column.integer.resize(ColumnBody::kColumn);
    }
  }
  return it->second;
}

/// A constant fills its column once.
bool BodyTranslator::defineConstant(Value value) {
  auto constant = value.getDefiningOp<mlir::arith::ConstantOp>();
  if (!constant) return false;
  const bool known = column_of_.contains(value);
  Column& column = body.columns_[columnOf(value)];
  if (known) return true;
  if (auto real = mlir::dyn_cast<mlir::FloatAttr>(constant.getValue())) {
    llvm::APFloat wide = real.getValue();
    bool lossy = false;
    wide.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    std::fill(column.f32.begin(), column.f32.end(), static_cast<float>(wide.convertToDouble()));
    std::fill(column.f64.begin(), column.f64.end(), wide.convertToDouble());
    return true;
  }
  auto integer = mlir::dyn_cast<mlir::IntegerAttr>(constant.getValue());
  if (!integer) return false;
  const llvm::APInt& bits = integer.getValue();
  const int64_t number = wrapTo(value.getType(), static_cast<int64_t>(bits.getZExtValue()));
  std::fill(column.integer.begin(), column.integer.end(), number);
  return true;
}

bool BodyTranslator::translateFloat(mlir::Operation& op) {
  const llvm::StringRef name = op.getName().getStringRef();
  const Type type = op.getResult(0).getType();
  const int result = columnOf(op.getResult(0));
  const int a = columnOf(op.getOperand(0));
  if (const FloatUnaryRule* rule = findFloatUnary(name)) {
    // The type is decided now, so that the instruction only loops over a column.
    emit([=, f32 = rule->f32, f64 = rule->f64](std::vector<Column>& c, int64_t count) {
      if (type.isF64()) return f64(c[a].f64.data(), c[result].f64.data(), count);
      f32(c[a].f32.data(), c[result].f32.data(), count);
      roundColumn(type, c[result], count);
    });
    return true;
  }
  if (op.getNumOperands() != 2) return false;
  const int b = columnOf(op.getOperand(1));
  if (const FloatBinaryRule* rule = findFloatBinary(name)) {
    emit([=, f32 = rule->f32, f64 = rule->f64](std::vector<Column>& c, int64_t count) {
      if (type.isF64()) return f64(c[a].f64.data(), c[b].f64.data(), c[result].f64.data(), count);
      f32(c[a].f32.data(), c[b].f32.data(), c[result].f32.data(), count);
      roundColumn(type, c[result], count);
    });
    return true;
  }
  return false;
}

bool BodyTranslator::translateCast(mlir::Operation& op) {
  const Type from = op.getOperand(0).getType();
  const Type to = op.getResult(0).getType();
  const int result = columnOf(op.getResult(0));
  const int a = columnOf(op.getOperand(0));
  if (mlir::isa<mlir::arith::ExtFOp, mlir::arith::TruncFOp>(op)) {
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const double value = from.isF64() ? c[a].f64[i] : c[a].f32[i];
        if (to.isF64()) {
          c[result].f64[i] = value;
        } else {
          c[result].f32[i] = roundTo(to, static_cast<float>(value));
        }
      }
    });
  } else if (mlir::isa<mlir::arith::SIToFPOp, mlir::arith::UIToFPOp>(op)) {
    const bool is_unsigned = mlir::isa<mlir::arith::UIToFPOp>(op);
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        // A bit has the values 0 and 1; as a signed number it is 0 or -1.
        const int64_t value = from.isInteger(1) && !is_unsigned ? -c[a].integer[i] : c[a].integer[i];
        if (to.isF64()) {
          c[result].f64[i] = is_unsigned ? static_cast<double>(zeroExtended(from, value)) : static_cast<double>(value);
        } else {
          c[result].f32[i] =
              roundTo(to, is_unsigned ? static_cast<float>(zeroExtended(from, value)) : static_cast<float>(value));
        }
      }
    });
  } else if (mlir::isa<mlir::arith::FPToSIOp, mlir::arith::FPToUIOp>(op)) {
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        // Wraps to the width of the result.
        c[result].integer[i] = wrapTo(to, floatToInteger(from.isF64() ? c[a].f64[i] : c[a].f32[i]));
      }
    });
  } else if (mlir::isa<mlir::arith::ExtSIOp, mlir::arith::IndexCastOp>(op)) {
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t value = from.isInteger(1) ? -c[a].integer[i] : c[a].integer[i];
        c[result].integer[i] = wrapTo(to, value);
      }
    });
  } else if (mlir::isa<mlir::arith::ExtUIOp, mlir::arith::TruncIOp>(op)) {
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        c[result].integer[i] = wrapTo(to, static_cast<int64_t>(zeroExtended(from, c[a].integer[i])));
      }
    });
  } else {
    return false;
  }
  return true;
}

bool BodyTranslator::translateOther(mlir::Operation& op) {
  const int result = columnOf(op.getResult(0));
  if (auto index = mlir::dyn_cast<mlir::linalg::IndexOp>(op)) {
    // The caller fills these columns with the position in each loop.
    body.loops_.emplace_back(index.getDim(), result);
    return true;
  }
  const int a = columnOf(op.getOperand(0));
  if (auto compare = mlir::dyn_cast<mlir::arith::CmpFOp>(op)) {
    const int b = columnOf(op.getOperand(1));
    const bool wide = compare.getLhs().getType().isF64();
    emit([=, predicate = compare.getPredicate()](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        c[result].integer[i] = wide ? compareFloats(predicate, c[a].f64[i], c[b].f64[i])
                                    : compareFloats(predicate, c[a].f32[i], c[b].f32[i]);
      }
    });
    return true;
  }
  if (auto compare = mlir::dyn_cast<mlir::arith::CmpIOp>(op)) {
    if (compare.getLhs().getType().isInteger(1)) return false;  // a signed i1 would need separate handling
    const int b = columnOf(op.getOperand(1));
    emit([=, predicate = compare.getPredicate(), type = compare.getLhs().getType()](std::vector<Column>& c,
                                                                                    int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        c[result].integer[i] = compareIntegers(predicate, type, c[a].integer[i], c[b].integer[i]);
      }
    });
    return true;
  }
  if (mlir::isa<mlir::arith::SelectOp>(op)) {
    const int b = columnOf(op.getOperand(1));
    const int e = columnOf(op.getOperand(2));
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const Column& chosen = c[a].integer[i] != 0 ? c[b] : c[e];
        if (!chosen.f32.empty()) c[result].f32[i] = chosen.f32[i];
        if (!chosen.f64.empty()) c[result].f64[i] = chosen.f64[i];
        if (!chosen.integer.empty()) c[result].integer[i] = chosen.integer[i];
      }
    });
    return true;
  }
  if (op.getNumOperands() != 2) return false;
  const int b = columnOf(op.getOperand(1));
  const Type type = op.getResult(0).getType();
  // Sums of bits would have to wrap around.
  if (type.isInteger(1) && !mlir::isa<mlir::arith::AndIOp, mlir::arith::OrIOp, mlir::arith::XOrIOp>(op)) return false;
  if (const IntegerBinaryRule* rule = findIntegerBinary(op.getName().getStringRef())) {
    emit([=, is_unsigned = rule->is_unsigned, apply = rule->apply](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        int64_t x = c[a].integer[i];
        int64_t y = c[b].integer[i];
        if (is_unsigned) {
          // Columns hold numbers with a sign, so unsigned rules first drop copies of the sign bit.
          x = static_cast<int64_t>(zeroExtended(type, x));
          y = static_cast<int64_t>(zeroExtended(type, y));
        }
        c[result].integer[i] = wrapTo(type, apply(x, y));
      }
    });
    return true;
  }
  return false;
}

bool BodyTranslator::translate(mlir::Operation& op) {
  if (op.getNumResults() != 1 || !isElementSupported(op.getResult(0).getType())) return false;
  if (op.hasTrait<mlir::OpTrait::ConstantLike>()) return defineConstant(op.getResult(0));
  // Constants outside the body are defined on first use; any other outer value is unknown.
  for (Value operand : op.getOperands()) {
    if (!isElementSupported(operand.getType())) return false;
    if (!column_of_.contains(operand) && !defineConstant(operand)) return false;
  }
  if (mlir::isa<mlir::CastOpInterface>(op)) return translateCast(op);
  if (op.getNumOperands() > 0 && mlir::isa<mlir::FloatType>(op.getResult(0).getType()) && translateFloat(op)) {
    return true;
  }
  return translateOther(op);
}

bool BodyTranslator::run(mlir::linalg::LinalgOp op) {
  for (mlir::BlockArgument argument : op.getBlock()->getArguments()) {
    if (!isElementSupported(argument.getType())) return false;
    body.argument_types_.push_back(argument.getType());
    columnOf(argument);
  }
  for (mlir::Operation& inner : op.getBlock()->without_terminator()) {
    if (!translate(inner)) return false;
  }
  for (Value value : op.getBlock()->getTerminator()->getOperands()) {
    if (!column_of_.contains(value) && !defineConstant(value)) return false;
    body.yield_types_.push_back(value.getType());
    body.yields_.push_back(columnOf(value));
  }
  return true;
}

std::optional<ColumnBody> ColumnBody::translate(mlir::linalg::LinalgOp op) {
  BodyTranslator translator;
  if (!translator.run(op)) return std::nullopt;
  return std::move(translator.body);
}

}  // namespace tessera::compiler
