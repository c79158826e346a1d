#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mlir/Dialect/Func/IR/FuncOps.h"

/// An oracle that shares nothing with the compiler: it walks the iteration space of every linalg operation on
/// tensors one point at a time and evaluates the body in double precision (integers in 64 bits, wrapped).
namespace tessera::compiler::codegen::testing {

struct Scalar {
  double real = 0;
  int64_t integer = 0;
};

struct HostTensor {
  std::vector<int64_t> shape;
  mlir::Type element;
  std::vector<Scalar> values;  ///< row-major

  int64_t elements() const { return static_cast<int64_t>(values.size()); }
};

HostTensor makeTensor(mlir::RankedTensorType type);

/// Dense row-major bytes, as operands of kernels are passed, and back.
std::vector<char> toBytes(const HostTensor& tensor);
HostTensor fromBytes(mlir::RankedTensorType type, const char* bytes);

/// Runs the function; aborts on an operation it does not know, so that no test passes by accident.
std::vector<HostTensor> interpret(mlir::func::FuncOp func, const std::vector<HostTensor>& arguments);

}  // namespace tessera::compiler::codegen::testing
