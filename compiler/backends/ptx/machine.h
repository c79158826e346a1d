#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/ptx/swizzle.h"

/// Executes the text of a kernel, one thread group at a time. Implements the instructions that these kernels use
/// according to the PTX manual, independently of the plan and the description. For tests and counts, not for speed.
namespace tessera::compiler::ptx {

struct Launch {
  int64_t threads = 32, shared_bytes = 0;
  std::vector<int64_t> blocks;                 ///< blocks to run
  std::vector<std::vector<uint8_t>*> tensors;  ///< the entry's parameters
  Banks banks;                                 ///< of shared memory
};

/// Accesses of a group to shared memory, and the cycles that the banks need for them; more than one cycle for an access
/// of at most one line is a bank conflict. Copies to shared memory and loads are counted separately.
struct SharedTraffic {
  int64_t accesses = 0, cycles = 0;
};
struct Run {
  SharedTraffic stores, fetches;
  std::vector<bool> written;  ///< which bytes of the first tensor were written
};

/// Fails with INVALID_ARGUMENT naming the line: unknown instructions, addresses outside of tensors or shared memory or
/// misaligned, branches on which a group's threads diverge. Unwritten shared memory is all ones, and asynchronous
/// copies take effect when their group is waited for.
absl::StatusOr<Run> run(const std::string& text, const Launch& launch);

}  // namespace tessera::compiler::ptx
