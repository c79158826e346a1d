#include "compiler/backends/spatial/tile_tree.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/lower.h"
#include "compiler/intrinsic/verify.h"
#include "compiler/schedule/text.h"
#include "compiler/target/instruction_sets.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

using google::protobuf::util::MessageDifferencer;

/// A tile without its children.
v1::Tile alone(v1::Tile tile) {
  tile.clear_children();
  return tile;
}

const v1::Tile& leafOf(const v1::Tile& tree) {
  const v1::Tile* tile = &tree;
  while (tile->children_size() > 0) tile = &tile->children(0);
  return *tile;
}

std::string leafPath(const v1::Tile& tree, std::string path) {
  for (const v1::Tile* tile = &tree; tile->children_size() > 0; tile = &tile->children(0)) path = childPath(path, 0);
  return path;
}

std::optional<v1::Intrinsic> instructionNamed(const std::string& name, const v1::Target& target) {
  for (v1::Intrinsic& intrinsic : instructionsOf(target))
    if (intrinsic.name() == name) return std::move(intrinsic);
  return std::nullopt;
}

/// Reads the mapping of a leaf.
class LeafReader {
 public:
  LeafReader(const v1::Kernel& kernel, std::string path, const loopnest::Nest& software,
             const loopnest::Nest& instruction)
      : kernel_(kernel), path_(std::move(path)), software_(software), instruction_(instruction) {}

  /// `whole`: the nest with the loops of extent 1 that the mapping needs.
  absl::StatusOr<intrinsic::Matching> run(loopnest::Nest& whole) {
    intrinsic::Matching matching;
    const auto sources = static_cast<int>(instruction_.accesses.size()) - 1;
    std::vector<int> sorted(kernel_.sources().begin(), kernel_.sources().end());
    std::ranges::sort(sorted);
    for (int i = 0; i < static_cast<int>(sorted.size()); ++i)
      if (sorted[static_cast<size_t>(i)] != i) sorted.clear();
    if (static_cast<int>(sorted.size()) != sources || software_.accesses.size() != instruction_.accesses.size()) {
      return fault("no order of the nest's factors", absl::StrCat(kernel_.sources_size(), " sources"),
                   absl::StrCat("each of 0 to ", software_.accesses.size() - 2, " once, for ", sources, " sources"));
    }
    for (const int source : kernel_.sources()) matching.source.push_back(source + 1);
    whole = intrinsic::withUnitLoops(software_, instruction_, matching.source);
    matching.iteration.assign(whole.loops.size(), -1);
    for (const v1::Match& match : kernel_.matching()) {
      const int loop = whole.loopNamed(match.loop()), iteration = instruction_.loopNamed(match.iteration());
      if (loop < 0 || iteration < 0 || matching.iteration[static_cast<size_t>(loop)] >= 0) {
        return fault("no match of a loop and an iteration", match.loop() + " to " + match.iteration(),
                     "a loop of the nest, once, and an iteration of the instruction");
      }
      matching.iteration[static_cast<size_t>(loop)] = iteration;
    }
    const intrinsic::Verdict verdict = intrinsic::verify(whole, instruction_, matching);
    if (!verdict.correct) return fault("a wrong mapping", verdict.reason, "a mapping by algorithm 4 (AMOS)");
    return matching;
  }

 private:
  absl::Status fault(const std::string& message, const std::string& found, const std::string& accepted) const {
    return scheduleFault(path_, message, found, accepted);
  }

  const v1::Kernel& kernel_;
  const std::string path_;
  const loopnest::Nest& software_;
  const loopnest::Nest& instruction_;
};

/// Reads the tiles of a tree: steps of the dimensions at each level.
absl::StatusOr<intrinsic::Tiling> tilingOf(const v1::Tile& tree, const intrinsic::Choice& choice,
                                           const loopnest::Nest& instruction,
                                           const std::vector<intrinsic::Stage>& stages, std::string path) {
  const std::vector<int64_t> extents = intrinsic::dimensionsOf(choice.software, choice.mapping);
  std::vector<std::string> names;
  for (size_t i = 0; i < choice.mapping.groups.size(); ++i)
    names.push_back(absl::StrCat(instruction.loops[i].name, "/", choice.mapping.groups[i].size));
  for (const int loop : choice.mapping.outer) names.push_back(choice.software.loops[static_cast<size_t>(loop)].name);
  // steps[l][d]: blocks of a tile of level l - 1, 0 without a loop.
  std::vector<std::vector<int64_t>> steps(stages.size(), std::vector<int64_t>(extents.size(), 0));
  std::vector<int64_t> innermost(extents.size(), 1);
  for (const v1::Tile* tile = &tree;; tile = &tile->children(0), path = childPath(path, 0)) {
    const auto stage = std::ranges::find(stages, tile->level(), &intrinsic::Stage::name);
    if (stage == stages.end()) return scheduleFault(path, "no level of the mapping", "'" + tile->level() + "'", "");
    const auto level = static_cast<size_t>(stage - stages.begin());
    for (const v1::Loop& loop : tile->loops()) {
      const auto found = std::ranges::find(names, loop.dimension());
      const auto d = static_cast<size_t>(found - names.begin());
      if (found == names.end() || loop.step() < 1 || steps[level][d] != 0) {
        return scheduleFault(path, "no loop over blocks", absl::StrCat(loop.dimension(), "/", loop.step()),
                             "a dimension of the mapping, once at each level, with steps of at least 1");
      }
      steps[level][d] = loop.step();
      if (level == 0) innermost[d] = 0;  // any number of blocks: given by the next outer loop's steps
    }
    if (tile->children_size() == 0) break;
  }
  intrinsic::Tiling tiling(stages.size(), extents);
  for (size_t level = stages.size() - 1; level > 0; --level)
    for (size_t d = 0; d < extents.size(); ++d)
      tiling[level - 1][d] = steps[level][d] > 0 ? std::min(steps[level][d], tiling[level][d]) : tiling[level][d];
  return tiling;
}

}  // namespace

absl::Status unusable(const std::string& path, const absl::Status& reason) {
  return scheduleFault(path, "the tiles do not fit the chip", std::string(reason.message()), "");
}

absl::Status sameTree(const v1::Tile& found, const v1::Tile& expected, const std::string& path) {
  if (!MessageDifferencer::Equals(alone(found), alone(expected))) {
    return scheduleFault(path, "the tile does not fit the nest", absl::StrCat("\"", printTileLine(found), "\""),
                         absl::StrCat("\"", printTileLine(expected), "\""));
  }
  if (found.children_size() != expected.children_size()) {
    return scheduleFault(path, "children of a tile", absl::StrCat(found.children_size()),
                         absl::StrCat(expected.children_size()));
  }
  for (int child = 0; child < found.children_size(); ++child)
    TESSERA_RETURN_IF_ERROR(sameTree(found.children(child), expected.children(child), childPath(path, child)));
  return absl::OkStatus();
}

v1::Tile treeOf(const Program& program, int nest, int follower) {
  const intrinsic::Choice& choice = program.choice;
  v1::Tile tree;
  v1::Tile* tile = nullptr;
  const auto open = [&](const std::string& level) {
    if (tile != nullptr) tile->set_join(v1::Tile::SEQ);
    tile = tile == nullptr ? &tree : tile->add_children();
    tile->set_level(level);
  };
  // Every level once, outermost first, then again where the loops of an outer level follow those of an inner one.
  auto level = static_cast<int>(choice.tiling.size()) - 1;
  const auto nameOf = [&](int at) { return program.levels[static_cast<size_t>(at)]; };
  open(nameOf(level));
  // The tile within which results leave, once they are complete.
  const auto epilogue = std::ranges::find(program.steps, Step::kVector, &Step::kind);
  v1::Tile* joined = nullptr;
  const auto joinAt = [&](size_t depth) {
    if (epilogue == program.steps.end() || epilogue->depth != static_cast<int>(depth)) return false;
    joined = tile;
    return true;
  };
  for (size_t l = 0; l < program.loops.size(); ++l) {
    const ProgramLoop& loop = program.loops[l];
    const bool joins = joinAt(l);
    if (joins && level == loop.level) open(nameOf(level));
    while (level > loop.level) open(nameOf(--level));
    if (level < loop.level) {
      level = loop.level;
      open(nameOf(level));
    }
    v1::Loop* written = tile->add_loops();
    written->set_dimension(program.dimensions[static_cast<size_t>(loop.dimension)].name);
    written->set_step(loop.step);
    if (static_cast<int>(l) < program.shared) written->set_unit(program.unit);
  }
  joinAt(program.loops.size());
  while (level > 0) open(nameOf(--level));
  for (size_t d = 0; d < program.dimensions.size(); ++d) {
    if (choice.tiling[0][d] == 1) continue;
    v1::Loop* loop = tile->add_loops();
    loop->set_dimension(program.dimensions[d].name);
    loop->set_step(1);
  }
  v1::Kernel* kernel = tile->mutable_kernel();
  kernel->set_variant(std::string(words::kCall));
  kernel->set_nest(nest);
  kernel->set_instruction(choice.intrinsic.name());
  for (size_t l = 0; l < choice.software.loops.size(); ++l) {
    if (choice.matching.iteration[l] < 0) continue;
    v1::Match* match = kernel->add_matching();
    match->set_loop(choice.software.loops[l].name);
    match->set_iteration(program.instruction.loops[static_cast<size_t>(choice.matching.iteration[l])].name);
  }
  for (const int source : choice.matching.source) kernel->add_sources(source - 1);
  if (joined != nullptr) {
    joined->set_join(v1::Tile::SHAR);
    *joined->add_children() =
        vectorLeaf(program.epilogue->level, program.epilogue->unit, program.epilogue->lanes, follower);
  }
  return tree;
}

v1::Tile vectorLeaf(const std::string& level, const std::string& unit, int lanes, int nest) {
  v1::Tile leaf;
  leaf.set_level(level);
  v1::Kernel& kernel = *leaf.mutable_kernel();
  kernel.set_variant(std::string(words::kVector));
  kernel.set_nest(nest);
  kernel.set_instruction(unit);
  kernel.set_lanes(lanes);
  return leaf;
}

v1::Tile initialTree(int nest) {
  v1::Tile tree;
  tree.mutable_kernel()->set_variant(std::string(words::kInitial));
  tree.mutable_kernel()->set_nest(nest);
  return tree;
}

const v1::Kernel& leafKernel(const v1::Tile& tree) { return leafOf(tree).kernel(); }

FollowerLeaf followerLeaf(const v1::Tile& tree, std::string path) {
  for (const v1::Tile* tile = &tree; tile->children_size() > 0; tile = &tile->children(0), path = childPath(path, 0))
    if (tile->children_size() > 1) return {&tile->children(1), childPath(path, 1)};
  return {};
}

absl::StatusOr<Program> programOf(const v1::Tile& tree, const ProductNest& product, int nest, const std::string& path,
                                  const std::optional<Epilogue>& epilogue, int follower, const v1::Target& target) {
  const v1::Kernel& kernel = leafOf(tree).kernel();
  std::optional<v1::Intrinsic> intrinsic = instructionNamed(kernel.instruction(), target);
  if (!intrinsic) {
    return scheduleFault(leafPath(tree, path), "no instruction of " + target.name(), "'" + kernel.instruction() + "'",
                         "");
  }
  TESSERA_ASSIGN_OR_RETURN(const loopnest::Nest instruction, intrinsic::nestOf(*intrinsic));
  const std::vector<int> sources(kernel.sources().begin(), kernel.sources().end());
  if (const std::string reason = unfit(product, *intrinsic, instruction, sources); !reason.empty())
    return scheduleFault(leafPath(tree, path), "an instruction that does not compute the nest", reason, "");
  intrinsic::Choice choice;
  TESSERA_ASSIGN_OR_RETURN(choice.matching,
                           LeafReader(kernel, leafPath(tree, path), product.nest, instruction).run(choice.software));
  absl::StatusOr<intrinsic::PhysicalMapping> mapping =
      intrinsic::physicalMapping(choice.software, *intrinsic, choice.matching, target);
  if (!mapping.ok()) return unusable(leafPath(tree, path), mapping.status());
  if (isTooLong(*mapping)) {
    return unusable(leafPath(tree, path),
                    absl::FailedPreconditionError(absl::StrCat("an iteration stands for more than ", kMaxGroupIndices,
                                                               " indices of the nest's loops")));
  }
  choice.mapping = *std::move(mapping);
  const std::vector<intrinsic::Stage> stages = intrinsic::costLevelsOf(*intrinsic, target);
  TESSERA_ASSIGN_OR_RETURN(choice.tiling, tilingOf(tree, choice, instruction, stages, path));
  choice.intrinsic = *std::move(intrinsic);
  absl::Status refused;
  for (const bool innermost : {false, true}) {
    absl::StatusOr<Program> program =
        lower(choice, target, {.reductions_innermost = innermost, .overlap = false, .exact = true},
              {.views = product.views, .stored = product.stored, .epilogue = epilogue});
    if (!program.ok()) return unusable(path, program.status());
    absl::Status same = sameTree(tree, treeOf(*program, nest, follower), path);
    if (same.ok()) return program;
    if (refused.ok()) refused = std::move(same);
  }
  return refused;
}

}  // namespace tessera::compiler::simulator
