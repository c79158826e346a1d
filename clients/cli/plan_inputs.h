#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/local_run.h"
#include "clients/cli/npy.h"
#include "tessera/v1/plan.pb.h"

struct tessera_module;

/// Inputs of programs that are run from their plan, without the C interface: on the simulator and on OpenCL devices.
namespace tessera::client {

/// Selects the variant of a plan with `variants` variants, as selectVariant(). `module` has the plan's tables.
absl::StatusOr<size_t> selectVariantOf(const v1::Plan& plan, const tessera_module& module, size_t variants,
                                       const RunInputs& from, const std::map<std::string, Tensor>& given);

/// All inputs of a variant: given, known from compiling, or generated. Errors as checkInputs().
absl::StatusOr<std::map<std::string, Tensor>> completedInputs(const RunInputs& from, const v1::Plan& variant,
                                                              std::map<std::string, Tensor> given);

}  // namespace tessera::client
