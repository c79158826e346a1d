#include "compiler/interpreter/element.h"

#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler::interpreter {

bool isElement(mlir::Type type) {
  if (type.isIndex()) return true;
  if (auto integer = llvm::dyn_cast<mlir::IntegerType>(type)) return integer.getWidth() <= 64;
  return type.isF16() || type.isBF16() || type.isF32() || type.isF64();
}

Element elementOf(mlir::Type type) {
  using Kind = Element::Kind;
  if (type.isIndex()) return {Kind::kInteger, 64};
  if (type.isF16()) return {Kind::kF16, 16};
  if (type.isBF16()) return {Kind::kBF16, 16};
  if (type.isF32()) return {Kind::kF32, 32};
  if (type.isF64()) return {Kind::kF64, 64};
  return {Kind::kInteger, type.getIntOrFloatBitWidth()};
}

const Format& formatOf(Element element) {
  static const Format kHalf{11, -14, 65504}, kBrain{8, -126, 0x1.fep127}, kSingle{24, -126, 0x1.fffffep127},
      kDouble{53, -1022, std::numeric_limits<double>::max()};
  switch (element.kind) {
    case Element::Kind::kF16:
      return kHalf;
    case Element::Kind::kBF16:
      return kBrain;
    case Element::Kind::kF32:
      return kSingle;
    default:
      return kDouble;
  }
}

}  // namespace tessera::compiler::interpreter
