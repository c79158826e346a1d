#include "compiler/graph/analysis/element_type.h"

#include "mlir/IR/BuiltinTypes.h"

namespace tessera::compiler {

v1::DataType dataTypeOf(mlir::Type type) {
  if (type.isF32()) return v1::DATA_TYPE_F32;
  if (type.isF64()) return v1::DATA_TYPE_F64;
  if (type.isF16()) return v1::DATA_TYPE_F16;
  if (type.isBF16()) return v1::DATA_TYPE_BF16;
  if (type.isIndex()) return v1::DATA_TYPE_I64;
  if (auto integer = mlir::dyn_cast<mlir::IntegerType>(type)) {
    const bool is_unsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
      case 1:
        return v1::DATA_TYPE_BOOL;
      case 8:
        return is_unsigned ? v1::DATA_TYPE_U8 : v1::DATA_TYPE_I8;
      case 16:
        return is_unsigned ? v1::DATA_TYPE_U16 : v1::DATA_TYPE_I16;
      case 32:
        return is_unsigned ? v1::DATA_TYPE_U32 : v1::DATA_TYPE_I32;
      case 64:
        return is_unsigned ? v1::DATA_TYPE_U64 : v1::DATA_TYPE_I64;
      default:
        break;
    }
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

int64_t bytesPerElement(mlir::Type element) {
  return element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

int64_t tensorBytes(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tensor ? tensor.getNumElements() * bytesPerElement(tensor.getElementType()) : 0;
}

v1::TensorSpec specOf(const std::string& name, mlir::Type type) {
  v1::TensorSpec spec;
  spec.set_name(name);
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  spec.set_dtype(dataTypeOf(tensor.getElementType()));
  for (int64_t extent : tensor.getShape()) spec.add_shape(extent);
  return spec;
}

}  // namespace tessera::compiler
