#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler::verification {

/// Holds what was made of a workload against the workload: its normalized form and its buffers are interpreted, what
/// was built is loaded into this process and run by itself on seeded inputs, its grids whole and in pieces. The first
/// step that changes a result beyond its bound fails with INTERNAL naming the workload, the step ("normalize",
/// "bufferize", "kernel"), the result with its largest error and the bound; of a kernel also whether it is right
/// without slices, and on plain loops. What cannot be interpreted within a budget, or run on this host, is skipped, and
/// the steps say so.
absl::StatusOr<std::vector<v1::VerifiedStep>> checkKernel(const v1::BuildUnit& unit, const v1::BuiltObject& built,
                                                          uint64_t seed = 1);

}  // namespace tessera::compiler::verification
