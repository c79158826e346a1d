#include "compiler/graph/analysis/plain_pad.h"

#include "mlir/IR/Matchers.h"

namespace tessera::compiler {

bool isConstantPad(mlir::tensor::PadOp pad) {
  auto negative = [](int64_t amount) { return amount < 0; };
  mlir::Value with = pad.getConstantPaddingValue();
  return pad.getLow().empty() && pad.getHigh().empty() && !pad.getNofold() && with &&
         mlir::matchPattern(with, mlir::m_Constant()) && llvm::none_of(pad.getStaticLow(), negative) &&
         llvm::none_of(pad.getStaticHigh(), negative);
}

}  // namespace tessera::compiler
