#pragma once

#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera::compiler {

/// On a result of a workload's function: the position of the argument whose memory it may be given as well. Whatever
/// runs the workload then writes an element of the result only where that argument's is not read any more.
constexpr char kWrittenOver[] = "tessera.written_over";
/// On a product of integers of 8 bits: nearly all pairs of neighbours in its constant operand are as narrow as an
/// instruction takes that adds up pairs in 16 bits (target/dot_product.h). It says what pays; results do not depend on
/// it.
constexpr char kNarrowPairs[] = "tessera.narrow_pairs";

/// A workload's identity: equal computations on equal shapes have equal text, whatever model they come from.
struct CanonicalWorkload {
  std::string ir;      ///< one function named @w, no locations, no discardable attributes but these
  std::string hash;    ///< SHA-256 of `ir`, 64 lower-case hexadecimal digits
  std::string symbol;  ///< "w_" and the first 16 digits of the hash
};

/// Brings a detached function into canonical form, in place, and names it.
///
/// Arguments must already be in the order of their first use: that order is the workload's signature and
/// canonicalization does not change it. The function must not refer to symbols outside itself.
CanonicalWorkload canonicalizeWorkload(mlir::func::FuncOp function);

}  // namespace tessera::compiler
