#include "compiler/backends/cpu/tree/parsed_schedule.h"

#include "absl/strings/str_cat.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

bool copies(const v1::Tile& leaf) { return leaf.has_kernel() && leaf.kernel().variant() == words::kPack; }

absl::Status refused(const Leaf& tile, const std::string& message, const std::string& accepted) {
  return scheduleFault(tile.path, message, printTileLine(*tile.tile), accepted);
}

std::vector<Leaf> childrenOf(const Leaf& tile) {
  std::vector<Leaf> children;
  for (int i = 0; i < tile.tile->children_size(); ++i)
    children.push_back({&tile.tile->children(i), childPath(tile.path, i)});
  return children;
}

/// The leaves of a phase: one leaf, or two or more joined by Seq or Para.
absl::StatusOr<std::vector<Leaf>> leavesOf(const Leaf& phase) {
  if (phase.tile->has_kernel()) return std::vector<Leaf>{phase};
  const v1::Tile& tile = *phase.tile;
  if ((tile.join() != v1::Tile::SEQ && tile.join() != v1::Tile::PARA) || tile.loops_size() > 0 ||
      tile.stages_size() > 0 || !tile.level().empty() || tile.deferred_softmax() || tile.children_size() < 2)
    return refused(phase, "a phase that is neither a leaf, nor leaves one after another or side by side, nor slices",
                   "a kernel; [] Seq or [] Para over two or more leaves; LEVEL [LOOPS] Shar over the kinds of slices");
  std::vector<Leaf> leaves = childrenOf(phase);
  for (const Leaf& leaf : leaves)
    if (!leaf.tile->has_kernel()) return refused(leaf, "a phase of leaves has no other tiles", "a kernel");
  return leaves;
}

absl::StatusOr<ParsedVariant> variantOfTile(const Leaf& tile) {
  ParsedVariant variant;
  variant.path = tile.path;
  const v1::Tile& own = *tile.tile;
  if (own.join() != v1::Tile::SHAR || own.loops_size() > 0 || own.stages_size() > 0 || !own.level().empty() ||
      own.deferred_softmax() || own.has_kernel())
    return refused(tile, "the tile of one kind of slices", "[] Shar");
  // A child is a leaf, or a strip: a loop over rows whose leaves take turns on a few rows at a time.
  for (const Leaf& child : childrenOf(tile)) {
    if (child.tile->has_kernel()) {
      variant.leaves.push_back(child);
      continue;
    }
    const v1::Tile& strip = *child.tile;
    if (strip.join() != v1::Tile::SHAR || strip.loops_size() != 1 || strip.loops(0).dimension() != words::kRows ||
        !strip.loops(0).unit().empty() || strip.stages_size() > 0 || !strip.level().empty() ||
        strip.deferred_softmax() || strip.children_size() < 2)
      return refused(child, "neither a leaf nor passes over rows that take turns",
                     "[rows:Tp/N] Shar over two or more leaves");
    ParsedStrip& strips = variant.strips.emplace_back();
    strips.first = variant.leaves.size();
    strips.rows = strip.loops(0).step();
    strips.path = child.path;
    for (const Leaf& leaf : childrenOf(child)) {
      if (!leaf.tile->has_kernel()) return refused(leaf, "strips have leaves only", "a kernel");
      variant.leaves.push_back(leaf);
    }
    strips.end = variant.leaves.size();
  }
  return variant;
}

/// Only trees of described chips map loops to the iterations of an instruction.
absl::Status checkUnmapped(const v1::Tile& tile, const std::string& path) {
  if (tile.kernel().matching_size() > 0 || tile.kernel().sources_size() > 0)
    return scheduleFault(path, "loops mapped to an instruction of a described chip", "match or sources", "neither");
  for (const v1::Stage& stage : tile.stages())
    for (const v1::Tile& copy : stage.copies()) TESSERA_RETURN_IF_ERROR(checkUnmapped(copy, path));
  for (int i = 0; i < tile.children_size(); ++i)
    TESSERA_RETURN_IF_ERROR(checkUnmapped(tile.children(i), childPath(path, i)));
  return absl::OkStatus();
}

bool isRegion(const v1::Tile& tile) { return !tile.has_kernel() && tile.join() == v1::Tile::SHAR; }

}  // namespace

absl::StatusOr<ParsedSchedule> ParsedSchedule::of(const v1::Schedule& schedule) {
  ParsedSchedule tree;
  llvm::SmallVector<int> seen;
  for (const v1::Fusion& fusion : schedule.fused()) {
    llvm::SmallVector<int> operations(fusion.operations().begin(), fusion.operations().end());
    for (size_t i = 0; i < operations.size(); ++i) {
      if ((i > 0 && operations[i] <= operations[i - 1]) || llvm::is_contained(seen, operations[i]) || operations[i] < 0)
        return scheduleFault("", "operations of a nest rise, and are in one nest each", absl::StrCat(operations[i]),
                             "");
      seen.push_back(operations[i]);
    }
    if (operations.size() < 2)
      return scheduleFault("", "operations of a nest", absl::StrCat(operations.size()), "two or more");
    tree.fused.push_back(std::move(operations));
  }
  // A phase of copies belongs to the next phase, which reads the panels.
  std::vector<Leaf> waiting;  // copies for the next phase
  for (int p = 0; p < schedule.phases_size(); ++p) {
    const Leaf phase{&schedule.phases(p), childPath("", p)};
    TESSERA_RETURN_IF_ERROR(checkUnmapped(*phase.tile, phase.path));
    if (tree.region) return refused(phase, "nothing runs after a region", "no further phase");
    if (isRegion(*phase.tile)) {
      if (!tree.phases.empty()) return refused(phase, "a region is all of a workload", "no phase before it but copies");
      ParsedRegion& region = tree.region.emplace();
      region.tile = phase;
      region.copies = std::exchange(waiting, {});
      for (const Leaf& child : childrenOf(phase)) {
        TESSERA_ASSIGN_OR_RETURN(auto variant, variantOfTile(child));
        region.variants.push_back(std::move(variant));
      }
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(auto leaves, leavesOf(phase));
    // Only copies: held back until the phase that reads them.
    if (llvm::all_of(leaves, [](const Leaf& leaf) { return copies(*leaf.tile); })) {
      if (phase.tile->join() == v1::Tile::PARA)
        return refused(phase, "copies to panels share all units", "[] Seq over the leaves that copy");
      if (!waiting.empty()) return refused(phase, "copies for one phase are one phase", "the leaves of both in one");
      waiting = std::move(leaves);
      continue;
    }
    ParsedPhase& parsed = tree.phases.emplace_back();
    parsed.path = phase.path;
    parsed.copies = std::exchange(waiting, {});
    parsed.leaves = std::move(leaves);
    parsed.concurrent = phase.tile->join() == v1::Tile::PARA;
    // A sequential leaf has no settings; comparing its printed line checks that all fields are unset.
    parsed.sequential = parsed.leaves[0].tile->kernel().variant() == words::kSequential;
    if (parsed.sequential && (printTileLine(*phase.tile) != "[] sequential nest 0" || phase.tile->stages_size() > 0 ||
                              phase.tile->children_size() > 0))
      return refused(phase, "operations that are no nests leave nothing to decide", "[] sequential nest 0");
  }
  if (!waiting.empty())
    return scheduleFault("", "copies for no phase", waiting[0].path, "a phase that reads the panels");
  return tree;
}

bool ParsedSchedule::joins(int earlier, int later) const {
  return llvm::any_of(fused, [&](const llvm::SmallVector<int>& operations) {
    return llvm::is_contained(operations, earlier) && llvm::is_contained(operations, later);
  });
}

}  // namespace tessera::compiler::codegen
