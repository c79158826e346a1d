#pragma once

#include <string>

#include "mlir/IR/Builders.h"

namespace tessera::compiler {
struct TileProduct;
}

namespace tessera::compiler::codegen {

/// How the body of a statement sum += x * y is evaluated where an instruction of the target does it for whole vectors,
/// instead of the body's operations one by one (which become multiply-adds). Made by the instruction's takeUp().
class ProductStep {
 public:
  virtual ~ProductStep() = default;
  /// Of the instruction, as the target calls it.
  virtual const std::string& name() const = 0;
  /// Of the vectors that it works on; others are left to the statement's body. 0: it works on none.
  virtual int lanes() const = 0;
  /// The instruction, where it works on whole tiles, which are a kernel's to move; null: on vectors, by emit().
  virtual const TileProduct* tiles() const { return nullptr; }
  /// sum + the products of one step. Values: vectors of lanes() elements as the statement's operands have them.
  virtual mlir::Value emit(mlir::OpBuilder& builder, mlir::Value first, mlir::Value second, mlir::Value sum) const = 0;
};

}  // namespace tessera::compiler::codegen
