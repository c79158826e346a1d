#include "compiler/codegen/testing/reference.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler::codegen::testing {
namespace {

namespace arith = mlir::arith;
namespace tensor = mlir::tensor;
using Index = std::vector<int64_t>;

[[noreturn]] void unknown(mlir::Operation* op) {
  llvm::errs() << "the reference interpreter does not know: " << *op << "\n";
  std::abort();
}

int64_t wrap(int64_t value, mlir::Type type) {
  if (type.isIndex() || type.getIntOrFloatBitWidth() == 64) return value;
  const unsigned bits = type.getIntOrFloatBitWidth();
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t low = static_cast<uint64_t>(value) & mask;
  if (bits > 1 && (low >> (bits - 1))) low |= ~mask;
  return static_cast<int64_t>(low);
}

Scalar fromAttribute(mlir::Attribute attribute) {
  if (auto real = llvm::dyn_cast<mlir::FloatAttr>(attribute)) return {real.getValueAsDouble(), 0};
  if (auto boolean = llvm::dyn_cast<mlir::BoolAttr>(attribute)) return {0, boolean.getValue() ? 1 : 0};
  return {0, llvm::cast<mlir::IntegerAttr>(attribute).getValue().getSExtValue()};
}

/// Calls fn for each point of the box, last dimension fastest.
template <typename Fn>
void forEach(const Index& shape, Fn fn) {
  for (int64_t extent : shape)
    if (extent == 0) return;
  Index at(shape.size(), 0);
  while (true) {
    fn(at);
    int dim = static_cast<int>(shape.size()) - 1;
    while (dim >= 0 && ++at[dim] == shape[dim]) at[dim--] = 0;
    if (dim < 0) return;
  }
}

Scalar& element(HostTensor& tensor, const Index& at) {
  int64_t linear = 0;
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    if (at[dim] < 0 || at[dim] >= tensor.shape[dim]) {
      llvm::errs() << "the reference interpreter was led out of bounds\n";
      std::abort();
    }
    linear = linear * tensor.shape[dim] + at[dim];
  }
  return tensor.values[linear];
}

int64_t evaluate(mlir::AffineExpr expr, const Index& dims) {
  if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr)) return dims[dim.getPosition()];
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) return constant.getValue();
  auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  const int64_t lhs = evaluate(binary.getLHS(), dims), rhs = evaluate(binary.getRHS(), dims);
  switch (expr.getKind()) {
    case mlir::AffineExprKind::Add:
      return lhs + rhs;
    case mlir::AffineExprKind::Mul:
      return lhs * rhs;
    case mlir::AffineExprKind::FloorDiv:
      return lhs / rhs;
    case mlir::AffineExprKind::CeilDiv:
      return (lhs + rhs - 1) / rhs;
    default:
      return lhs % rhs;
  }
}

class Interpreter {
 public:
  std::map<void*, HostTensor> tensors;
  std::map<void*, Scalar> scalars;

  HostTensor& tensorOf(mlir::Value value) { return tensors.at(value.getAsOpaquePointer()); }
  Scalar scalarOf(mlir::Value value) { return scalars.at(value.getAsOpaquePointer()); }
  void set(mlir::Value value, HostTensor tensor) { tensors[value.getAsOpaquePointer()] = std::move(tensor); }
  void set(mlir::Value value, Scalar scalar) { scalars[value.getAsOpaquePointer()] = scalar; }

  int64_t indexOf(mlir::OpFoldResult value) {
    if (auto attribute = llvm::dyn_cast<mlir::Attribute>(value))
      return llvm::cast<mlir::IntegerAttr>(attribute).getInt();
    return scalarOf(llvm::cast<mlir::Value>(value)).integer;
  }
  Index indicesOf(llvm::ArrayRef<mlir::OpFoldResult> values) {
    Index result;
    for (mlir::OpFoldResult value : values) result.push_back(indexOf(value));
    return result;
  }

  void run(mlir::Operation* op) {
    if (auto constant = llvm::dyn_cast<arith::ConstantOp>(op)) {
      if (auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue())) {
        HostTensor result = makeTensor(llvm::cast<mlir::RankedTensorType>(constant.getType()));
        size_t i = 0;
        for (mlir::Attribute value : dense.getValues<mlir::Attribute>()) result.values[i++] = fromAttribute(value);
        return set(constant.getResult(), std::move(result));
      }
      return set(constant.getResult(), fromAttribute(constant.getValue()));
    }
    if (auto structured = llvm::dyn_cast<mlir::linalg::LinalgOp>(op)) return runLinalg(structured);
    llvm::TypeSwitch<mlir::Operation*>(op)
        .Case<tensor::EmptyOp>([&](auto empty) {
          HostTensor result = makeTensor(empty.getType());
          // Poison: whoever reads what was never written must not get away with it.
          for (Scalar& value : result.values) value = {std::nan(""), 0x5a5a5a5a};
          set(empty.getResult(), std::move(result));
        })
        .Case<tensor::ExtractSliceOp>([&](auto slice) {
          HostTensor result = makeTensor(slice.getType());
          std::vector<Scalar> values;
          const Index offsets = indicesOf(slice.getMixedOffsets()), strides = indicesOf(slice.getMixedStrides());
          forEach(indicesOf(slice.getMixedSizes()), [&](Index at) {
            for (size_t d = 0; d < at.size(); ++d) at[d] = offsets[d] + at[d] * strides[d];
            values.push_back(element(tensorOf(slice.getSource()), at));
          });
          result.values = std::move(values);
          set(slice.getResult(), std::move(result));
        })
        .Case<tensor::InsertSliceOp>([&](auto slice) {
          HostTensor result = tensorOf(slice.getDest());
          const Index offsets = indicesOf(slice.getMixedOffsets()), strides = indicesOf(slice.getMixedStrides());
          size_t next = 0;
          forEach(indicesOf(slice.getMixedSizes()), [&](Index at) {
            for (size_t d = 0; d < at.size(); ++d) at[d] = offsets[d] + at[d] * strides[d];
            element(result, at) = tensorOf(slice.getSource()).values[next++];
          });
          set(slice.getResult(), std::move(result));
        })
        .Case<tensor::PadOp>([&](auto pad) {
          HostTensor result = makeTensor(pad.getResultType());
          const Index low = indicesOf(pad.getMixedLowPad());
          for (mlir::Operation& inner : pad.getRegion().front().without_terminator()) run(&inner);
          const Scalar value = scalarOf(pad.getRegion().front().getTerminator()->getOperand(0));
          for (Scalar& each : result.values) each = value;
          HostTensor& source = tensorOf(pad.getSource());
          forEach(source.shape, [&](Index at) {
            const Scalar moved = element(source, at);
            for (size_t d = 0; d < at.size(); ++d) at[d] += low[d];
            element(result, at) = moved;
          });
          set(pad.getResult(), std::move(result));
        })
        .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp>([&](auto reshape) {
          HostTensor result = makeTensor(reshape.getResultType());
          result.values = tensorOf(reshape.getSrc()).values;
          set(reshape.getResult(), std::move(result));
        })
        .Case<tensor::ConcatOp>([&](auto concat) {
          HostTensor result = makeTensor(concat.getResultType());
          int64_t base = 0;
          for (mlir::Value input : concat.getInputs()) {
            forEach(tensorOf(input).shape, [&](Index at) {
              const Scalar value = element(tensorOf(input), at);
              at[concat.getDim()] += base;
              element(result, at) = value;
            });
            base += tensorOf(input).shape[concat.getDim()];
          }
          set(concat.getResult(), std::move(result));
        })
        .Case<mlir::linalg::PackOp>([&](auto pack) {
          HostTensor result = makeTensor(llvm::cast<mlir::RankedTensorType>(pack.getDestType()));
          HostTensor& source = tensorOf(pack.getSource());
          const size_t rank = source.shape.size();
          llvm::SmallVector<int64_t> outer(pack.getOuterDimsPerm());
          if (outer.empty())
            for (size_t d = 0; d < rank; ++d) outer.push_back(static_cast<int64_t>(d));
          forEach(result.shape, [&](const Index& at) {
            Index from(rank);
            for (size_t d = 0; d < rank; ++d) from[outer[d]] = at[d];
            for (auto [i, dim] : llvm::enumerate(pack.getInnerDimsPos()))
              from[dim] = from[dim] * pack.getStaticInnerTiles()[i] + at[rank + i];
            bool inside = true;
            for (size_t d = 0; d < rank; ++d) inside &= from[d] < source.shape[d];
            element(result, at) = inside ? element(source, from) : scalarOf(pack.getPaddingValue());
          });
          set(pack->getResult(0), std::move(result));
        })
        .Default([&](mlir::Operation* other) {
          if (other->getNumResults() != 1) unknown(other);
          set(other->getResult(0), scalar(other));
        });
  }

 private:
  void runLinalg(mlir::linalg::LinalgOp op) {
    const auto maps = op.getIndexingMapsArray();
    std::vector<HostTensor> outputs;
    for (mlir::Value init : op.getDpsInits()) outputs.push_back(tensorOf(init));
    mlir::Block& body = *op.getBlock();
    const auto inputs = op.getDpsInputs();
    const auto ranges = op.getStaticLoopRanges();
    forEach(Index(ranges.begin(), ranges.end()), [&](const Index& point) {
      point_ = point;
      auto place = [&](size_t operand) {
        Index at;
        for (mlir::AffineExpr expr : maps[operand].getResults()) at.push_back(evaluate(expr, point));
        return at;
      };
      for (size_t i = 0; i < inputs.size(); ++i)
        set(body.getArgument(i), llvm::isa<mlir::RankedTensorType>(inputs[i].getType())
                                     ? element(tensorOf(inputs[i]), place(i))
                                     : scalarOf(inputs[i]));
      for (size_t o = 0; o < outputs.size(); ++o)
        set(body.getArgument(inputs.size() + o), element(outputs[o], place(inputs.size() + o)));
      for (mlir::Operation& inner : body.without_terminator()) run(&inner);
      for (size_t o = 0; o < outputs.size(); ++o)
        element(outputs[o], place(inputs.size() + o)) = scalarOf(body.getTerminator()->getOperand(o));
    });
    for (size_t o = 0; o < outputs.size(); ++o) set(op->getResult(o), std::move(outputs[o]));
  }

  Scalar scalar(mlir::Operation* op) {
    if (auto index = llvm::dyn_cast<mlir::linalg::IndexOp>(op)) return {0, point_[index.getDim()]};
    if (auto extract = llvm::dyn_cast<tensor::ExtractOp>(op)) {
      Index at;
      for (mlir::Value index : extract.getIndices()) at.push_back(scalarOf(index).integer);
      return element(tensorOf(extract.getTensor()), at);
    }
    std::vector<Scalar> in;
    for (mlir::Value operand : op->getOperands()) in.push_back(scalarOf(operand));
    const double a = in.empty() ? 0 : in[0].real, b = in.size() > 1 ? in[1].real : 0;
    const int64_t i = in.empty() ? 0 : in[0].integer, j = in.size() > 1 ? in[1].integer : 0;
    const mlir::Type type = op->getResult(0).getType();
    auto integer = [&](int64_t value) { return Scalar{0, wrap(value, type)}; };
    auto nan_or = [&](double value) { return Scalar{std::isnan(a) || std::isnan(b) ? std::nan("") : value, 0}; };
    if (auto compare = llvm::dyn_cast<arith::CmpFOp>(op)) {
      const bool unordered = std::isnan(a) || std::isnan(b);
      switch (compare.getPredicate()) {
        case arith::CmpFPredicate::OGT:
          return {0, !unordered && a > b};
        case arith::CmpFPredicate::UGT:
          return {0, unordered || a > b};
        case arith::CmpFPredicate::OLT:
          return {0, !unordered && a < b};
        case arith::CmpFPredicate::OGE:
          return {0, !unordered && a >= b};
        case arith::CmpFPredicate::OEQ:
          return {0, !unordered && a == b};
        default:
          unknown(op);
      }
    }
    if (auto compare = llvm::dyn_cast<arith::CmpIOp>(op)) {
      switch (compare.getPredicate()) {
        case arith::CmpIPredicate::eq:
          return {0, i == j};
        case arith::CmpIPredicate::slt:
          return {0, i < j};
        case arith::CmpIPredicate::sgt:
          return {0, i > j};
        case arith::CmpIPredicate::ult:
          return {0, static_cast<uint64_t>(i) < static_cast<uint64_t>(j)};
        default:
          unknown(op);
      }
    }
    const std::string name = op->getName().getStringRef().str();
    if (name == "arith.addf") return {a + b, 0};
    if (name == "arith.subf") return {a - b, 0};
    if (name == "arith.mulf") return {a * b, 0};
    if (name == "arith.divf") return {a / b, 0};
    if (name == "arith.negf") return {-a, 0};
    if (name == "arith.maximumf") return nan_or(std::fmax(a, b));
    if (name == "arith.minimumf") return nan_or(std::fmin(a, b));
    if (name == "arith.maxnumf") return {std::fmax(a, b), 0};
    if (name == "arith.minnumf") return {std::fmin(a, b), 0};
    if (name == "arith.addi") return integer(i + j);
    if (name == "arith.subi") return integer(i - j);
    if (name == "arith.muli") return integer(i * j);
    if (name == "arith.divsi") return integer(i / j);
    if (name == "arith.remsi") return integer(i % j);
    if (name == "arith.maxsi") return integer(std::max(i, j));
    if (name == "arith.minsi") return integer(std::min(i, j));
    if (name == "arith.andi") return integer(i & j);
    if (name == "arith.ori") return integer(i | j);
    if (name == "arith.extsi" || name == "arith.trunci" || name == "arith.index_cast") return integer(i);
    if (name == "arith.extui") {
      const unsigned bits = op->getOperand(0).getType().getIntOrFloatBitWidth();
      return integer(static_cast<int64_t>(static_cast<uint64_t>(i) & ((uint64_t{1} << bits) - 1)));
    }
    if (name == "arith.sitofp") return {static_cast<double>(i), 0};
    if (name == "arith.fptosi") return integer(static_cast<int64_t>(a));
    if (name == "arith.extf" || name == "arith.truncf") return {a, 0};
    if (name == "arith.select") return i ? in[1] : in[2];
    static const std::map<std::string, double (*)(double)> kFunctions = {
        {"math.exp", std::exp},     {"math.log", std::log},
        {"math.sqrt", std::sqrt},   {"math.tanh", std::tanh},
        {"math.erf", std::erf},     {"math.sin", std::sin},
        {"math.cos", std::cos},     {"math.absf", std::fabs},
        {"math.floor", std::floor}, {"math.ceil", std::ceil},
        {"math.log1p", std::log1p}, {"math.expm1", std::expm1},
        {"math.trunc", std::trunc}, {"math.atan", std::atan},
        {"math.exp2", std::exp2},   {"math.log2", std::log2},
        {"math.round", std::round}, {"math.asin", std::asin},
        {"math.acos", std::acos},   {"math.tan", std::tan},
        {"math.sinh", std::sinh},   {"math.cosh", std::cosh},
        {"math.asinh", std::asinh}, {"math.acosh", std::acosh},
        {"math.atanh", std::atanh}, {"math.cbrt", std::cbrt},
        {"math.log10", std::log10}, {"math.roundeven", std::nearbyint},
        {"math.erfc", std::erfc}};
    if (auto found = kFunctions.find(name); found != kFunctions.end()) return {found->second(a), 0};
    if (name == "math.rsqrt") return {1 / std::sqrt(a), 0};
    if (name == "math.powf") return {std::pow(a, b), 0};
    if (name == "arith.remf") return {std::fmod(a, b), 0};
    if (name == "math.atan2") return {std::atan2(a, b), 0};
    if (name == "math.fma") return {a * b + in[2].real, 0};
    if (name == "math.copysign") return {std::copysign(a, b), 0};
    unknown(op);
  }

  Index point_;
};

}  // namespace

HostTensor makeTensor(mlir::RankedTensorType type) {
  HostTensor tensor;
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  tensor.element = type.getElementType();
  tensor.values.resize(type.getNumElements());
  return tensor;
}

std::vector<char> toBytes(const HostTensor& tensor) {
  const unsigned bits = std::max(8U, tensor.element.getIntOrFloatBitWidth());
  std::vector<char> bytes(tensor.values.size() * bits / 8);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    uint64_t raw = static_cast<uint64_t>(tensor.values[i].integer);
    if (auto real = llvm::dyn_cast<mlir::FloatType>(tensor.element)) {
      llvm::APFloat value(tensor.values[i].real);
      bool lost;
      value.convert(real.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lost);
      raw = value.bitcastToAPInt().getZExtValue();
    }
    std::memcpy(bytes.data() + i * bits / 8, &raw, bits / 8);
  }
  return bytes;
}

HostTensor fromBytes(mlir::RankedTensorType type, const char* bytes) {
  HostTensor tensor = makeTensor(type);
  const unsigned bits = std::max(8U, tensor.element.getIntOrFloatBitWidth());
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    uint64_t raw = 0;
    std::memcpy(&raw, bytes + i * bits / 8, bits / 8);
    if (auto real = llvm::dyn_cast<mlir::FloatType>(tensor.element)) {
      llvm::APFloat value(real.getFloatSemantics(), llvm::APInt(bits, raw));
      tensor.values[i].real = value.convertToDouble();
    } else {
      tensor.values[i].integer = wrap(static_cast<int64_t>(raw), tensor.element);
    }
  }
  return tensor;
}

std::vector<HostTensor> interpret(mlir::func::FuncOp func, const std::vector<HostTensor>& arguments) {
  Interpreter interpreter;
  for (auto [argument, value] : llvm::zip_equal(func.getArguments(), arguments)) interpreter.set(argument, value);
  mlir::Block& body = func.getBody().front();
  for (mlir::Operation& op : body.without_terminator()) interpreter.run(&op);
  std::vector<HostTensor> results;
  for (mlir::Value result : body.getTerminator()->getOperands()) results.push_back(interpreter.tensorOf(result));
  return results;
}

}  // namespace tessera::compiler::codegen::testing
