#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "compiler/cost/machine.h"
#include "tessera/v1/target.pb.h"

/// Kernels of a described chip as a problem of compiler/dataflow_search: which trees could run them, and at what cost.
namespace tessera::compiler::simulator {

/// A kernel that runs as a step of a plan.
struct KernelRun {
  const CheckedKernel* kernel = nullptr;
  const v1::Schedule* schedule = nullptr;
  std::vector<int64_t> operands;  ///< identifies the buffer of each operand; kernels share a tensor by equal numbers
};

struct DataflowProblem {
  loopnest::Nest nest;
  std::vector<bool> on_instruction;    ///< per statement: an instruction runs it
  std::vector<std::string> operators;  ///< per statement: the nest's name
  /// Tensors that a statement reads in another layout than an earlier one writes. A tree cannot keep them on chip.
  std::vector<std::string> unlinked;
};

/// The nests of kernels that run one after another, in one joint loop space. Loops over the same dimension of a tensor
/// are one loop. Fills that only initialize a result are left out. The operations of a nest on a vector unit are
/// counted so that the units of `machine` take as many cycles as the vector units. Fails with FAILED_PRECONDITION
/// naming the nest that has no such form.
absl::StatusOr<DataflowProblem> dataflowProblemOf(const std::vector<KernelRun>& runs, const cost::Machine& machine,
                                                  const v1::Target& target);

/// The chip as nested levels: memories on one level (MemoryLevel.peer_of_inner) count as one of their total capacity
/// and bandwidth. It has the fastest kind of units only: the problem counts operations of the others at their rates.
cost::Machine nestedMachineOf(const v1::Target& target);

}  // namespace tessera::compiler::simulator
