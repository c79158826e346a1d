#pragma once

#include <vector>

#include "mlir/IR/Value.h"

namespace tessera::compiler::codegen {

/// A buffer of a workspace or scratch and the steps from its first use to its last.
struct Lifetime {
  mlir::Value buffer;
  int64_t bytes = 0;  ///< a multiple of 64
  int first = 0, last = -1;
  int number = 0;  ///< breaks ties between buffers of one size
  int64_t offset = 0;
};

/// Gives buffers that are in use at the same time separate places, largest first, each at the lowest offset that is
/// free during its life. Returns the bytes of all; buffers never used (last < first) are dropped.
int64_t placeByLifetime(std::vector<Lifetime>& lifetimes);

}  // namespace tessera::compiler::codegen
