#include "compiler/backends/cpu/emit/strided_load.h"

#include <algorithm>

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {

mlir::Value loadStrided(mlir::OpBuilder& builder, int64_t stride, int lanes, int active,
                        const std::function<mlir::Value(int64_t offset, int count)>& load) {
  const mlir::Location loc = builder.getUnknownLoc();
  const int64_t elements = (active - 1) * stride + 1;
  mlir::Value result;
  int done = 0;  // lanes of the result that hold their element
  for (int64_t begin = 0; done < active; begin += lanes) {
    // The last vector ends with the last element used.
    const int64_t from = elements > lanes ? std::min(begin, elements - lanes) : 0;
    mlir::Value next = load(from, static_cast<int>(std::min<int64_t>(lanes, elements - from)));
    llvm::SmallVector<int64_t> picked;
    const int before = done;
    for (int lane = 0; lane < lanes; ++lane) {
      const int64_t element = lane < active ? lane * stride : 0;
      const bool here = element >= from && element < from + lanes;
      if (lane < before) {
        picked.push_back(lane);
      } else if (here) {
        picked.push_back((result ? lanes : 0) + element - from);
        if (lane < active) done = lane + 1;
      } else {
        picked.push_back(0);  // an inactive lane, or one that a later vector fills
      }
    }
    result = mlir::vector::ShuffleOp::create(builder, loc, result ? result : next, next, picked);
  }
  return result;
}

}  // namespace tessera::compiler::codegen
