#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/v1/tensor.pb.h"

namespace tessera::compiler::opencl {

/// A value of a body: its type and the expression for it, a name or a literal.
struct Operand {
  v1::DataType dtype = v1::DATA_TYPE_F32;
  std::string text;
};

/// An expression for a scalar operation of a body (compiler/backends/spatial/scalar_operations.h), with the meaning
/// that the simulator's evaluator gives it; every operation but constant, index and load. Empty: the operation is not
/// known.
std::string operationCode(std::string_view name, v1::DataType result, std::span<const Operand> operands);

}  // namespace tessera::compiler::opencl
