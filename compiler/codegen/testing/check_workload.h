#pragma once

#include <functional>
#include <string>

#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen::testing {

struct CheckOptions {
  unsigned seed = 1;
  double low = -1, high = 1;                             ///< range of random floating-point inputs
  int64_t integer_range = 100;                           ///< random integers lie in [-range, range)
  double tolerance = 2e-5;                               ///< relative to the largest magnitude of the reference result
  std::function<void(v1::BuildUnit&)> adjust = nullptr;  ///< e.g. another schedule or register file
};

/// Builds the workload for this machine, runs it on random inputs with its grids cut in several ways, and
/// compares every result with the reference interpreter. Operands, workspace and scratch stand between unreadable
/// pages, at either end in turn; arguments are read-only. A kernel that leaves them is named, and the process goes on.
/// Adds GoogleTest failures; returns what was built.
v1::KernelInfo checkWorkload(const std::string& ir, const CheckOptions& options = {});

}  // namespace tessera::compiler::codegen::testing
