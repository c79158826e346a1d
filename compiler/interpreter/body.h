#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interpreter/rules.h"
#include "mlir/IR/Block.h"

namespace tessera::compiler::interpreter {

/// Gives what lies outside of a body: tensors and buffers that it reads element by element, and scalars.
struct Surroundings {
  std::function<const Array*(mlir::Value)> array;
  std::function<const Scalar*(mlir::Value)> scalar;
};

/// The body of a structured operation, translated once and run on up to Lanes::kLanes points at a time.
class Body {
 public:
  /// `sums` are the arguments that a reduction adds up. Fails with UNIMPLEMENTED naming an operation that has no rule.
  static absl::StatusOr<Body> translate(mlir::Block& block, llvm::ArrayRef<mlir::BlockArgument> sums,
                                        const Surroundings& surroundings);

  /// The lanes of a block argument, to be filled before run().
  Lanes& argument(unsigned index) { return lanes_[index]; }
  const Lanes& yielded(unsigned index) const { return lanes_[yields_[index]]; }
  /// Whether this result is a sum that is still to be rounded.
  bool isSum(unsigned index) const { return is_sum_[index]; }

  /// `loops`: the first value and the step from lane to lane of each loop. Fails with OUT_OF_RANGE where an element is
  /// read that is not there.
  absl::Status run(llvm::ArrayRef<std::pair<int64_t, int64_t>> loops, int count);

  /// Operations of one point, for budgets.
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

/// A constant attribute as a scalar; nothing for what is none.
std::optional<Scalar> scalarOf(mlir::Attribute attribute);

}  // namespace tessera::compiler::interpreter
