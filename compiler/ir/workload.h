#pragma once

#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera::compiler {

/// Attribute of a result of a workload's function: the position of the argument whose memory the result may share. Code
/// then writes an element of the result only after the last read of that element of the argument.
constexpr char kMayAlias[] = "tessera.written_over";
/// Attribute of a product of 8-bit integers: nearly all neighbouring pairs in its constant operand are narrow enough
/// for an instruction that adds pairs in 16 bits (target/dot_product.h). It affects cost, never results.
constexpr char kNarrowPairs[] = "tessera.narrow_pairs";

/// A workload's identity: equal computations on equal shapes have equal text, in whichever model they occur.
struct CanonicalWorkload {
  std::string ir;      ///< one function named @w, without locations; discardable attributes are those above only
  std::string hash;    ///< SHA-256 of `ir`, 64 lower-case hexadecimal digits
  std::string symbol;  ///< "w_" and the first 16 digits of the hash
};

/// Brings a detached function into canonical form, in place, and names it.
///
/// Arguments must be in the order of their first use. That order is the workload's signature; canonicalization does not
/// change it. The function must not refer to symbols outside itself.
CanonicalWorkload canonicalizeWorkload(mlir::func::FuncOp function);

}  // namespace tessera::compiler
