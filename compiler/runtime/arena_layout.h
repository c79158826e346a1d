#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/runtime/grid_part.h"
#include "compiler/runtime/module_abi.h"

namespace tessera::compiler {

/// How much of the front of a result a run writes: no byte behind it. `cuts`: those of the step, in its order, as the
/// run has them.
int64_t writtenBytes(const tessera_module_step& step, int32_t operand, int64_t size_bytes,
                     std::span<const LiveCut> cuts);

/// Where the intermediates of a variant lie in a run. Those of a variant with ranges lie as close together as what the
/// run writes of them lets them, packed as the plan packs those of the greatest sizes: a run takes the memory of its
/// own size, not of the greatest. A layout serves all later runs that write no more of any place, so that one is made
/// only for a run that is larger than those before. For one run at a time.
class ArenaLayout {
 public:
  explicit ArenaLayout(const tessera_module_variant& variant);

  /// Chooses where things lie for a run that has `cuts`: those of all steps, one after another. True when it is
  /// elsewhere than before. Allocates when it makes a layout.
  bool fit(std::span<const LiveCut> cuts);

  /// Of an arena buffer of the variant.
  int64_t offset(const tessera_module_buffer& buffer) const;
  /// What runs as the latest take; before the first one as much as any.
  int64_t bytes() const { return bytes_; }
  /// With room for kernels that read a place to the end of its greatest size: addresses, that nobody writes to.
  int64_t reservedBytes() const;

 private:
  /// A result that lies in a place.
  struct Writer {
    int32_t step, operand;
    size_t place, first_cut;  // the step's
    int64_t within;           // bytes from the place's start
  };
  struct Layout {
    std::vector<int64_t> sizes, offsets;  // per place
    int64_t bytes = 0;
  };
  void measure(std::span<const LiveCut> cuts);
  bool holds(const Layout& layout) const;
  Layout pack() const;

  const tessera_module_variant& variant_;
  std::vector<Writer> writers_;
  std::vector<int64_t> always_;   // per place: what loops write of it in any run
  std::vector<int64_t> needed_;   // per place, of the run
  std::vector<int64_t> offsets_;  // per place: those in use
  std::vector<Layout> layouts_;   // none holds all that another one does
  int64_t bytes_;
};

}  // namespace tessera::compiler
