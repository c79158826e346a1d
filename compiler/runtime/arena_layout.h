#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/runtime/module_abi.h"
#include "compiler/runtime/partial_grid.h"

namespace tessera::compiler {

/// Number of leading bytes of a result that a run writes; it writes no byte after them. `grid_bounds`: those of the
/// step for this run, in order.
int64_t writtenBytes(const tessera_module_step& step, int32_t operand, int64_t size_bytes,
                     std::span<const EvaluatedGridBound> grid_bounds);

/// Arena offsets of the intermediates of a variant for the current run. An *allocation* of the arena
/// (tessera_module_allocation) has the bytes of one or several buffers from the first step that needs them to the last.
///
/// For a variant with ranges, the layout is packed for the bytes that the run writes, by the same algorithm as the
/// plan's layout for the greatest sizes: a run needs the memory of its own size only. A layout serves all later runs
/// that write no more bytes of any allocation. A new one is computed for a run that no kept layout serves. Not
/// thread-safe: one run at a time.
class ArenaLayout {
 public:
  explicit ArenaLayout(const tessera_module_variant& variant);

  /// Chooses the layout for a run with these grid bounds: those of all steps, one after another. Returns true if
  /// offsets changed. Allocates when it computes a new layout.
  bool fit(std::span<const EvaluatedGridBound> grid_bounds);

  /// Offset of an arena buffer of the variant.
  int64_t offset(const tessera_module_buffer& buffer) const;
  /// Bytes of the layout in use; before the first run, the bytes of the greatest sizes.
  int64_t bytes() const { return bytes_; }
  /// Bytes of address space to reserve, including addresses that kernels may read up to the end of an allocation's
  /// greatest size, but never write.
  int64_t reservedBytes() const;

 private:
  /// A step's result that is part of an allocation.
  struct Writer {
    int32_t step, operand;
    size_t allocation, first_grid_bound;  // of the step
    int64_t within;                       // bytes from the allocation's start
  };
  struct Layout {
    std::vector<int64_t> sizes, offsets;  // per allocation
    int64_t bytes = 0;
  };
  void measure(std::span<const EvaluatedGridBound> grid_bounds);
  bool holds(const Layout& layout) const;
  Layout pack() const;

  const tessera_module_variant& variant_;
  std::vector<Writer> writers_;
  std::vector<int64_t> always_;   // per allocation: bytes that loops write in any run
  std::vector<int64_t> needed_;   // per allocation, of the run
  std::vector<int64_t> offsets_;  // per allocation: the layout in use
  std::vector<Layout> layouts_;   // no layout covers another one entirely
  int64_t bytes_;
};

}  // namespace tessera::compiler
