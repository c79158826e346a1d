#pragma once

#include <string>

#include "compiler/backends/ptx/plan.h"

namespace tessera::compiler::ptx {

/// The kernel as PTX text: an entry point of this name whose parameters are the addresses of the result and of the
/// first and second tensor of the operator, for plan.grid() blocks of plan.threads() threads and plan.sharedBytes() of
/// shared memory.
std::string write(const Plan& plan, const v1::Target& target, const std::string& name);

/// The text before the kernels of a file.
std::string heading(const v1::Target& target);

}  // namespace tessera::compiler::ptx
