#include "compiler/graph/constants/column_body.h"

#include <cstring>

#include "compiler/graph/constants/element_arithmetic.h"
#include "llvm/ADT/APFloat.h"

namespace tessera::compiler {

using mlir::Type;

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
    const unsigned width = elementWidth(type);
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
      switch (elementWidth(type)) {
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
