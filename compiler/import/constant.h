#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/element_type.h"

namespace onnx {
class TensorProto;
}

namespace tessera::compiler {

class ExternalData;

/// A tensor whose elements are known at import: dense, row-major, little-endian; bool is one byte.
struct Constant {
  v1::DataType dtype;
  Shape shape;
  std::string_view bytes;
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive

  int64_t elements() const { return elementCount(shape); }

  /// Returns element `index`, converted: exact for integers and bool, truncated for floating point, the bits of a
  /// narrow float (element_type.h). Requires index < elements().
  int64_t integerAt(int64_t index) const;
  /// Returns element `index`, converted; exact for every floating-point type.
  double realAt(int64_t index) const;

  /// Returns all elements, converted as above.
  std::vector<int64_t> integers() const;
  std::vector<double> reals() const;
};

using ConstantPtr = std::shared_ptr<const Constant>;

/// Returns a constant that owns a copy of `bytes`.
ConstantPtr makeConstant(v1::DataType dtype, Shape shape, std::string bytes);
ConstantPtr integerConstant(const std::vector<int64_t>& values);  ///< i64, rank 1
ConstantPtr realConstant(v1::DataType dtype, Shape shape, const std::vector<double>& values);

/// Returns the same elements in another shape of equal element count; bytes are shared.
ConstantPtr reshaped(const ConstantPtr& constant, Shape shape);

/// Returns the elements with coordinates within `shape`, which must be within the constant's own shape.
ConstantPtr leadingPart(const ConstantPtr& constant, const Shape& shape);

/// Checks and reads a tensor of the model. Its lengths must agree with its shape exactly. `keep_alive` owns the
/// message, because raw_data and external data are viewed, not copied.
absl::StatusOr<ConstantPtr> readTensor(const onnx::TensorProto& proto, const std::shared_ptr<const void>& keep_alive,
                                       ExternalData& external);

}  // namespace tessera::compiler
