#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/codegen.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::codegen::testing {

struct CheckOptions {
  unsigned seed = 1;
  double low = -1, high = 1;                             ///< range of random floating-point inputs
  int64_t integer_range = 100;                           ///< random integers lie in [-range, range)
  std::function<void(v1::BuildUnit&)> adjust = nullptr;  ///< e.g. another register file
  ScheduleRequest request = {};                          ///< of the default schedule
  std::function<void(v1::Schedule&)> edit = nullptr;     ///< changes the default schedule before it is followed
};

/// Builds the unit with its default schedule.
absl::StatusOr<v1::BuiltObject> buildByDefault(v1::BuildUnit unit, const ScheduleRequest& request = {});

/// Builds the workload for this machine, runs it on random inputs with its grids cut in several ways, and compares
/// every result with the interpreted workload, within the bounds of its error estimates
/// (compiler/interpreter/element.h). Operands, workspace and scratch are placed next to inaccessible pages, at either
/// end alternately; arguments are read-only. A result that may overwrite an argument does so in two further runs. A
/// kernel that leaves its memory is named, and the process continues. Adds GoogleTest failures; returns the built
/// kernel's description.
v1::KernelInfo checkWorkload(const std::string& ir, const CheckOptions& options = {});

}  // namespace tessera::compiler::codegen::testing
