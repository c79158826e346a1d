#pragma once

#include <functional>

#include "compiler/import/node.h"

namespace tessera::compiler {

/// A function of one element, as recurrent cells apply it to a gate.
using Activation = std::function<mlir::Value(const Scalars& s, mlir::Value x)>;

/// The functions named by the attribute `activations`, `defaults` for each direction when it is absent.
/// Those with parameters take them in order from `activation_alpha` and `activation_beta`. The attribute `clip`
/// bounds what each of them is applied to. One per gate function and direction, direction by direction.
absl::StatusOr<std::vector<Activation>> readActivations(Node& n, const std::vector<std::string>& defaults,
                                                        int64_t directions);

}  // namespace tessera::compiler
