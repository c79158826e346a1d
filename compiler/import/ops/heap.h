#pragma once

#include <functional>
#include <utility>

#include "compiler/import/node.h"

namespace tessera::compiler {

/// Emits a binary heap of elements with their places, in two tensors: values, and i64 places that tell equal values
/// apart. Whoever is first in the heap's order is at slot 0, the children of slot p are at 2 p + 1 and 2 p + 2.
/// (J. W. J. Williams, "Algorithm 232: Heapsort", 1964.) NaN counts as greater than everything, as in NumPy's order.
class Heap {
 public:
  struct Order {
    bool greatest = true;      ///< the greatest value is first; else the least
    bool later_first = false;  ///< of equal values the one at the later place
  };
  struct Element {
    mlir::Value value, place;
  };
  /// The state of both tensors.
  using Slots = std::pair<mlir::Value, mlir::Value>;
  /// Coordinates of a slot, of index type, in both tensors.
  using Coordinates = std::function<llvm::SmallVector<mlir::Value>(mlir::Value slot)>;

  /// `capacity`: slots that there are, at least one.
  Heap(Emitter& emitter, v1::DataType type, int64_t capacity, Order order, Coordinates coordinates)
      : e_(emitter), type_(type), capacity_(capacity), order_(order), coordinates_(std::move(coordinates)) {}

  Element at(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot) const;
  Slots put(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot, Element element) const;

  /// Puts an element into an empty slot whose children are heaps, or below it, moving up what comes before it. `size`
  /// slots are taken (index type). Where `happens` (i1) is false nothing changes.
  Slots sift(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot, Element element, mlir::Value size,
             mlir::Value happens) const;
  /// Puts an element in the root's place if the root comes before it; of equal values the one offered first stays.
  Slots offer(mlir::OpBuilder& b, mlir::Location loc, Slots slots, Element element, mlir::Value size) const;
  /// Makes a heap of the first `size` slots; of none where that is 0.
  Slots build(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value size) const;
  /// Orders the first `size` slots of a heap, the first in its order last.
  Slots sort(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value size) const;

 private:
  /// The same for an empty slot with fewer than `steps` levels below it.
  Slots siftDown(mlir::OpBuilder& b, mlir::Location loc, Slots slots, mlir::Value slot, Element element,
                 mlir::Value size, mlir::Value steps) const;
  int64_t height() const;
  mlir::Value less(const Scalars& s, mlir::Value x, mlir::Value y) const;
  mlir::Value comesBefore(const Scalars& s, Element x, Element y) const;

  Emitter& e_;
  const v1::DataType type_;
  const int64_t capacity_;
  const Order order_;
  const Coordinates coordinates_;
};

}  // namespace tessera::compiler
