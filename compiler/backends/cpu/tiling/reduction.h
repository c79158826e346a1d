#pragma once

#include "compiler/backends/cpu/nest.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace tessera::compiler::codegen {

/// The operation by which an output of a reduction accumulates, if its body is combine(acc, f(inputs)).
struct Combiner {
  mlir::Operation* op = nullptr;  ///< in the body; its operands are the accumulator and a term free of it
  mlir::vector::CombiningKind kind{};
  mlir::TypedAttr neutral;  ///< combine(neutral, x) = x
};

/// The combiner of output `output` of `statement`, or nothing if the body has another form.
std::optional<Combiner> combinerOf(const Statement& statement, int output);

/// Whether output `output` of a reduction is written at every step, to another place each time, and never read: for
/// example the exponentials of a softmax, which are stored while they are summed.
bool isStreamed(const Nest& nest, int output);

/// Whether partial results of the lanes can be combined at the end: every output that is not streamed has a combiner.
bool canCombineLanes(const Nest& nest);

}  // namespace tessera::compiler::codegen
