#pragma once

#include "absl/status/status.h"
#include "compiler/codegen/phases.h"

namespace tessera::compiler::codegen {

/// Whether every operand that a nest reads or writes in memory, copies to panels and slices of regions included, stays
/// within its buffer: the box its access function walks over all iterations and slices, against the elements there are.
/// Of buffers in a thread's scratch, whose own size a phase does not keep, against the end of the scratch. What is
/// fetched only is not looked at: it may lie anywhere; nor are gathers, whose indices are data.
/// And whether a result that may have the memory of an argument (kWrittenOver) is written by statements alone that read
/// that argument at the same places.
/// INTERNAL names phase, nest, operand, box and buffer. Call when phases and workspace are final (planWorkspace).
absl::Status checkAccesses(const PhaseList& list);

/// First and last element that an access touches, over iterations [0, extents[l]) of each loop and slice numbers
/// [first, last] of each slice loop. `tile` gives the width of panels. No loop may be empty.
struct TouchedBox {
  int64_t first = 0, last = 0;
};
TouchedBox touchedBox(const Access& access, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> tile,
                      llvm::ArrayRef<std::pair<int64_t, int64_t>> slices);

}  // namespace tessera::compiler::codegen
