#include "compiler/backends/cpu/tiling/register_pressure.h"

#include "compiler/ir/register_pressure.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler::codegen {
namespace {

bool isConstant(mlir::Value value) { return value.getDefiningOp<mlir::arith::ConstantOp>() != nullptr; }

}  // namespace

int liveVectors(const Nest& nest) {
  LiveValues line;
  // The value that an operand of statement `s` refers to: an earlier statement's result, or itself.
  auto nameOf = [&](int s, mlir::Value value) -> LiveValues::Value {
    for (;;) {
      auto argument = llvm::dyn_cast<mlir::BlockArgument>(value);
      if (!argument || argument.getOwner() != nest.statements[s].body()) break;
      const auto number = argument.getArgNumber();
      if (number >= nest.statements[s].inputs.size() || !nest.statements[s].inputs[number].from) break;
      const RegisterRef from = *nest.statements[s].inputs[number].from;
      s = from.statement;
      value = nest.statements[s].body()->getTerminator()->getOperand(from.output);
    }
    return {s, value.getAsOpaquePointer()};
  };
  for (int s = 0; s < static_cast<int>(nest.statements.size()); ++s)
    for (mlir::Operation& op : nest.statements[s].body()->without_terminator()) {
      if (llvm::isa<mlir::arith::ConstantOp>(op)) continue;
      for (mlir::Value operand : op.getOperands())
        if (!isConstant(operand)) line.use(nameOf(s, operand));
      // Operands are used before results are defined: a result may take the register of an operand that dies here.
      line.next();
      for (mlir::Value result : op.getResults()) line.define(nameOf(s, result));
    }
  // All stores of a point follow its last statement, so stored results stay live until then.
  line.next();
  for (int s = 0; s < static_cast<int>(nest.statements.size()); ++s)
    for (int o = 0; o < static_cast<int>(nest.statements[s].outputs.size()); ++o)
      if (nest.statements[s].stored[o])
        if (mlir::Value result = nest.statements[s].body()->getTerminator()->getOperand(o); !isConstant(result))
          line.use(nameOf(s, result));
  return line.maxLive();
}

}  // namespace tessera::compiler::codegen
