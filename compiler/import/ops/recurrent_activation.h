#pragma once

#include <functional>

#include "compiler/import/node.h"

namespace tessera::compiler {

/// A function of one element that recurrent cells apply to a gate.
using Activation = std::function<mlir::Value(const Scalars& s, mlir::Value x)>;

/// Returns the functions named by the attribute `activations`, or `defaults` for each direction: one per gate function
/// and direction, direction by direction. Functions with parameters take them in order from `activation_alpha` and
/// `activation_beta`. The attribute `clip` bounds their operands.
absl::StatusOr<std::vector<Activation>> readActivations(Node& n, const std::vector<std::string>& defaults,
                                                        int64_t directions);

}  // namespace tessera::compiler
