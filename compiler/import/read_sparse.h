#pragma once

#include "compiler/import/constant.h"

namespace onnx {
class SparseTensorProto;
}

namespace tessera::compiler {

/// Expands a sparse tensor: its values at its indices (row-major positions, or coordinates), zeros elsewhere. Read and
/// checked as by readTensor(); indices must ascend, as ONNX requires. Adds the size to `dense_bytes`, the total of all
/// sparse tensors of the model, which has a limit because few bytes of a file can claim a large tensor.
absl::StatusOr<ConstantPtr> readSparseTensor(const onnx::SparseTensorProto& proto,
                                             const std::shared_ptr<const void>& keep_alive, ExternalData& external,
                                             int64_t& dense_bytes);

}  // namespace tessera::compiler
