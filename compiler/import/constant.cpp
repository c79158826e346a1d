#include "compiler/import/constant.h"

#include <cstring>

#include "absl/numeric/bits.h"
#include "compiler/import/element_type.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"
#include "onnx/onnx.pb.h"

namespace tessera::compiler {
namespace {

template <typename T>
T load(const Constant& constant, int64_t index) {
  T value;
  std::memcpy(&value, constant.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

double fromBits(const llvm::fltSemantics& semantics, uint16_t bits) {
  llvm::APFloat value(semantics, llvm::APInt(16, bits));
  bool lost = false;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return value.convertToDouble();
}

uint16_t toBits(const llvm::fltSemantics& semantics, double value) {
  llvm::APFloat converted(value);
  bool lost = false;
  converted.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
  return static_cast<uint16_t>(converted.bitcastToAPInt().getZExtValue());
}

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

int64_t Constant::integerAt(int64_t index) const {
  switch (storageType(dtype)) {
    case v1::DATA_TYPE_I64:
    case v1::DATA_TYPE_U64:
      return load<int64_t>(*this, index);
    case v1::DATA_TYPE_I32:
      return load<int32_t>(*this, index);
    case v1::DATA_TYPE_U32:
      return load<uint32_t>(*this, index);
    case v1::DATA_TYPE_I16:
      return load<int16_t>(*this, index);
    case v1::DATA_TYPE_U16:
      return load<uint16_t>(*this, index);
    case v1::DATA_TYPE_I8:
      return load<int8_t>(*this, index);
    case v1::DATA_TYPE_U8:
      return load<uint8_t>(*this, index);
    case v1::DATA_TYPE_BOOL:
      return load<uint8_t>(*this, index) != 0;
    default: {
      // Casting a value outside the integer's range would be undefined; NaN becomes 0.
      const double value = realAt(index);
      if (!(value > -9.2e18)) return value < 0 ? INT64_MIN : 0;
      return value < 9.2e18 ? static_cast<int64_t>(value) : INT64_MAX;
    }
  }
}

double Constant::realAt(int64_t index) const {
  switch (dtype) {
    case v1::DATA_TYPE_F32:
      return load<float>(*this, index);
    case v1::DATA_TYPE_F64:
      return load<double>(*this, index);
    case v1::DATA_TYPE_F16:
      return fromBits(llvm::APFloat::IEEEhalf(), load<uint16_t>(*this, index));
    case v1::DATA_TYPE_BF16:
      return fromBits(llvm::APFloat::BFloat(), load<uint16_t>(*this, index));
    case v1::DATA_TYPE_U64:
      return static_cast<double>(load<uint64_t>(*this, index));
    default:
      return static_cast<double>(integerAt(index));
  }
}

std::vector<int64_t> Constant::integers() const {
  std::vector<int64_t> values(elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = integerAt(static_cast<int64_t>(i));
  return values;
}

std::vector<double> Constant::reals() const {
  std::vector<double> values(elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = realAt(static_cast<int64_t>(i));
  return values;
}

// The bytes belong to a shared owner, so that reshaped constants share them.
ConstantPtr makeConstant(v1::DataType dtype, Shape shape, std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return std::make_shared<const Constant>(Constant{dtype, std::move(shape), *owner, owner});
}

ConstantPtr integerConstant(const std::vector<int64_t>& values) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  return makeConstant(v1::DATA_TYPE_I64, {static_cast<int64_t>(values.size())}, std::move(bytes));
}

namespace {

/// Converts a number to an integer of `bits` bits: toward zero, saturating, NaN to 0.
llvm::APSInt integerOf(double value, unsigned bits, bool is_signed) {
  llvm::APSInt integer(bits, !is_signed);
  bool exact = false;
  llvm::APFloat(value).convertToInteger(integer, llvm::APFloat::rmTowardZero, &exact);
  return integer;
}

}  // namespace

/// Returns a constant of any element type.
ConstantPtr realConstant(v1::DataType dtype, Shape shape, const std::vector<double>& values) {
  std::string bytes;
  bytes.reserve(values.size() * elementBytes(dtype));
  for (double value : values) {
    switch (dtype) {
      case v1::DATA_TYPE_F64:
        append(bytes, value);
        break;
      case v1::DATA_TYPE_F16:
        append(bytes, toBits(llvm::APFloat::IEEEhalf(), value));
        break;
      case v1::DATA_TYPE_BF16:
        append(bytes, toBits(llvm::APFloat::BFloat(), value));
        break;
      case v1::DATA_TYPE_F32:
        append(bytes, static_cast<float>(value));
        break;
      default: {
        const int64_t size = elementBytes(dtype);
        const llvm::APSInt integer = integerOf(value, static_cast<unsigned>(8 * size), !isUnsigned(dtype));
        const uint64_t bits = integer.getZExtValue();
        bytes.append(reinterpret_cast<const char*>(&bits), size);  // little-endian, as all constants
      }
    }
  }
  return makeConstant(dtype, std::move(shape), std::move(bytes));
}

ConstantPtr reshaped(const ConstantPtr& constant, Shape shape) {
  Constant copy = *constant;
  copy.shape = std::move(shape);
  return std::make_shared<const Constant>(std::move(copy));
}

ConstantPtr leadingPart(const ConstantPtr& constant, const Shape& shape) {
  if (shape == constant->shape) return constant;
  const int64_t size = elementBytes(constant->dtype);
  std::string bytes;
  for (int64_t i = 0; i < elementCount(shape); ++i) {
    // Finds the element's position in the larger shape, last dimension first.
    int64_t from = 0, stride = 1, rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      from += rest % shape[d] * stride;
      stride *= constant->shape[d];
    }
    bytes.append(constant->bytes.substr(from * size, size));
  }
  return makeConstant(constant->dtype, shape, std::move(bytes));
}

}  // namespace tessera::compiler
