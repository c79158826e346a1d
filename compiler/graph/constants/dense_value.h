#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

/// A dense row-major tensor known at compile time. Copies share the bytes.
struct DenseValue {
  llvm::SmallVector<int64_t> shape;
  int64_t width = 0;  ///< bytes of one element; i1 takes one byte, index eight
  const char* data = nullptr;
  std::shared_ptr<const void> owner;

  int64_t elements() const;
  int64_t bytes() const { return elements() * width; }
};

/// Bytes of one element as DenseValue stores it; 0 for types it cannot hold.
int64_t denseWidth(mlir::Type element);

/// Values of at least this size have memory pages of their own, which are unmapped with the value.
inline constexpr int64_t kMappedBytes = int64_t{1} << 20;

/// Returns the bytes of such values that are in memory now, in this process.
int64_t denseBytesInMemory();

/// Returns a zeroed value; `*writable` points at its bytes.
DenseValue makeDense(llvm::ArrayRef<int64_t> shape, int64_t width, char** writable);

/// One operand of a loop nest over memory: element (i0, i1, ...) is at offset + sum(i_d * strides[d]).
struct StridedAccess {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;  ///< in elements, one per loop
};

/// Row-major strides of a shape, in elements.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Returns the loop with the largest stride among those whose iterations write disjoint elements, so that threads can
/// share its iterations. -1 if there is none. `strides` are those of the written operand.
int parallelLoop(llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> strides);

/// Copies elements over a loop nest: to[...] = from[...]. Transposes run in tiles, large copies on all cores.
void copyStrided(llvm::ArrayRef<int64_t> extents, int64_t width, const char* from, const StridedAccess& read, char* to,
                 const StridedAccess& write);

}  // namespace tessera::compiler
