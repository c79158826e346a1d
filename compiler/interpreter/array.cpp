#include "compiler/interpreter/array.h"

#include <cstring>

#include "llvm/ADT/APFloat.h"

namespace tessera::compiler::interpreter {
namespace {

constexpr int64_t kPoisonInteger = 0x5a5a5a5a;

Extents rowMajor(llvm::ArrayRef<int64_t> shape) {
  Extents strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

const llvm::fltSemantics& semanticsOf(Element element) {
  return element.kind == Element::Kind::kF16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
}

uint64_t mixWord(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace

int64_t Array::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

bool Array::isDense() const {
  return offset == 0 && strides == rowMajor(shape) && elements() == static_cast<int64_t>(storage->error.size());
}

Scalar Array::at(int64_t position) const {
  if (storage->element.isReal()) return {storage->real[position], 0, storage->error[position]};
  return {0, storage->integer[position], storage->error[position]};
}

void Array::set(int64_t position, const Scalar& value) {
  if (storage->element.isReal()) {
    storage->real[position] = value.real;
  } else {
    storage->integer[position] = value.integer;
  }
  storage->error[position] = value.error;
  storage->hash = 0;
}

Array makeArray(Element element, llvm::ArrayRef<int64_t> shape, bool poisoned) {
  Array array{std::make_shared<Storage>(), 0, Extents(shape), rowMajor(shape)};
  const int64_t count = array.elements();
  array.storage->element = element;
  if (element.isReal()) {
    array.storage->real.assign(count, poisoned ? std::numeric_limits<double>::quiet_NaN() : 0);
  } else {
    array.storage->integer.assign(count, poisoned ? wrapTo(element.bits, kPoisonInteger) : 0);
  }
  array.storage->error.assign(count, poisoned ? kUnknownError : 0);
  return array;
}

Array makeArray(mlir::ShapedType type, bool poisoned) {
  return makeArray(elementOf(type.getElementType()), type.getShape(), poisoned);
}

Array ownedDense(Array array) {
  // The only owner may change the elements, so the cached hash becomes invalid.
  if (array.storage.use_count() == 1 && array.isDense()) {
    array.storage->hash = 0;
    return array;
  }
  Array copy{std::make_shared<Storage>(), 0, array.shape, rowMajor(array.shape)};
  if (array.isDense()) {
    *copy.storage = *array.storage;
    copy.storage->hash = 0;
    return copy;
  }
  copy = makeArray(array.storage->element, array.shape);
  assign(copy, array);
  return copy;
}

Array reshaped(const Array& array, llvm::ArrayRef<int64_t> shape) {
  Array result = array.isDense() ? array : ownedDense(array);
  result.shape.assign(shape.begin(), shape.end());
  result.strides = rowMajor(shape);
  return result;
}

Array viewOf(const Array& array, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes,
             llvm::ArrayRef<int64_t> strides) {
  Array view{array.storage, array.offset, Extents(sizes), {}};
  for (size_t d = 0; d < sizes.size(); ++d) {
    view.offset += offsets[d] * array.strides[d];
    view.strides.push_back(strides[d] * array.strides[d]);
  }
  return view;
}

bool contains(const Array& array, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes,
              llvm::ArrayRef<int64_t> strides) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) continue;
    const int64_t last = offsets[d] + (sizes[d] - 1) * strides[d];
    if (std::min(offsets[d], last) < 0 || std::max(offsets[d], last) >= array.shape[d]) return false;
  }
  return true;
}

void assign(const Array& to, const Array& from) {
  // Two arrays of one shape and different strides: pairs the positions in row-major order.
  std::vector<int64_t> targets;
  targets.reserve(to.elements());
  forEachPosition(to, [&](int64_t position) { targets.push_back(position); });
  size_t next = 0;
  const bool real = to.storage->element.isReal();
  forEachPosition(from, [&](int64_t position) {
    const int64_t target = targets[next++];
    if (real) {
      to.storage->real[target] = from.storage->real[position];
    } else {
      to.storage->integer[target] = from.storage->integer[position];
    }
    to.storage->error[target] = from.storage->error[position];
  });
  to.storage->hash = 0;
}

uint64_t bitsOf(Element element, double value) {
  if (element.kind == Element::Kind::kF64) return std::bit_cast<uint64_t>(value);
  if (element.kind == Element::Kind::kF32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  // Rounds to the 16-bit format, which the host has no type for.
  llvm::APFloat narrow(value);
  bool lost = false;
  narrow.convert(semanticsOf(element), llvm::APFloat::rmNearestTiesToEven, &lost);
  return narrow.bitcastToAPInt().getZExtValue();
}

double realOf(Element element, uint64_t bits) {
  if (element.kind == Element::Kind::kF64) return std::bit_cast<double>(bits);
  if (element.kind == Element::Kind::kF32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return llvm::APFloat(semanticsOf(element), llvm::APInt(16, bits)).convertToDouble();
}

int64_t elementBytes(Element element) { return element.bits < 8 ? 1 : element.bits / 8; }

std::string toBytes(const Array& array) {
  const Element element = array.storage->element;
  const int64_t width = elementBytes(element);
  std::string bytes(array.elements() * width, '\0');
  char* to = bytes.data();
  forEachPosition(array, [&](int64_t position) {
    const uint64_t raw = element.isReal() ? bitsOf(element, array.storage->real[position])
                                          : static_cast<uint64_t>(array.storage->integer[position]);
    std::memcpy(to, &raw, width);  // little-endian
    to += width;
  });
  return bytes;
}

Array fromBytes(Element element, llvm::ArrayRef<int64_t> shape, std::string_view bytes) {
  Array array = makeArray(element, shape);
  const int64_t width = elementBytes(element);
  const int64_t count = array.elements();
  for (int64_t i = 0; i < count; ++i) {
    uint64_t raw = 0;
    std::memcpy(&raw, bytes.data() + i * width, width);
    if (!element.isReal()) {
      array.storage->integer[i] = wrapTo(element.bits, static_cast<int64_t>(raw));
    } else {
      array.storage->real[i] = realOf(element, raw);
    }
  }
  return array;
}

uint64_t hashOf(const Array& array) {
  Array dense = array.isDense() ? array : ownedDense(array);
  Storage& storage = *dense.storage;
  if (storage.hash == 0) {
    uint64_t hash = static_cast<uint64_t>(storage.element.kind) * 131 + storage.element.bits;
    for (double value : storage.real) hash = mixWord(hash, std::bit_cast<uint64_t>(value));
    for (int64_t value : storage.integer) hash = mixWord(hash, static_cast<uint64_t>(value));
    for (double value : storage.error) hash = mixWord(hash, std::bit_cast<uint64_t>(value));
    // 0 means that no hash is cached.
    storage.hash = hash | 1;
  }
  uint64_t hash = storage.hash;
  for (int64_t extent : array.shape) hash = mixWord(hash, static_cast<uint64_t>(extent));
  return hash;
}

}  // namespace tessera::compiler::interpreter
