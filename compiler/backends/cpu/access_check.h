#pragma once

#include "absl/status/status.h"
#include "compiler/backends/cpu/phases.h"

namespace tessera::compiler::codegen {

/// Checks that every memory access of the phases stays within its buffer. Covers all operands that a nest reads or
/// writes in memory, including copies to panels and slices of regions: the box that the access function spans over all
/// iterations and slices is compared with the number of elements of the buffer. Phases do not record the sizes of
/// individual scratch buffers, so accesses to a thread's scratch are compared with the end of the scratch. Prefetches
/// are not checked, since they may address any memory; neither are gathers, whose indices are data. Also checks that a
/// result that may share the memory of an argument (kMayAlias) is written only by statements that read that argument
/// at the same places. Errors: INTERNAL naming phase, nest, operand, box and buffer. Call once phases and workspace are
/// final (planWorkspace).
absl::Status checkAccesses(const PhaseList& list);

/// First and last element that an access touches, over iterations [0, extents[l]) of each loop l and slice numbers
/// [first, last] of each slice loop. `tile` gives the width of the panels. Every loop must have at least one iteration.
struct TouchedBox {
  int64_t first = 0, last = 0;
};
TouchedBox touchedBox(const Access& access, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> tile,
                      llvm::ArrayRef<std::pair<int64_t, int64_t>> slices);

}  // namespace tessera::compiler::codegen
