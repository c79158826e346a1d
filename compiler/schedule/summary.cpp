#include "compiler/schedule/summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/chip_words.h"
#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/words.h"

namespace tessera::compiler {
namespace {

void addLeaves(const v1::Tile& tile, std::vector<const v1::Tile*>& leaves) {
  if (tile.has_kernel()) leaves.push_back(&tile);
  for (const v1::Tile& child : tile.children()) addLeaves(child, leaves);
}

/// Leaves of described chips are no rows of the table.
int weightOf(const v1::Tile& leaf) {
  const std::string& variant = leaf.kernel().variant();
  return variant == words::kInitial ? 0 : variant == words::kCall ? 2 : traitsOf(variant).weight;
}

/// ", vector on its results" if a nest on a vector unit follows the leaf within its tiles.
std::string followerText(const v1::Tile& tile, const v1::Tile& leaf) {
  std::vector<const v1::Tile*> leaves;
  addLeaves(tile, leaves);
  if (leaves.size() < 2 || leaves[0] != &leaf) return "";
  return absl::StrCat(", ", leaves[1]->kernel().instruction(), " on its results");
}

/// Points of the register tile: rows x vectors.
std::string tileText(const v1::Kernel& kernel) {
  int64_t rows = 1, vectors = 1;
  for (const v1::Extent& extent : kernel.tile()) {
    if (extent.dimension() == kernel.vector_loop()) {
      vectors = (extent.size() + kernel.lanes() - 1) / std::max(1, kernel.lanes());
    } else if (!extent.dimension().starts_with("r")) {
      rows *= extent.size();
    }
  }
  return absl::StrCat(rows, "x", kernel.vector_loop().starts_with("r") ? 1 : vectors);
}

}  // namespace

std::vector<const v1::Tile*> leavesOf(const v1::Schedule& schedule) {
  std::vector<const v1::Tile*> leaves;
  for (const v1::Tile& phase : schedule.phases()) addLeaves(phase, leaves);
  return leaves;
}

std::string summarizeSchedule(const v1::Schedule& schedule) {
  const v1::Tile* main = nullptr;
  for (const v1::Tile* leaf : leavesOf(schedule))
    if (!main || weightOf(*leaf) > weightOf(*main)) main = leaf;
  if (!main) return "";
  std::string text = main->kernel().variant();
  if (text == words::kVector) return main->kernel().instruction();
  if (text == words::kCall) {
    text = absl::StrCat("calls ", main->kernel().instruction());
    for (const v1::Tile& phase : schedule.phases()) absl::StrAppend(&text, followerText(phase, *main));
    return text;
  }
  if (main->kernel().lanes() > 1) absl::StrAppend(&text, " ", tileText(main->kernel()));
  const v1::Tile& last = *schedule.phases().rbegin();
  if (last.has_kernel() || last.join() != v1::Tile::SHAR) return text;
  absl::StrAppend(&text, " in slices");
  for (const v1::Loop& loop : last.loops()) absl::StrAppend(&text, " ", loop.dimension(), "/", loop.step());
  if (last.loops().empty()) return text;
  const v1::Loop& innermost = *last.loops().rbegin();
  const bool keys = innermost.dimension() == words::kBlocks || innermost.dimension() == words::kKeys;
  if (innermost.unit().empty() && !keys) absl::StrAppend(&text, ", halos kept");
  return text;
}

}  // namespace tessera::compiler
