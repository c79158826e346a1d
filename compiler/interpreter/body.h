#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interpreter/rules.h"
#include "mlir/IR/Block.h"

namespace tessera::compiler::interpreter {

/// Look-up of values defined outside of a body: tensors and buffers that it reads element by element, and scalars.
struct Surroundings {
  std::function<const Array*(mlir::Value)> array;
  std::function<const Scalar*(mlir::Value)> scalar;
};

/// The body of a structured operation, translated once and run on up to Lanes::kLanes points at a time.
class Body {
 public:
  /// `sums`: the arguments that a reduction accumulates. Fails with UNIMPLEMENTED naming an operation without a rule.
  static absl::StatusOr<Body> translate(mlir::Block& block, llvm::ArrayRef<mlir::BlockArgument> sums,
                                        const Surroundings& surroundings);

  /// The lanes of a block argument; fill them before run().
  Lanes& argument(unsigned index) { return lanes_[index]; }
  const Lanes& yielded(unsigned index) const { return lanes_[yields_[index]]; }
  /// Whether this result is a sum that still has to be rounded.
  bool isSum(unsigned index) const { return is_sum_[index]; }

  /// `loops`: for each loop the first value and the step from lane to lane. Fails with OUT_OF_RANGE for an access out
  /// of bounds.
  absl::Status run(llvm::ArrayRef<std::pair<int64_t, int64_t>> loops, int count);

  /// Number of operations per point, for budgets.
  int64_t operations() const { return static_cast<int64_t>(instructions_.size()) + 1; }

 private:
  struct Instruction {
    Rule rule = nullptr;
    RuleContext context;
    llvm::SmallVector<int, 4> operands;
    int result = 0;
    int loop = -1;                 // linalg.index
    const Array* array = nullptr;  // tensor.extract
    mlir::Operation* op = nullptr;
  };
  absl::Status add(mlir::Operation* op, const Surroundings& surroundings);
  absl::StatusOr<int> slotOf(mlir::Value value, const Surroundings& surroundings);
  int newSlot(mlir::Value value);
  void markSums(mlir::Block& block, llvm::ArrayRef<mlir::BlockArgument> sums);
  absl::Status extract(const Instruction& instruction, int count);

  llvm::DenseMap<mlir::Value, int> slots_;
  std::vector<Lanes> lanes_;
  std::vector<Instruction> instructions_;
  std::vector<int> yields_;
  std::vector<bool> is_sum_;
};

/// A constant attribute as a scalar; nothing for other attributes.
std::optional<Scalar> scalarOf(mlir::Attribute attribute);

}  // namespace tessera::compiler::interpreter
