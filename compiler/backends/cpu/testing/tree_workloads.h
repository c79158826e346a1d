#pragma once

#include <string>

#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "tessera/v1/plan.pb.h"

/// Small workloads of every class, for property tests that hold for all trees.
namespace tessera::compiler::codegen::testing {

struct TreeWorkload {
  std::string name;  ///< of the class: "product", "chain", "winograd", ...
  std::string ir;
  ScheduleRequest request = {};
  /// of the chip's two cache levels, small so that small workloads are blocked
  int64_t near_bytes = 32 << 10, second_bytes = 1 << 20;
  v1::CostParameters parameters = {};  ///< of the chip, merged into its family's
  bool tiles = false;                  ///< uses tile instructions, which this machine may lack
  double low = -1, high = 1;           ///< range of its inputs
  int64_t integers = 100;              ///< the same for integers: [-integers, integers)
};

/// Successive seeds cycle through the classes.
TreeWorkload treeWorkload(unsigned seed);
int treeWorkloadClasses();

/// The workload for this machine with its own caches, cost parameters and tile instructions.
v1::BuildUnit unitOf(const TreeWorkload& workload);

/// Runs the workload with `schedule` and compares the results with the interpreter's.
void checkTree(const TreeWorkload& workload, const v1::Schedule& schedule, unsigned seed);

}  // namespace tessera::compiler::codegen::testing
