#pragma once

#include <cstdint>
#include <optional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Types.h"

/// Arithmetic on single elements as MLIR's arith and math dialects define it, for evaluation at compile time. Floats of
/// up to 32 bits are held as float and rounded to their type; integers are sign-extended, i1 is 0 or 1.
namespace tessera::compiler {

bool isNarrowFloat(mlir::Type type);  ///< f16, bf16
/// Whether elements of `type` are supported: floats up to 64 bits, integers of 1, 8, 16, 32 and 64 bits, index.
bool isElementSupported(mlir::Type type);
unsigned elementWidth(mlir::Type type);  ///< bits; 64 for an index

/// Returns the value of an f16 or bf16 with these bits.
float widened(mlir::Type type, uint16_t bits);
/// Returns the bits of the nearest f16 or bf16, ties to even.
uint16_t narrowed(mlir::Type type, float value);
float roundTo(mlir::Type type, float value);
int64_t wrapTo(mlir::Type type, int64_t value);
uint64_t zeroExtended(mlir::Type type, int64_t value);
int64_t floatToInteger(double value);  ///< saturates, where MLIR defines poison

/// A rule evaluates `count` elements per call, so that looking up an operation is cheap against millions of elements.
struct FloatUnaryRule {
  const char* name;
  void (*f32)(const float* a, float* result, int64_t count);
  void (*f64)(const double* a, double* result, int64_t count);
};
struct FloatBinaryRule {
  const char* name;
  void (*f32)(const float* a, const float* b, float* result, int64_t count);
  void (*f64)(const double* a, const double* b, double* result, int64_t count);
};
struct IntegerBinaryRule {
  const char* name;
  bool is_unsigned;  ///< operands are zero-extended first
  int64_t (*apply)(int64_t, int64_t);
};

/// Returns the rule for an operation by its full name ("arith.addf"), or null.
const FloatUnaryRule* findFloatUnary(llvm::StringRef name);
const FloatBinaryRule* findFloatBinary(llvm::StringRef name);
const IntegerBinaryRule* findIntegerBinary(llvm::StringRef name);

bool compareFloats(mlir::arith::CmpFPredicate predicate, double a, double b);
bool compareIntegers(mlir::arith::CmpIPredicate predicate, mlir::Type type, int64_t a, int64_t b);

}  // namespace tessera::compiler
