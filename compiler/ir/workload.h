#pragma once

#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace tessera::compiler {

/// A workload's identity: equal computations on equal shapes have equal text, whatever model they come from.
struct CanonicalWorkload {
  std::string ir;      ///< one function named @w, no locations, no discardable attributes
  std::string hash;    ///< SHA-256 of `ir`, 64 lower-case hexadecimal digits
  std::string symbol;  ///< "w_" and the first 16 digits of the hash
};

/// Brings a detached function into canonical form, in place, and names it.
///
/// Arguments must already be in the order of their first use: that order is the workload's signature and
/// canonicalization does not change it. The function must not refer to symbols outside itself.
CanonicalWorkload canonicalizeWorkload(mlir::func::FuncOp function);

}  // namespace tessera::compiler
