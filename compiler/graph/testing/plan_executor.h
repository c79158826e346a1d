#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/graph/graph.h"
#include "compiler/import/import.h"

namespace tessera::compiler {

/// Bytes of tensors, in the order of the model's inputs or outputs.
using TensorBytes = std::vector<std::string>;

/// Runs @main of an imported model through MLIR's own default lowering (loops, JIT): the reference.
absl::StatusOr<TensorBytes> runModel(const ImportedModel& model, const TensorBytes& inputs);

/// Runs a plan the way a runtime would: weights at their offsets, steps in order over one arena whose
/// bytes are poisoned beforehand, operands at their buffers' offsets. Workloads go through the same plain
/// lowering as the reference, so what is tested is the plan, not code generation.
absl::StatusOr<TensorBytes> runPlan(const PlannedGraph& planned, const TensorBytes& inputs);

/// Seeded values: floating point in [-1, 1], integers in [0, 3], booleans 0 or 1.
std::string randomBytes(const v1::TensorSpec& spec, uint64_t seed);

/// Size in bytes of a dense tensor.
int64_t sizeInBytes(const v1::TensorSpec& spec);

}  // namespace tessera::compiler
