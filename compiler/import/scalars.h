#pragma once

#include "compiler/import/element_type.h"
#include "mlir/IR/Builders.h"

namespace tessera::compiler {

/// Relations of a comparison. Floating-point ones are ordered (false for NaN), except kNotEqual.
enum class Relation { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

/// Emits arithmetic on single elements of one ONNX type, for bodies of linalg.generic. MLIR's integers carry no sign,
/// so the ONNX type selects the instruction. Emitted code neither traps nor is undefined, for any operands.
class Scalars {
 public:
  Scalars(mlir::OpBuilder& builder, mlir::Location loc, v1::DataType type) : b(builder), loc(loc), type(type) {}

  Scalars as(v1::DataType other) const { return Scalars(b, loc, other); }
  mlir::Type mlirType() const;

  mlir::Value constant(double value) const;  ///< rounded to the type
  mlir::Value integer(int64_t value) const;  ///< exact; for integer types and bool
  mlir::Value lowest() const;                ///< -infinity, or the least integer
  mlir::Value highest() const;

  mlir::Value add(mlir::Value x, mlir::Value y) const;
  mlir::Value sub(mlir::Value x, mlir::Value y) const;
  mlir::Value mul(mlir::Value x, mlir::Value y) const;
  mlir::Value div(mlir::Value x, mlir::Value y) const;        ///< integers truncate; by 0 gives 0
  mlir::Value remainder(mlir::Value x, mlir::Value y) const;  ///< C's %, fmod: sign of x; by integer 0 gives 0
  mlir::Value floorMod(mlir::Value x, mlir::Value y) const;   ///< Python's %: sign of y
  mlir::Value max(mlir::Value x, mlir::Value y) const;        ///< NaN if either is
  mlir::Value min(mlir::Value x, mlir::Value y) const;
  mlir::Value neg(mlir::Value x) const;
  mlir::Value abs(mlir::Value x) const;
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) const { return add(mul(x, y), z); }

  mlir::Value compare(Relation relation, mlir::Value x, mlir::Value y) const;  ///< an i1
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) const;
  mlir::Value logicalAnd(mlir::Value x, mlir::Value y) const;
  mlir::Value logicalOr(mlir::Value x, mlir::Value y) const;
  mlir::Value logicalXor(mlir::Value x, mlir::Value y) const;
  mlir::Value logicalNot(mlir::Value x) const;

  /// Returns the lowest bits of a byte as an element of less than 8 bits.
  mlir::Value lowBits(mlir::Value x, v1::DataType to) const;

  /// Converts from this type to `to` like ONNX's Cast: toward zero, saturating at the integer's range, NaN to 0.
  mlir::Value cast(mlir::Value x, v1::DataType to) const;

  /// Emits a math dialect operation on floating point; 16-bit types are computed in f32.
  template <typename Op>
  mlir::Value math(mlir::Value x) const {
    return narrowed(Op::create(b, loc, widened(x)));
  }
  template <typename Op>
  mlir::Value math(mlir::Value x, mlir::Value y) const {
    return narrowed(Op::create(b, loc, widened(x), widened(y)));
  }

  mlir::OpBuilder& b;
  mlir::Location loc;
  v1::DataType type;

 private:
  mlir::Value widened(mlir::Value x) const;
  mlir::Value narrowed(mlir::Value x) const;
  mlir::Value floatToInteger(mlir::Value x, v1::DataType to) const;
};

/// Returns MLIR's type of an element inside the module: signless integers, bool as i1.
mlir::Type mlirType(mlir::MLIRContext* context, v1::DataType type);

}  // namespace tessera::compiler
