#pragma once

#include <optional>
#include <vector>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Operation.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Operations that become one workload, in program order. Only the values of `results` are read outside.
struct Group {
  std::vector<mlir::Operation*> ops;
  std::vector<mlir::Value> results;
  std::optional<v1::ChainTiling> chain;         ///< several products that run slice by slice (fuse_chains)
  v1::Choice choice = {};                       ///< the choice that led to `chain`
  std::optional<v1::FusionProfit> fusion = {};  ///< several groups that became one
};

/// Cuts `main` into groups, in an order in which they can run.
///
/// A group is a root (contraction, convolution, pooling, reduction, data movement) with the operations that can follow
/// it without another pass over memory: elementwise operations at the same points, a trailing tensor.pad. A transpose
/// that only a product reads, and that the product could not absorb, is a phase of that product. Reductions and the
/// elementwise operations between them over the same rows (softmax, layer normalization) form one group. A producer
/// joins only if it has no other reader, so no work is repeated and groups never depend on each other in a cycle.
/// Linear in operations and operands.
std::vector<Group> formGroups(mlir::func::FuncOp main);

}  // namespace tessera::compiler
