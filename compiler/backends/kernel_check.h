#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::verification {

/// Compares the stages of compiling a workload with the workload itself: interprets its normalized form and its
/// bufferized form, and loads the built object into this process and runs it on seeded inputs, with its grids whole and
/// in pieces. The first step that changes a result beyond its bound fails with INTERNAL naming the workload, the step
/// ("normalize", "bufferize", "kernel"), the result with its largest error and the bound; for a kernel also whether it
/// is right without slices, and with plain loops. Steps that cannot be interpreted within the budget, or run on this
/// host, are skipped and reported as such.
absl::StatusOr<std::vector<v1::VerifiedStep>> checkKernel(const v1::BuildUnit& unit, const v1::BuiltObject& built,
                                                          uint64_t seed = 1);

/// Runs a kernel on the bytes of its arguments; returns the bytes of its results, which have these sizes.
using RunKernel = std::function<absl::StatusOr<std::vector<std::string>>(const std::vector<std::string>& arguments,
                                                                         const std::vector<int64_t>& result_bytes)>;

/// The same for a kernel that is no machine code.
absl::StatusOr<std::vector<v1::VerifiedStep>> checkKernel(const v1::BuildUnit& unit, const RunKernel& run,
                                                          uint64_t seed = 1);

}  // namespace tessera::compiler::verification
