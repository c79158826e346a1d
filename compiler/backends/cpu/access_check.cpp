#include "compiler/backends/cpu/access_check.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/in_place_results.h"
#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

using SliceNumbers = llvm::SmallVector<std::pair<int64_t, int64_t>>;

using Places = llvm::ArrayRef<std::pair<mlir::Value, int64_t>>;

/// Byte offsets of the buffers in one phase's scratch, and the size of the scratch.
struct ScratchOfPhase {
  Places places;
  int64_t bytes = 0;
  Places temporaries;  ///< buffers with an offset in the workspace
};

/// Elements from the start of `access`'s buffer to the end of its memory, in the access's element type, which may be a
/// group of the buffer's elements. 0 for a buffer without memory.
int64_t elementsOf(const Access& access, const ScratchOfPhase& scratch) {
  const int64_t bits = elementBits(access.element);
  for (const auto& [buffer, offset] : scratch.places)
    if (buffer == access.root) return (scratch.bytes - offset) * 8 / bits;
  const bool placed = llvm::any_of(scratch.temporaries, [&](const auto& place) { return place.first == access.root; });
  if (access.root.getDefiningOp<mlir::memref::AllocOp>() && !placed) return 0;
  const auto type = llvm::cast<mlir::MemRefType>(access.root.getType());
  return type.getNumElements() * elementBits(type.getElementType()) / bits;
}

/// The iterations over which an input is accessed from one value of its pointer: all of them, or for an operand that is
/// copied block by block those within a block, since the loops outside of its copies do not move it.
llvm::SmallVector<int64_t> walkedBy(size_t input, size_t statement, const Nest& nest, const TilePlan& plan) {
  llvm::SmallVector<int64_t> extents = nest.extents;
  if (statement > 0 ||
      llvm::none_of(plan.copies, [&](const BlockCopy& copy) { return copy.input == static_cast<int>(input); }))
    return extents;
  for (const auto& [loop, step] : llvm::ArrayRef(plan.levels).take_front(plan.copy_level))
    extents[loop] = std::min(extents[loop], step);
  return extents;
}

class PhaseCheck {
 public:
  PhaseCheck(size_t phase, const ScratchOfPhase& scratch) : phase_(phase), scratch_(scratch) {}

  absl::Status nest(const Nest& nest, const TilePlan& plan, const SliceNumbers& slices, const std::string& what) const {
    // Nothing is accessed; the extents below are assumed to be at least 1.
    if (nest.iterations() == 0) return absl::OkStatus();
    for (auto [s, statement] : llvm::enumerate(nest.statements)) {
      for (auto [i, input] : llvm::enumerate(statement.inputs)) {
        if (!accessesInputMemory(input)) continue;
        if (absl::Status status = operand(walkedBy(i, s, nest, plan), plan, input.access, slices,
                                          absl::StrCat(what, ", input ", i, " of statement ", s));
            !status.ok())
          return status;
      }
      if (absl::Status status = overwriting(statement, absl::StrCat(what, ", statement ", s)); !status.ok())
        return status;
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        if (!accessesOutputMemory(statement, o)) continue;
        if (absl::Status status = operand(nest.extents, plan, output.access, slices,
                                          absl::StrCat(what, ", output ", o, " of statement ", s));
            !status.ok())
          return status;
      }
    }
    return copies(nest, plan, what);
  }

  /// A result may overwrite an argument only if each statement that writes the result also reads that argument at the
  /// same place, and no other statement reads it.
  absl::Status overwriting(const Statement& statement, const std::string& what) const {
    for (const auto& [o, output] : llvm::enumerate(statement.outputs)) {
      const mlir::Value over = accessesOutputMemory(statement, o) ? overwrittenArgument(output.access.root) : nullptr;
      const auto reads = [&](const Operand& input) { return accessesInputMemory(input) && input.access.root == over; };
      if (over && llvm::none_of(statement.inputs, reads)) return early(what);
    }
    for (const Operand& input : statement.inputs) {
      const mlir::Value result = accessesInputMemory(input) ? resultOverwriting(input.access.root) : nullptr;
      const auto writes = [&](const Operand& output) {
        return output.access.root == result && isSamePlace(input.access, output.access);
      };
      if (result && llvm::none_of(statement.outputs, writes)) return early(what);
    }
    return absl::OkStatus();
  }

  static bool isSamePlace(const Access& a, const Access& b) {
    return a.offset == b.offset && a.strides == b.strides && a.panel == b.panel && a.slice == b.slice;
  }

  absl::Status early(const std::string& what) const {
    return failureStatus(v1::Failure::INTERNAL,
                         absl::StrCat("a kernel would read what it has written already: phase ", phase_, ", ", what));
  }

  absl::Status operand(llvm::ArrayRef<int64_t> extents, const TilePlan& plan, const Access& access,
                       const SliceNumbers& slices, const std::string& what) const {
    const TouchedBox box = touchedBox(access, extents, plan.tile, slices);
    const int64_t elements = elementsOf(access, scratch_);
    if (box.first >= 0 && box.last < elements) return absl::OkStatus();
    return failureStatus(v1::Failure::INTERNAL,
                         absl::StrCat("a kernel would leave its memory: phase ", phase_, ", ", what,
                                      ", walks elements ", box.first, " to ", box.last, " of a buffer of ", elements));
  }

  /// Operands copied to panels block by block: the slice numbers of the copying nests are the origin of the block.
  absl::Status copies(const Nest& nest, const TilePlan& plan, const std::string& what) const {
    for (const BlockCopy& copy : plan.copies) {
      for (size_t n = 0; n < copy.nests.size(); ++n) {
        SliceNumbers origins;
        for (auto [at, moved] : llvm::enumerate(copy.moving_loops)) {
          // A block that does not divide the loop leaves a shorter last one, for which there is a nest of its own:
          // bit i of the nest's number says whether loop i of partial_loops is in its last block.
          const int64_t whole = nest.extents[moved.loop] / moved.covered * moved.covered;
          const auto* cut = llvm::find(copy.partial_loops, at);
          const bool in_last = cut != copy.partial_loops.end() && (n >> (cut - copy.partial_loops.begin()) & 1);
          origins.emplace_back(in_last ? whole : 0, in_last ? whole : whole - moved.covered);
        }
        const std::string name = absl::StrCat(what, ", copy ", n, " of input ", copy.input);
        TESSERA_RETURN_IF_ERROR(this->nest(copy.nests[n], copy.plans[n], origins, name));
      }
    }
    return absl::OkStatus();
  }

  size_t phase_;
  const ScratchOfPhase& scratch_;
};

absl::Status checkRegion(const Region& region, size_t phase, Places temporaries) {
  const ScratchOfPhase scratch{region.scratch, region.scratch_bytes, temporaries};
  const PhaseCheck check(phase, scratch);
  for (auto [v, variant] : llvm::enumerate(region.variants)) {
    SliceNumbers slices;
    for (auto [loop, group] : llvm::enumerate(variant.group)) {
      const SliceGroup& range = region.groups[loop][group];
      // Addresses are linear in the slice number, so the first and the last slice of the group are the extremes.
      slices.emplace_back(range.lo, std::max(range.lo, range.hi - 1));
    }
    for (const RegionNestRun& step : variant.steps) {
      const std::string what = absl::StrCat("nest ", step.number, " of variant ", v);
      TESSERA_RETURN_IF_ERROR(check.nest(step.nest, step.plan, slices, what));
    }
  }
  return absl::OkStatus();
}

}  // namespace

TouchedBox touchedBox(const Access& access, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> tile,
                      llvm::ArrayRef<std::pair<int64_t, int64_t>> slices) {
  TouchedBox box{access.offset, access.offset};
  const auto widen = [&](int64_t low, int64_t high) {
    box.first += std::min(low, high);
    box.last += std::max(low, high);
  };
  for (auto [loop, extent] : llvm::enumerate(extents)) {
    const int64_t stride = access.strides[loop], between = access.between(static_cast<int>(loop));
    // An ordinary loop, whose stride does not change at the end of a tile.
    if (between == stride) {
      widen(0, (extent - 1) * stride);
      continue;
    }
    // In panels of `width` the largest offset is that of the last iteration, or of the last iteration of the last whole
    // panel.
    const int64_t width = tile[loop];
    const auto at = [&](int64_t i) { return i / width * width * between + i % width * stride; };
    widen(0, std::max(at(extent - 1), extent >= width ? at(extent / width * width - 1) : 0));
  }
  for (size_t v = 0; v < std::min(access.slice.size(), slices.size()); ++v) {
    widen(slices[v].first * access.slice[v], slices[v].second * access.slice[v]);
  }
  return box;
}

absl::Status checkAccesses(const PhaseList& list) {
  for (auto [p, phase] : llvm::enumerate(list.phases)) {
    const ScratchOfPhase scratch{phase.scratch, phase.scratch_bytes, list.temporaries};
    const PhaseCheck check(p, scratch);
    for (size_t n = 0; n < phase.nests.size(); ++n) {
      if (absl::Status status = check.nest(phase.nests[n], phase.plans[n], {}, absl::StrCat("nest ", n)); !status.ok())
        return status;
    }
    if (!phase.region) continue;
    TESSERA_RETURN_IF_ERROR(checkRegion(*phase.region, p, list.temporaries));
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
