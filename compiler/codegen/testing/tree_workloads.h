#pragma once

#include <string>

#include "compiler/codegen/codegen.h"
#include "compiler/codegen/testing/check_workload.h"
#include "tessera/v1/plan.pb.h"

/// Small workloads of every class, for what is promised of all trees.
namespace tessera::compiler::codegen::testing {

struct TreeWorkload {
  std::string name;  ///< of the class: "product", "chain", "winograd", ...
  std::string ir;
  ScheduleRequest request = {};
  int64_t near_bytes = 32 << 10, second_bytes = 1 << 20;  ///< of the chip's two levels: what is small is blocked
  v1::Prices prices = {};                                 ///< of the chip, beside its family's
  bool tiles = false;                                     ///< on tile instructions, which this machine need not have
  double low = -1, high = 1;                              ///< of what it is run on
  int64_t integers = 100;                                 ///< the same, in [-integers, integers)
};

/// Classes take turns from seed to seed.
TreeWorkload treeWorkload(unsigned seed);
int treeWorkloadClasses();

/// The workload for this machine, but for its caches, prices and tile instructions.
v1::BuildUnit unitOf(const TreeWorkload& workload);

/// Runs the workload as `schedule` says and compares it with what the interpreter computes.
void checkTree(const TreeWorkload& workload, const v1::Schedule& schedule, unsigned seed);

}  // namespace tessera::compiler::codegen::testing
