#include "compiler/graph/constants/column_body.h"

#include <algorithm>
#include <cstring>

#include "compiler/graph/constants/element_arithmetic.h"

namespace tessera::compiler {

using mlir::Type;

namespace {

template <typename T>
T readAs(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace

void ColumnBody::load(unsigned index, const char* data, int64_t stride, int64_t count) {
  const Type type = argument_types_[index];
  Column& column = columns_[index];
  auto read = [&]<typename T>(T, auto& into, auto convert) {
    // Most columns are contiguous or a single element; these need no multiplication per point.
    if (stride == 0) {
      std::fill_n(into.begin(), count, convert(readAs<T>(data)));
    } else if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) into[i] = convert(readAs<T>(data + i * static_cast<int64_t>(sizeof(T))));
    } else {
      for (int64_t i = 0; i < count; ++i)
        into[i] = convert(readAs<T>(data + i * stride * static_cast<int64_t>(sizeof(T))));
    }
  };
  constexpr auto kSame = [](auto value) { return value; };
  if (type.isF32()) return read(float{}, column.f32, kSame);
  if (type.isF64()) return read(double{}, column.f64, kSame);
  if (isNarrowFloat(type)) return read(uint16_t{}, column.f32, [&](uint16_t bits) { return widened(type, bits); });
  switch (elementWidth(type)) {
    case 1:
      return read(int8_t{}, column.integer, [](int8_t value) { return value & 1; });
    case 8:
      return read(int8_t{}, column.integer, kSame);
    case 16:
      return read(int16_t{}, column.integer, kSame);
    case 32:
      return read(int32_t{}, column.integer, kSame);
    default:
      return read(int64_t{}, column.integer, kSame);
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
  auto write = [&](const auto& from, auto convert) {
    auto writeTo = [&](int64_t i, int64_t at) {
      const auto value = convert(from[i]);
      std::memcpy(data + at * static_cast<int64_t>(sizeof(value)), &value, sizeof(value));
    };
    if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) writeTo(i, i);
    } else {
      for (int64_t i = 0; i < count; ++i) writeTo(i, i * stride);
    }
  };
  constexpr auto kSame = [](auto value) { return value; };
  if (type.isF32()) return write(column.f32, kSame);
  if (type.isF64()) return write(column.f64, kSame);
  if (isNarrowFloat(type)) return write(column.f32, [&](float value) { return narrowed(type, value); });
  switch (elementWidth(type)) {
    case 1:
    case 8:
      return write(column.integer, [](int64_t value) { return static_cast<int8_t>(value); });
    case 16:
      return write(column.integer, [](int64_t value) { return static_cast<int16_t>(value); });
    case 32:
      return write(column.integer, [](int64_t value) { return static_cast<int32_t>(value); });
    default:
      return write(column.integer, kSame);
  }
}

}  // namespace tessera::compiler
