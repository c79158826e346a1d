#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/codegen/codegen.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen::testing {

struct CheckOptions {
  unsigned seed = 1;
  double low = -1, high = 1;                             ///< range of random floating-point inputs
  int64_t integer_range = 100;                           ///< random integers lie in [-range, range)
  std::function<void(v1::BuildUnit&)> adjust = nullptr;  ///< e.g. another register file
  ScheduleRequest request = {};                          ///< of the default schedule
  std::function<void(v1::Schedule&)> edit = nullptr;     ///< of the default schedule, before it is followed
};

/// Builds the unit as the default schedule says.
absl::StatusOr<v1::BuiltObject> buildByDefault(v1::BuildUnit unit, const ScheduleRequest& request = {});

/// Builds the workload for this machine, runs it on random inputs with its grids cut in several ways, and
/// compares every result with the interpreted workload, within the bounds that its error estimates state
/// (compiler/interpreter/element.h). Operands, workspace and scratch stand between unreadable pages, at either end in
/// turn; arguments are read-only. A result that may be written over an argument is, in two further runs. A kernel that
/// leaves them is named, and the process goes on. Adds GoogleTest failures; returns what was built.
v1::KernelInfo checkWorkload(const std::string& ir, const CheckOptions& options = {});

}  // namespace tessera::compiler::codegen::testing
