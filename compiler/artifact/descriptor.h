#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Emits the tables of compiler/runtime/module_abi.h for a plan as a relocatable object that defines
/// `tessera_module_v1` and refers to the kernels' functions. `kernels[i]` belongs to plan.workloads[i]. Deterministic.
/// Fails with INTERNAL when an index in the plan is out of range or LLVM lacks the target.
absl::StatusOr<std::string> emitDescriptor(const v1::Plan& plan, const std::vector<const v1::KernelInfo*>& kernels);

/// Features that a host must have, sorted and unique: the same list in target.txt and in the tables.
std::vector<std::string> requiredFeatures(const v1::CodeForm& code);

}  // namespace tessera::compiler
