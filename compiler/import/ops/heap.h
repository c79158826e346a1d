#pragma once

#include <functional>
#include <utility>

#include "compiler/import/node.h"

namespace tessera::compiler {

/// Emits a binary heap of elements with their indices, in two tensors: values, and i64 indices that order equal values.
/// The first element in the heap's order is at slot 0; the children of slot p are at 2 p + 1 and 2 p + 2. (J. W. J.
/// Williams, "Algorithm 232: Heapsort", 1964.) NaN is greater than everything, as in NumPy's order.
class Heap {
 public:
  struct Order {
    bool greatest = true;      ///< the greatest value is first; otherwise the least
    bool later_first = false;  ///< among equal values the greater index is first
  };
  struct Element {
    mlir::Value value, index;  ///< `index`: of the element in the tensor, an i64
  };
  /// The state of both tensors.
  using Slots = std::pair<mlir::Value, mlir::Value>;
  /// Returns the coordinates of a slot, of index type, in both tensors.
  using Coordinates = std::function<llvm::SmallVector<mlir::Value>(mlir::Value slot)>;

  /// `capacity`: the number of slots, at least one.
  Heap(Emitter& emitter, v1::DataType type, int64_t capacity, Order order, Coordinates coordinates)
      : e_(emitter), type_(type), capacity_(capacity), order_(order), coordinates_(std::move(coordinates)) {}

  Element at(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot) const;
  Slots put(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot, Element element) const;

  /// Inserts an element at an empty slot whose children are heaps, moving elements that come before it up. `size` slots
  /// are occupied (index type). Changes nothing if `happens` (i1) is false.
  Slots sift(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot, Element element, mlir::Value size,
             mlir::Value happens) const;
  /// Replaces the root by an element if the root comes before it. Among equal values the earlier one stays.
  Slots offer(mlir::OpBuilder& b, mlir::Location loc, Slots slots, Element element, mlir::Value size) const;
  /// Makes a heap of the first `size` slots, which may be 0.
  Slots build(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value size) const;
  /// Sorts the first `size` slots of a heap in reverse heap order.
  Slots sort(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value size) const;

 private:
  /// Like sift(), for an empty slot with fewer than `steps` levels below it.
  Slots siftDown(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot, Element element,
                 mlir::Value size, mlir::Value steps) const;
  int64_t height() const;
  /// x < y (i1), with NaN as the greatest value, so that the order is total.
  mlir::Value less(const Scalars& s, mlir::Value x, mlir::Value y) const;
  /// Whether x precedes y in the heap's order (i1): by value, then by index.
  mlir::Value comesBefore(const Scalars& s, Element x, Element y) const;

  Emitter& e_;
  const v1::DataType type_;
  const int64_t capacity_;
  const Order order_;
  const Coordinates coordinates_;
};

}  // namespace tessera::compiler
