#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ptx/swizzle.h"

/// Runs the text of a kernel, thread group by thread group: the instructions that kernels of this room are made of, as
/// the manual of PTX defines them, and nothing of the plan or the description. For tests and counts, not for speed.
namespace tessera::compiler::ptx {

struct Launch {
  int64_t threads = 32, shared_bytes = 0;
  std::vector<int64_t> blocks;                 ///< those that are run
  std::vector<std::vector<uint8_t>*> tensors;  ///< of the entry's parameters
  Banks banks;                                 ///< of the shared level
};

/// Accesses of a group to the shared level, and the cycles that the banks take for them: more than one of an access
/// that has no more bytes than a line are conflicts. Copies in and fetches are counted apart.
struct SharedTraffic {
  int64_t accesses = 0, cycles = 0;
};
struct Run {
  SharedTraffic stores, fetches;
  std::vector<bool> written;  ///< bytes of the first tensor
};

/// Fails with INVALID_ARGUMENT that names the line: what it does not know, addresses outside of tensors or shared
/// memory or not aligned, branches on which a group's threads differ. Shared memory is all ones before it is written,
/// and asynchronous copies arrive when their group is waited for.
absl::StatusOr<Run> run(const std::string& text, const Launch& launch);

}  // namespace tessera::compiler::ptx
