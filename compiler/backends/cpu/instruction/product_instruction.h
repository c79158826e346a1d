#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/backends/cpu/nest.h"
#include "compiler/target/chip.h"
#include "mlir/IR/Builders.h"

/// Instructions of the target that compute steps of products. Without one, bodies become multiply-adds. To add a kind
/// of instruction, add a file to this folder and a row to registry.cpp.
namespace tessera::compiler::codegen {

class ProductInstruction {
 public:
  /// One instruction computes sum[m, n] += first[m, k] * second[k, n].
  struct Iterations {
    int64_t m = 1, n = 1, k = 1;
  };

  virtual ~ProductInstruction() = default;
  /// The target's name for it.
  virtual const std::string& name() const = 0;
  virtual Iterations iterations() const = 0;
  /// Whether code with this instruction is faster than multiply-adds, for a nest that rewriteFor() accepts.
  virtual bool isProfitable(const Nest& /*nest*/) const { return true; }
  /// Rewrites the first statement of `nest`, which must be sum += x * y, so that each of its points is one step of this
  /// instruction. Afterwards the loop mapped to k counts steps; an element of an access function is the group of values
  /// along k that one step reads; the inputs are in the order (first, second); Statement::step is this instruction. The
  /// body computes one step too, for lanes that do not fill a vector. Returns an empty string on success; otherwise the
  /// reason why the nest cannot use the instruction, and leaves the nest unchanged.
  virtual std::string rewriteFor(mlir::OpBuilder& builder, Nest& nest, const Chip& chip) const = 0;
};

using ProductInstructions = std::vector<std::unique_ptr<const ProductInstruction>>;

/// The instructions usable in code for this chip, by kind; within a kind, the one with the most work per instruction
/// first.
std::vector<ProductInstructions> kindsOfProductInstructions(const Chip& chip);

/// The same as one list, in that order.
ProductInstructions productInstructions(const Chip& chip);

}  // namespace tessera::compiler::codegen
