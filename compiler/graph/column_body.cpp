#include "compiler/graph/column_body.h"

#include <cmath>
#include <cstring>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace tessera::compiler {
namespace {

using mlir::Type;
using mlir::Value;

bool isNarrowFloat(Type type) { return type.isF16() || type.isBF16(); }
bool isSupported(Type type) {
  if (type.isIndex() || type.isF32() || type.isF64() || isNarrowFloat(type)) return true;
  auto integer = mlir::dyn_cast<mlir::IntegerType>(type);
  return integer && (integer.getWidth() == 1 || integer.getWidth() == 8 || integer.getWidth() == 16 ||
                     integer.getWidth() == 32 || integer.getWidth() == 64);
}

float roundTo(Type type, float value) {
  if (!isNarrowFloat(type)) return value;
  llvm::APFloat wide(value);
  bool lossy = false;
  wide.convert(mlir::cast<mlir::FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  wide.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return wide.convertToFloat();
}

unsigned widthOf(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

/// i1 is 0 or 1 here, wider integers are sign-extended.
int64_t wrap(Type type, int64_t value) {
  const unsigned width = widthOf(type);
  if (width == 64) return value;
  if (width == 1) return value & 1;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - width)) >> (64 - width);
}

uint64_t zeroExtended(Type type, int64_t value) {
  const unsigned width = widthOf(type);
  return width == 64 ? static_cast<uint64_t>(value) : static_cast<uint64_t>(value) & ((uint64_t{1} << width) - 1);
}

using FloatUnary = double (*)(double);
using FloatBinary = double (*)(double, double);
using FloatUnary32 = float (*)(float);
using FloatBinary32 = float (*)(float, float);
using IntegerBinary = int64_t (*)(int64_t, int64_t);

double nanMax(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }
double nanMin(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b); }

struct Unary {
  const char* name;
  FloatUnary32 f32;
  FloatUnary f64;
};
constexpr Unary kUnary[] = {
    {"arith.negf", [](float a) { return -a; }, [](double a) { return -a; }},
    {"math.absf", [](float a) { return std::fabs(a); }, [](double a) { return std::fabs(a); }},
    {"math.sqrt", [](float a) { return std::sqrt(a); }, [](double a) { return std::sqrt(a); }},
    {"math.rsqrt", [](float a) { return 1.0F / std::sqrt(a); }, [](double a) { return 1.0 / std::sqrt(a); }},
    {"math.exp", [](float a) { return std::exp(a); }, [](double a) { return std::exp(a); }},
    {"math.log", [](float a) { return std::log(a); }, [](double a) { return std::log(a); }},
    {"math.tanh", [](float a) { return std::tanh(a); }, [](double a) { return std::tanh(a); }},
    {"math.erf", [](float a) { return std::erf(a); }, [](double a) { return std::erf(a); }},
    {"math.sin", [](float a) { return std::sin(a); }, [](double a) { return std::sin(a); }},
    {"math.cos", [](float a) { return std::cos(a); }, [](double a) { return std::cos(a); }},
    {"math.floor", [](float a) { return std::floor(a); }, [](double a) { return std::floor(a); }},
    {"math.ceil", [](float a) { return std::ceil(a); }, [](double a) { return std::ceil(a); }},
    {"math.trunc", [](float a) { return std::trunc(a); }, [](double a) { return std::trunc(a); }},
    {"math.roundeven", [](float a) { return std::nearbyint(a); }, [](double a) { return std::nearbyint(a); }},
};

struct Binary {
  const char* name;
  FloatBinary32 f32;
  FloatBinary f64;
};
constexpr Binary kBinary[] = {
    {"arith.addf", [](float a, float b) { return a + b; }, [](double a, double b) { return a + b; }},
    {"arith.subf", [](float a, float b) { return a - b; }, [](double a, double b) { return a - b; }},
    {"arith.mulf", [](float a, float b) { return a * b; }, [](double a, double b) { return a * b; }},
    {"arith.divf", [](float a, float b) { return a / b; }, [](double a, double b) { return a / b; }},
    {"arith.remf", [](float a, float b) { return std::fmod(a, b); },
     [](double a, double b) { return std::fmod(a, b); }},
    {"arith.maximumf", [](float a, float b) { return static_cast<float>(nanMax(a, b)); }, nanMax},
    {"arith.minimumf", [](float a, float b) { return static_cast<float>(nanMin(a, b)); }, nanMin},
    {"arith.maxnumf", [](float a, float b) { return std::fmax(a, b); },
     [](double a, double b) { return std::fmax(a, b); }},
    {"arith.minnumf", [](float a, float b) { return std::fmin(a, b); },
     [](double a, double b) { return std::fmin(a, b); }},
    {"math.powf", [](float a, float b) { return std::pow(a, b); }, [](double a, double b) { return std::pow(a, b); }},
};

struct Integer {
  const char* name;
  bool is_unsigned;  // operands are zero-extended first
  IntegerBinary apply;
};
// Wrapping arithmetic is done unsigned; division by zero is undefined in MLIR and yields 0 here.
constexpr Integer kInteger[] = {
    {"arith.addi", true, [](int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) + uint64_t(b)); }},
    {"arith.subi", true, [](int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) - uint64_t(b)); }},
    {"arith.muli", true, [](int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) * uint64_t(b)); }},
    {"arith.andi", true, [](int64_t a, int64_t b) { return a & b; }},
    {"arith.ori", true, [](int64_t a, int64_t b) { return a | b; }},
    {"arith.xori", true, [](int64_t a, int64_t b) { return a ^ b; }},
    {"arith.shli", true, [](int64_t a, int64_t b) { return b > 63 ? 0 : static_cast<int64_t>(uint64_t(a) << b); }},
    {"arith.shrui", true, [](int64_t a, int64_t b) { return b > 63 ? 0 : static_cast<int64_t>(uint64_t(a) >> b); }},
    {"arith.shrsi", false, [](int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }},
    {"arith.divsi", false,
     [](int64_t a, int64_t b) { return b == 0    ? 0
                                       : b == -1 ? int64_t(0 - uint64_t(a))
                                                 : a / b; }},
    {"arith.remsi", false, [](int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }},
    {"arith.divui", true,
     [](int64_t a, int64_t b) { return b == 0 ? 0 : static_cast<int64_t>(uint64_t(a) / uint64_t(b)); }},
    {"arith.remui", true,
     [](int64_t a, int64_t b) { return b == 0 ? 0 : static_cast<int64_t>(uint64_t(a) % uint64_t(b)); }},
    {"arith.maxsi", false, [](int64_t a, int64_t b) { return std::max(a, b); }},
    {"arith.minsi", false, [](int64_t a, int64_t b) { return std::min(a, b); }},
    {"arith.maxui", true, [](int64_t a, int64_t b) { return uint64_t(a) > uint64_t(b) ? a : b; }},
    {"arith.minui", true, [](int64_t a, int64_t b) { return uint64_t(a) < uint64_t(b) ? a : b; }},
};

bool compareFloats(mlir::arith::CmpFPredicate predicate, double a, double b) {
  using P = mlir::arith::CmpFPredicate;
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
    case P::AlwaysFalse:
      return false;
    case P::AlwaysTrue:
      return true;
    case P::ORD:
      return !unordered;
    case P::UNO:
      return unordered;
    case P::OEQ:
      return a == b;
    case P::OGT:
      return a > b;
    case P::OGE:
      return a >= b;
    case P::OLT:
      return a < b;
    case P::OLE:
      return a <= b;
    case P::ONE:
      return !unordered && a != b;
    case P::UEQ:
      return unordered || a == b;
    case P::UGT:
      return unordered || a > b;
    case P::UGE:
      return unordered || a >= b;
    case P::ULT:
      return unordered || a < b;
    case P::ULE:
      return unordered || a <= b;
    case P::UNE:
      return a != b;
  }
  return false;
}

bool compareIntegers(mlir::arith::CmpIPredicate predicate, Type type, int64_t a, int64_t b) {
  using P = mlir::arith::CmpIPredicate;
  const uint64_t ua = zeroExtended(type, a);
  const uint64_t ub = zeroExtended(type, b);
  switch (predicate) {
    case P::eq:
      return a == b;
    case P::ne:
      return a != b;
    case P::slt:
      return a < b;
    case P::sle:
      return a <= b;
    case P::sgt:
      return a > b;
    case P::sge:
      return a >= b;
    case P::ult:
      return ua < ub;
    case P::ule:
      return ua <= ub;
    case P::ugt:
      return ua > ub;
    case P::uge:
      return ua >= ub;
  }
  return false;
}

/// Conversion to an integer; out of range is poison in MLIR and saturates here.
int64_t toInteger(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9.2233720368547748e18) return std::numeric_limits<int64_t>::max();
  if (value <= -9.2233720368547758e18) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace

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

/// Constants fill their column once.
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
  const int64_t number = wrap(value.getType(), static_cast<int64_t>(bits.getZExtValue()));
  std::fill(column.integer.begin(), column.integer.end(), number);
  return true;
}

bool BodyTranslator::translateFloat(mlir::Operation& op) {
  const llvm::StringRef name = op.getName().getStringRef();
  const Type type = op.getResult(0).getType();
  const int result = columnOf(op.getResult(0));
  const int a = columnOf(op.getOperand(0));
  for (const Unary& entry : kUnary) {
    if (name != entry.name) continue;
    emit([=, f32 = entry.f32, f64 = entry.f64](std::vector<Column>& c, int64_t count) {
      if (type.isF64()) {
        for (int64_t i = 0; i < count; ++i) c[result].f64[i] = f64(c[a].f64[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) c[result].f32[i] = roundTo(type, f32(c[a].f32[i]));
      }
    });
    return true;
  }
  if (op.getNumOperands() != 2) return false;
  const int b = columnOf(op.getOperand(1));
  for (const Binary& entry : kBinary) {
    if (name != entry.name) continue;
    emit([=, f32 = entry.f32, f64 = entry.f64](std::vector<Column>& c, int64_t count) {
      if (type.isF64()) {
        for (int64_t i = 0; i < count; ++i) c[result].f64[i] = f64(c[a].f64[i], c[b].f64[i]);
      } else {
        for (int64_t i = 0; i < count; ++i) c[result].f32[i] = roundTo(type, f32(c[a].f32[i], c[b].f32[i]));
      }
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
        c[result].integer[i] = wrap(to, toInteger(from.isF64() ? c[a].f64[i] : c[a].f32[i]));
      }
    });
  } else if (mlir::isa<mlir::arith::ExtSIOp, mlir::arith::IndexCastOp>(op)) {
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t value = from.isInteger(1) ? -c[a].integer[i] : c[a].integer[i];
        c[result].integer[i] = wrap(to, value);
      }
    });
  } else if (mlir::isa<mlir::arith::ExtUIOp, mlir::arith::TruncIOp>(op)) {
    emit([=](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        c[result].integer[i] = wrap(to, static_cast<int64_t>(zeroExtended(from, c[a].integer[i])));
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
    if (compare.getLhs().getType().isInteger(1)) return false;  // signed i1 would need its own reading
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
  if (type.isInteger(1) && !mlir::isa<mlir::arith::AndIOp, mlir::arith::OrIOp, mlir::arith::XOrIOp>(op)) return false;
  for (const Integer& entry : kInteger) {
    if (op.getName().getStringRef() != entry.name) continue;
    emit([=, is_unsigned = entry.is_unsigned, apply = entry.apply](std::vector<Column>& c, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        int64_t x = c[a].integer[i];
        int64_t y = c[b].integer[i];
        if (is_unsigned) {
          x = static_cast<int64_t>(zeroExtended(type, x));
          y = static_cast<int64_t>(zeroExtended(type, y));
        }
        c[result].integer[i] = wrap(type, apply(x, y));
      }
    });
    return true;
  }
  return false;
}

bool BodyTranslator::translate(mlir::Operation& op) {
  if (op.getNumResults() != 1 || !isSupported(op.getResult(0).getType())) return false;
  if (op.hasTrait<mlir::OpTrait::ConstantLike>()) return defineConstant(op.getResult(0));
  for (Value operand : op.getOperands()) {
    if (!isSupported(operand.getType())) return false;
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
    if (!isSupported(argument.getType())) return false;
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

namespace {

template <typename T>
T readAs(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

float narrowToFloat(Type type, uint16_t bits) {
  llvm::APFloat value(mlir::cast<mlir::FloatType>(type).getFloatSemantics(), llvm::APInt(16, bits));
  bool lossy = false;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return value.convertToFloat();
}

uint16_t floatToNarrow(Type type, float value) {
  llvm::APFloat narrow(value);
  bool lossy = false;
  narrow.convert(mlir::cast<mlir::FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return static_cast<uint16_t>(narrow.bitcastToAPInt().getZExtValue());
}

}  // namespace

void ColumnBody::load(unsigned index, const char* data, int64_t stride, int64_t count) {
  const Type type = argument_types_[index];
  Column& column = columns_[index];
  if (type.isF32()) {
    for (int64_t i = 0; i < count; ++i) column.f32[i] = readAs<float>(data + i * stride * 4);
  } else if (type.isF64()) {
    for (int64_t i = 0; i < count; ++i) column.f64[i] = readAs<double>(data + i * stride * 8);
  } else if (isNarrowFloat(type)) {
    for (int64_t i = 0; i < count; ++i) column.f32[i] = narrowToFloat(type, readAs<uint16_t>(data + i * stride * 2));
  } else {
    const unsigned width = widthOf(type);
    for (int64_t i = 0; i < count; ++i) {
      switch (width) {
        case 1:
          column.integer[i] = readAs<int8_t>(data + i * stride) & 1;
          break;
        case 8:
          column.integer[i] = readAs<int8_t>(data + i * stride);
          break;
        case 16:
          column.integer[i] = readAs<int16_t>(data + i * stride * 2);
          break;
        case 32:
          column.integer[i] = readAs<int32_t>(data + i * stride * 4);
          break;
        default:
          column.integer[i] = readAs<int64_t>(data + i * stride * 8);
          break;
      }
    }
  }
}

void ColumnBody::setLoop(unsigned loop, int64_t first, int64_t step, int64_t count) {
  for (auto [used, column] : loops_) {
    if (used != loop) continue;
    for (int64_t i = 0; i < count; ++i) columns_[column].integer[i] = first + i * step;
  }
}

void ColumnBody::run(int64_t count) {
  for (const Instruction& instruction : instructions_) instruction(columns_, count);
}

void ColumnBody::store(unsigned index, char* data, int64_t stride, int64_t count) const {
  const Type type = yield_types_[index];
  const Column& column = columns_[yields_[index]];
  auto write = [&](int64_t i, const auto& value) {
    std::memcpy(data + i * stride * sizeof(value), &value, sizeof(value));
  };
  for (int64_t i = 0; i < count; ++i) {
    if (type.isF32()) {
      write(i, column.f32[i]);
    } else if (type.isF64()) {
      write(i, column.f64[i]);
    } else if (isNarrowFloat(type)) {
      write(i, floatToNarrow(type, column.f32[i]));
    } else {
      switch (widthOf(type)) {
        case 1:
        case 8:
          write(i, static_cast<int8_t>(column.integer[i]));
          break;
        case 16:
          write(i, static_cast<int16_t>(column.integer[i]));
          break;
        case 32:
          write(i, static_cast<int32_t>(column.integer[i]));
          break;
        default:
          write(i, column.integer[i]);
          break;
      }
    }
  }
}

}  // namespace tessera::compiler
