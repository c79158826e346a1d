#pragma once

#include <string>

#include "compiler/ptx/plan.h"

namespace tessera::compiler::ptx {

/// The kernel as text of PTX: an entry of that name with the addresses of the result, the first and the second tensor
/// of the operator as parameters, for plan.grid() blocks of plan.threads() threads and plan.sharedBytes() of shared
/// memory.
std::string write(const Plan& plan, const v1::Target& target, const std::string& name);

/// What stands before the kernels of a file.
std::string heading(const v1::Target& target);

}  // namespace tessera::compiler::ptx
