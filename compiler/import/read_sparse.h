#pragma once

#include "compiler/import/constant.h"

namespace onnx {
class SparseTensorProto;
}

namespace tessera::compiler {

/// The dense tensor that a sparse one stands for: its values at its indices (places in row-major order, or
/// coordinates), zeros elsewhere. Read and checked as readTensor() does; places must ascend, as ONNX wants them. What
/// it takes is added to `dense_bytes`, that of all sparse tensors of the model: few bytes of it claim many, so there is
/// a limit of their own.
absl::StatusOr<ConstantPtr> readSparseTensor(const onnx::SparseTensorProto& proto,
                                             const std::shared_ptr<const void>& keep_alive, ExternalData& external,
                                             int64_t& dense_bytes);

}  // namespace tessera::compiler
