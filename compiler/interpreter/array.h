#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/interpreter/element.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler::interpreter {

using Extents = llvm::SmallVector<int64_t, 6>;

/// Elements as flat arrays: values in double precision or 64-bit integers, and an error estimate for each.
struct Storage {
  Element element;
  std::vector<double> real;      ///< values of floating-point elements, rounded to their type
  std::vector<int64_t> integer;  ///< values of other elements
  std::vector<double> error;     ///< see element.h
  uint64_t hash = 0;             ///< of all three arrays; 0: unknown
};

/// One element. Its type determines which of the two values is valid.
struct Scalar {
  double real = 0;
  int64_t integer = 0;
  double error = 0;
};

/// A tensor, or a view of a buffer: element (i0, i1, ...) is at offset + sum(i_d * strides[d]). Copies share elements;
/// tensors are dense, and elements shared with another tensor are never written.
struct Array {
  std::shared_ptr<Storage> storage;
  int64_t offset = 0;
  Extents shape, strides;

  int64_t elements() const;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  bool isDense() const;  ///< covers all of its storage in row-major order
  Scalar at(int64_t position) const;
  void set(int64_t position, const Scalar& value);
};

/// A dense array of zeros. `poisoned`: of NaN or 0x5a5a5a5a with unknown values.
Array makeArray(Element element, llvm::ArrayRef<int64_t> shape, bool poisoned = false);
Array makeArray(mlir::ShapedType type, bool poisoned = false);
/// The same elements, dense and not shared; returns the argument if it is so already.
Array ownedDense(Array array);
/// The same elements in row-major order in another shape; copies unless dense.
Array reshaped(const Array& array, llvm::ArrayRef<int64_t> shape);
/// A box of the array, as a view.
Array viewOf(const Array& array, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes,
             llvm::ArrayRef<int64_t> strides);
/// to[...] = from[...]; both have the same shape.
void assign(const Array& to, const Array& from);
/// Whether a box is within the array.
bool contains(const Array& array, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes,
              llvm::ArrayRef<int64_t> strides);

/// Conversion to and from dense row-major bytes in buffer format (an i1 takes a byte, an index eight). Error estimates
/// are lost and become 0.
int64_t elementBytes(Element element);
uint64_t bitsOf(Element element, double value);
double realOf(Element element, uint64_t bits);
std::string toBytes(const Array& array);
Array fromBytes(Element element, llvm::ArrayRef<int64_t> shape, std::string_view bytes);

/// Hash of type, shape and content.
uint64_t hashOf(const Array& array);

/// Calls fn with the position in the storage of each element, in row-major order.
template <typename Fn>
void forEachPosition(const Array& array, Fn fn) {
  if (array.elements() == 0) return;
  Extents at(array.rank(), 0);
  int64_t position = array.offset;
  const int64_t last = array.rank() - 1;
  while (true) {
    if (last < 0) return fn(position);
    for (int64_t i = 0; i < array.shape[last]; ++i) fn(position + i * array.strides[last]);
    int64_t d = last - 1;
    for (; d >= 0; --d) {
      position += array.strides[d];
      if (++at[d] < array.shape[d]) break;
      position -= array.strides[d] * array.shape[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace tessera::compiler::interpreter
