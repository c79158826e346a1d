#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/nest.h"
#include "compiler/target/chip.h"
#include "mlir/IR/Builders.h"

/// Instructions of the target that compute steps of products: the multiply-add is what bodies become where there is no
/// other. A kind of instructions is a file of this room and a row of registry.cpp.
namespace tessera::compiler::codegen {

class ProductInstruction {
 public:
  /// sum[m, n] += first[m, k] * second[k, n]: what one instruction does.
  struct Iterations {
    int64_t m = 1, n = 1, k = 1;
  };

  virtual ~ProductInstruction() = default;
  /// As the target calls it.
  virtual const std::string& name() const = 0;
  virtual Iterations iterations() const = 0;
  /// Whether a nest is to use it where analysis decides, should takeUp() let it.
  virtual bool pays(const Nest& /*nest*/) const { return true; }
  /// Turns the first statement of a nest sum += x * y to steps of this instruction: the loop that becomes k counts
  /// steps, and so do access functions, whose elements are what one step takes (operands interleaved along k);
  /// Statement::step is set, operands stand in the instruction's order, and the body computes one step for lanes that
  /// are no whole vector. Why not, or empty: the nest is changed then. Nothing is changed otherwise.
  virtual std::string takeUp(mlir::OpBuilder& builder, Nest& nest, const Chip& chip) const = 0;
};

using ProductInstructions = std::vector<std::unique_ptr<const ProductInstruction>>;

/// Those that code for this chip can be made of, each kind by itself, of each the one that does most first.
std::vector<ProductInstructions> kindsOfProductInstructions(const Chip& chip);

/// The same in one list, in that order.
ProductInstructions productInstructions(const Chip& chip);

}  // namespace tessera::compiler::codegen
