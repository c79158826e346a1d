#include "compiler/backends/cpu/apply/region_settings.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/region/row_passes.h"
#include "compiler/backends/cpu/region/slice_prefetch.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/schedule/fault.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

absl::Status applyStrip(RegionVariant& variant, const ParsedStrip& strip) {
  auto fault = [&](const std::string& message) {
    return scheduleFault(strip.path, message, absl::StrCat(strip.rows, " rows at a time"), "");
  };
  const llvm::MutableArrayRef<RegionNestRun> run(&variant.steps[strip.first], strip.end - strip.first);
  for (const RegionNestRun& step : run)
    if (rowLoop(step) < 0) return fault("a step that is not a pass over rows cannot run in strips");
  const int64_t rows = run[0].nest.extents[rowLoop(run[0])];
  for (const RegionNestRun& step : run)
    // Steps in a strip share one loop over rows.
    if (step.depth != run[0].depth || step.last != run[0].last || step.nest.extents[rowLoop(step)] != rows)
      return fault("the steps of a strip must run in the same slices over the same rows");
  for (size_t later = 1; later < run.size(); ++later)
    for (size_t earlier = 0; earlier < later; ++earlier)
      // Each step may use rows of the current strip only.
      if (!sameRows(run[earlier], run[later]))
        return fault("a step reads other rows of an earlier step's result than the strip has computed");
  if (strip.rows < 1 || strip.rows >= rows || strip.rows % rowUnit(run) != 0)
    return fault(absl::StrCat("the rows of a strip must be a multiple of ", rowUnit(run),
                              ", which all tiles divide, and fewer than ", rows));
  // The row loop is the first level: as the only grid level, it makes a range of grid points a range of rows.
  for (RegionNestRun& step : run) step.plan.grid_levels = 1;
  variant.strips.push_back({strip.first, strip.end, strip.rows, ceilDiv(rows, strip.rows)});
  return absl::OkStatus();
}

/// The operand that `reference` names, and the nest that uses it.
absl::StatusOr<std::pair<const Nest*, const Operand*>> operandOf(const RegionVariant& variant,
                                                                 const v1::Reference& reference, const Leaf& leaf) {
  if (reference.child() >= 0 && reference.child() < static_cast<int>(variant.steps.size())) {
    const Nest& nest = variant.steps[reference.child()].nest;
    if (reference.statement() >= 0 && reference.statement() < static_cast<int>(nest.statements.size())) {
      const Statement& statement = nest.statements[reference.statement()];
      const auto& operands = reference.result() ? statement.outputs : statement.inputs;
      if (reference.index() >= 0 && reference.index() < static_cast<int>(operands.size()))
        return std::pair(&nest, &operands[reference.index()]);
    }
  }
  return scheduleFault(leaf.path, "a reference to an operand that no leaf of these slices has",
                       absl::StrCat(reference.child(), ".", reference.statement(), ".", reference.index()),
                       absl::StrCat("0 to ", variant.steps.size() - 1, ", a statement of its nest, and its operand"));
}

/// Whether an earlier operand in the order of leaves refers to the same memory; then the reference must name that one.
/// `whole`: compares buffers instead of accesses, among operands with a moving block in the buffer.
bool namedLater(const Region& region, const RegionVariant& variant, const v1::Reference& reference,
                const Operand& named, bool whole) {
  const auto moves = [&](const Nest& nest, const Operand& other) {
    return other.access.root == named.access.root && blockOf(region, nest, other.access).has_value();
  };
  for (int child = 0; child <= reference.child(); ++child) {
    const Nest& nest = variant.steps[child].nest;
    for (int s = 0; s < static_cast<int>(nest.statements.size()); ++s) {
      const Statement& statement = nest.statements[s];
      for (const Operand& input : statement.inputs) {
        if (&input == &named) return false;
        if (input.from || !input.access.root) continue;
        if (whole ? moves(nest, input) : input.access == named.access && child == reference.child()) return true;
      }
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        if (&output == &named) return !statement.stored[o];
        if (whole && statement.stored[o] && moves(nest, output)) return true;
      }
    }
  }
  return false;
}

/// The same reference as plans store it.
BufferReference bufferReference(const v1::Reference& reference) {
  return {reference.child(), reference.statement(), reference.result(), reference.index()};
}

absl::Status applyFetch(const Region& region, const Chip& chip, RegionVariant& variant, RegionNestRun& step,
                        const Leaf& leaf) {
  const v1::Prefetch& fetch = leaf.tile->kernel().prefetch();
  // Prefetches of the next slice make sense only in a step that runs in every slice.
  const bool always = step.depth == static_cast<int>(region.counts.size()) && !step.last;
  for (const v1::Reference& reference : fetch.next_slice()) {
    TESSERA_ASSIGN_OR_RETURN(auto found, operandOf(variant, reference, leaf));
    auto runs = !reference.result() && always && movesWithSlices(region, *found.second) &&
                        !namedLater(region, variant, reference, *found.second, /*whole=*/false)
                    ? runsOf(found.second->access, *found.first, chip.near().line_bytes)
                    : std::nullopt;
    if (!runs)
      return scheduleFault(leaf.path, "next: the operand's addresses do not move from slice to slice",
                           absl::StrCat(reference.child(), ".", reference.statement(), ".in", reference.index()), "");
    runs->source = bufferReference(reference);
    step.plan.next_slice.push_back(std::move(*runs));
  }
  for (const v1::Reference& reference : fetch.next_blocks()) {
    TESSERA_ASSIGN_OR_RETURN(auto found, operandOf(variant, reference, leaf));
    const Access& access = found.second->access;
    // All slices of a thread use the same scratch: no later slice reads another block of it.
    const bool own = llvm::any_of(region.scratch, [&](const auto& placed) { return placed.first == access.root; });
    auto block = access.root && !found.second->from && !own && canPrefetchBlocks(region, step) &&
                         !namedLater(region, variant, reference, *found.second, /*whole=*/true)
                     ? blockOf(region, *found.first, access)
                     : std::nullopt;
    if (!block)
      return scheduleFault(
          leaf.path, "blocks: the operand has no block that moves from slice to slice, or no product prefetches it",
          absl::StrCat(reference.child(), ".", reference.statement(), ".", reference.index()), "");
    block->source = bufferReference(reference);
    step.plan.next_blocks.push_back(std::move(*block));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status applyStrips(Region& region, const ParsedRegion& tree) {
  for (auto [variant, part] : llvm::zip_equal(region.variants, tree.variants))
    for (const ParsedStrip& strip : part.strips) TESSERA_RETURN_IF_ERROR(applyStrip(variant, strip));
  return absl::OkStatus();
}

absl::Status applyPrefetches(Region& region, const Chip& chip, const ParsedRegion& tree) {
  for (auto [variant, part] : llvm::zip_equal(region.variants, tree.variants))
    for (size_t s = 0; s < variant.steps.size(); ++s)
      if (absl::Status status = applyFetch(region, chip, variant, variant.steps[s], part.leaves[s]); !status.ok())
        return status;
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
