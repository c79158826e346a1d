#pragma once

#include "absl/status/statusor.h"
#include "compiler/backends/cpu/tree/leaf.h"
#include "compiler/schedule/fault.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {

/// The loop of `nest` called `name`. Errors: INVALID_SCHEDULE listing all loop names.
absl::StatusOr<int> loopNamed(const Nest& nest, const std::string& name, const std::string& path);

/// The loops called `names`, which must be a permutation of `expected`.
template <typename Names>
absl::StatusOr<llvm::SmallVector<int>> permutationOf(const Nest& nest, const Names& names, llvm::ArrayRef<int> expected,
                                                     const std::string& what, const std::string& path) {
  llvm::SmallVector<int> loops;
  std::string accepted, found;
  for (int loop : expected) accepted += (accepted.empty() ? "" : ",") + loopName(nest, loop);
  for (const std::string& name : names) {
    found += (found.empty() ? "" : ",") + name;
    TESSERA_ASSIGN_OR_RETURN(auto loop, loopNamed(nest, name, path));
    loops.push_back(loop);
  }
  llvm::SmallVector<int> sorted(loops), wanted(expected);
  llvm::sort(sorted);
  llvm::sort(wanted);
  if (sorted != wanted)
    return scheduleFault(path, what, found.empty() ? "none" : found,
                         accepted.empty() ? "none" : accepted + " in some order");
  return loops;
}

}  // namespace tessera::compiler::codegen
