#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/cpu/kernel/kernels.h"
#include "compiler/backends/cpu/kernel/registry.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tree/loop_names.h"
#include "compiler/schedule/kernel_traits.h"
#include "compiler/schedule/text.h"
#include "compiler/schedule/words.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// The largest prefetch distance in steps.
constexpr int kMaxAhead = 1024;

std::string loopsOf(const Nest& nest) {
  std::vector<std::string> names;
  for (int loop = 0; loop < nest.loops(); ++loop)
    names.push_back(absl::StrCat(loopName(nest, loop), " (", nest.extents[loop], ")"));
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

/// Reads one leaf. Each step relies on the steps before it.
class LeafReader {
 public:
  LeafReader(const Leaf& leaf, const Nest& nest, const Chip& chip)
      : tile_(*leaf.tile), kernel_(leaf.tile->kernel()), path_(leaf.path), nest_(nest), chip_(chip) {}

  absl::StatusOr<TilePlan> read(bool pack) {
    // Loops that the leaf does not name have one iteration in the tile and no block.
    plan_.tile.assign(nest_.loops(), 1);
    plan_.block.assign(nest_.loops(), 0);
    for (auto step : {&LeafReader::vectors, &LeafReader::registerTile, &LeafReader::orders, &LeafReader::levels})
      TESSERA_RETURN_IF_ERROR((this->*step)());
    TESSERA_RETURN_IF_ERROR(packing());
    TESSERA_RETURN_IF_ERROR(variant(pack));
    return std::move(plan_);
  }

 private:
  absl::Status fault(const std::string& message, const std::string& found, const std::string& accepted) const {
    return scheduleFault(path_, message, found, accepted);
  }

  absl::Status vectors() {
    const auto& step = nest_.statements[0].step;
    if (kernel_.instruction() != (step ? step->name() : ""))
      return fault("an instruction of a leaf that is not a product", kernel_.instruction(), "none");
    plan_.lanes = kernel_.lanes();
    const bool scalar = kernel_.lanes() == 1;
    if (scalar != kernel_.vector_loop().empty())
      return fault("a kernel has a vector loop exactly if it has several lanes", kernel_.vector_loop(), loopsOf(nest_));
    if (scalar) return absl::OkStatus();
    const int lanes = lanesOf(nest_, chip_);
    // Kernels that transpose squares may use narrower vectors, since a square has at most kMaxTransposedLanes rows.
    const bool squares =
        kernel_.variant() == words::kTransposed || (kernel_.variant() == words::kPack && !kernel_.transposed().empty());
    const bool part = squares && kernel_.lanes() == kMaxTransposedLanes && lanes > kMaxTransposedLanes;
    if (lanes < 2 || (kernel_.lanes() != lanes && !part))
      return fault("lanes of a vector", absl::StrCat(kernel_.lanes()),
                   lanes < 2
                       ? "1"
                       : absl::StrCat("1, or ", lanes, " of the widest type in vectors of ", chip_.vectorBits(),
                                      " bits, or ", kMaxTransposedLanes, " of these in squares that are transposed"));
    TESSERA_ASSIGN_OR_RETURN(auto loop, loopNamed(nest_, kernel_.vector_loop(), path_));
    plan_.vector_loop = loop;
    plan_.horizontal = nest_.reduction[loop];
    return absl::OkStatus();
  }

  absl::Status registerTile() {
    int last = -1;
    int64_t inside = 1;
    for (const v1::Extent& extent : kernel_.tile()) {
      TESSERA_ASSIGN_OR_RETURN(auto loop, loopNamed(nest_, extent.dimension(), path_));
      // A fixed order gives each plan one text.
      if (loop <= last)
        return fault("the loops of a tile must be in the nest's order, each once", extent.dimension(), loopsOf(nest_));
      last = loop;
      if (extent.size() < 2 || extent.size() > nest_.extents[loop])
        return fault(absl::StrCat("extent of the tile along ", extent.dimension()), absl::StrCat(extent.size()),
                     absl::StrCat("2 to ", nest_.extents[loop], ", or omitted for 1"));
      plan_.tile[loop] = extent.size();
      // Bounds the size of the code: unrolled points and steps are emitted one by one.
      if (traitsOf(kernel_.variant()).unrolls_steps || !nest_.reduction[loop])
        inside *= loop == plan_.vector_loop ? ceilDiv(extent.size(), plan_.lanes) : extent.size();
      if (inside > kMaxInTile)
        return fault("vectors of the tile times its steps", absl::StrCat("more than ", kMaxInTile),
                     absl::StrCat("at most ", kMaxInTile));
    }
    if (traitsOf(kernel_.variant()).tile == KernelTraits::Tile::kNone && last >= 0)
      return fault("tile of a kernel without tiles", kernel_.tile(0).dimension(), "no tile");
    return absl::OkStatus();
  }

  absl::Status orders() {
    llvm::SmallVector<int> several, sums;
    for (int loop = 0; loop < nest_.loops(); ++loop) {
      if (nest_.reduction[loop]) {
        sums.push_back(loop);
      } else if (pointsAlong(plan_, loop) > 1) {
        several.push_back(loop);
      }
    }
    TESSERA_ASSIGN_OR_RETURN(
        auto points, permutationOf(nest_, kernel_.points(), several, "loops with several points in the tile", path_));
    plan_.points = std::move(points);
    // The vector loop is last: its final vector may be partial.
    if (plan_.lanes > 1 && !plan_.horizontal && !llvm::is_contained(plan_.points, plan_.vector_loop))
      plan_.points.push_back(plan_.vector_loop);
    TESSERA_ASSIGN_OR_RETURN(plan_.reductions,
                             permutationOf(nest_, kernel_.reductions(), sums, "reduction loops", path_));
    if (kernel_.transposed().empty()) return absl::OkStatus();
    if (plan_.lanes == 1) return fault("transposed squares need vectors", kernel_.transposed(), "none");
    TESSERA_ASSIGN_OR_RETURN(auto along, loopNamed(nest_, kernel_.transposed(), path_));
    plan_.transposed = along;
    return absl::OkStatus();
  }

  /// Reads the loops around the tile: nested blocks, and the tiles of each parallel loop that the tile does not cover
  /// entirely.
  absl::Status levels() {
    llvm::SmallVector<bool> walked(nest_.loops(), false);
    llvm::SmallVector<int> blocks(nest_.loops(), 0);
    bool in_grid = true;
    for (const v1::Loop& each : tile_.loops()) {
      TESSERA_ASSIGN_OR_RETURN(auto found, loopNamed(nest_, each.dimension(), path_));
      const int loop = found;
      const int64_t extent = nest_.extents[loop], tile = plan_.tile[loop], step = each.step();
      // A loop whose step is the tile's walks tiles; any other step, and each loop of a sum, is a block.
      const bool block = step != tile || nest_.reduction[loop];
      if (walked[loop] || (block && blocks[loop] == kMaxBlockLevels))
        return fault("a loop has too many levels of blocks", each.dimension(),
                     absl::StrCat(kMaxBlockLevels, " levels of blocks at most"));
      if (step < 1 || step >= extent || step % tile != 0 || (block && step <= tile))
        return fault(absl::StrCat("step of ", each.dimension()), absl::StrCat(step),
                     absl::StrCat(tile, ", the tile's, or a multiple of it below ", extent));
      if (const int64_t outer = plan_.block[loop]; outer > 0 && (step >= outer || outer % step != 0))
        return fault(absl::StrCat("step of ", each.dimension(), " within a block"), absl::StrCat(step),
                     absl::StrCat("a divisor of ", outer));
      if (block) {
        plan_.block[loop] = step;
        ++blocks[loop];
      } else {
        walked[loop] = true;
        plan_.order.push_back(loop);
      }
      // Spatial loops form the grid and must be outermost.
      if (each.unit().empty()) {
        in_grid = false;
      } else if (each.unit() != words::kCore || !in_grid || nest_.reduction[loop]) {
        return fault(absl::StrCat("unit of ", each.dimension()), each.unit(),
                     in_grid && !nest_.reduction[loop]
                         ? std::string(words::kCore)
                         : "none: it is a reduction, or a loop outside of it has no unit");
      } else {
        ++plan_.grid_levels;
      }
      plan_.levels.push_back({loop, step});
    }
    for (int loop = 0; loop < nest_.loops(); ++loop)
      if (!nest_.reduction[loop] && !walked[loop] && plan_.tile[loop] != nest_.extents[loop])
        return fault("no loop walks all tiles", loopName(nest_, loop),
                     absl::StrCat("a loop in steps of ", plan_.tile[loop], ", or a tile of ", nest_.extents[loop]));
    return absl::OkStatus();
  }

  absl::Status variant(bool pack) {
    const std::string& wanted = kernel_.variant();
    // Collects all kernels that fit, for the message.
    std::vector<std::string> fitting;
    for (const MicroKernel* each : microKernels())
      if (pack ? each == &packKernel() : each->fits(nest_, plan_)) fitting.emplace_back(each->traits().name);
    plan_.kernel = kernelNamed(wanted);
    if (!llvm::is_contained(fitting, wanted))
      return fault("variant of the kernel", wanted, absl::StrJoin(fitting, ", "));
    const v1::Prefetch& fetch = kernel_.prefetch();
    plan_.ahead = fetch.ahead();
    plan_.prefetch_rows = fetch.rows();
    plan_.prefetch_panel = fetch.panel();
    plan_.prefetch_results = fetch.results();
    if (kernel_.has_prefetch() && (fetch.ByteSizeLong() == 0 || fetch.ahead() < 0 || fetch.ahead() > kMaxAhead))
      return fault("prefetch distance of vectors, in steps", absl::StrCat(fetch.ahead()),
                   absl::StrCat("1 to ", kMaxAhead, ", or no prefetch"));
    plan_.interleaved = kernel_.interleaved();
    if (plan_.interleaved && (!plan_.kernel->traits().interleaves || pointsOf(nest_, plan_) < 2))
      return fault("interleaved operations of points", wanted,
                   "a kernel that evaluates two or more points in each step of its reduction");
    if (std::string reason = plan_.kernel->refusal(nest_, plan_); !reason.empty())
      return fault(absl::StrCat("a kernel that cannot run the nest: ", reason), wanted, "");
    return absl::OkStatus();
  }

  absl::Status packing() {
    for (const v1::Stage& stage : tile_.stages()) {
      PackedOperand packed{.input = stage.operand(), .loop = -1};
      const auto inputs = static_cast<int>(nest_.statements[0].inputs.size());
      if (stage.layout() != words::kPanels && stage.layout() != words::kApart)
        return fault("layout of an operand", stage.layout(), "panels, apart");
      if (stage.nest() != 0 || stage.statement() != 0 || !stage.strides().empty())
        return fault("the stage of a leaf must be an operand in panels", "strides",
                     "nothing but operand, along and order");
      packed.strided_copy = stage.layout() == words::kApart;
      // An index from outside: checked before it is used.
      if (packed.input < 0 || packed.input >= inputs || !canPack(nest_, packed.input) ||
          llvm::any_of(plan_.packed, [&](const PackedOperand& other) { return other.input == packed.input; }))
        return fault("operand that cannot be packed, or is packed already", absl::StrCat(packed.input),
                     "an operand in memory whose elements the nest walks as a box");
      const Operand& operand = nest_.statements[0].inputs[packed.input];
      TESSERA_ASSIGN_OR_RETURN(auto along, loopNamed(nest_, stage.along(), path_));
      packed.loop = along;
      llvm::SmallVector<int> walked;
      for (int loop = 0; loop < nest_.loops(); ++loop)
        if (varies(operand, loop)) walked.push_back(loop);
      TESSERA_ASSIGN_OR_RETURN(auto order, permutationOf(nest_, stage.order(), walked, "loops of the panels", path_));
      packed.order = std::move(order);
      if (!llvm::is_contained(packed.order, packed.loop))
        return fault("the operand does not walk the loop that is cut into panels", stage.along(),
                     absl::StrJoin(stage.order(), ","));
      // Along a reduction there is a single panel, wherever it is placed.
      const auto* place = llvm::find(packed.order, packed.loop);
      if (nest_.reduction[packed.loop] && std::any_of(static_cast<const int*>(packed.order.begin()), place,
                                                      [&](int loop) { return nest_.reduction[loop]; }))
        return fault("a panel along a reduction must come before the other reductions", stage.along(), "");
      TESSERA_RETURN_IF_ERROR(within(stage, packed));
      if (!packed.within && llvm::any_of(plan_.packed, [](const PackedOperand& other) { return other.within; }))
        return fault("copies before the nest must precede copies within its blocks", absl::StrCat(stage.operand()),
                     "copies before the nest first");
      packed.distance = stage.distance();
      if (!packed.within)  // packWithin() knows which loops a block has
        if (std::string accepted = refusedDistance(nest_, plan_, packed, packed.order); !accepted.empty())
          return fault("elements from one row to the next", absl::StrCat(packed.distance), accepted);
      plan_.packed.push_back(std::move(packed));
    }
    return absl::OkStatus();
  }

  /// Reads a copy of one block, which covers all iterations of the tile along its loops.
  absl::Status within(const v1::Stage& stage, PackedOperand& packed) {
    packed.within = stage.within();
    const auto levels = static_cast<int>(plan_.levels.size());
    packed.ahead = stage.ahead();
    if (!packed.within)
      return stage.outside() == 0 && stage.ahead() == 0 && stage.copies().empty()
                 ? absl::OkStatus()
                 : fault("a copy before the nest has no loops outside and no prefetch distance",
                         absl::StrCat(stage.outside(), " and ", stage.ahead()), "0 and 0, no leaves");
    if (packed.ahead < 0 || packed.ahead > kMaxAhead)
      return fault("prefetch distance of the copy, in steps", absl::StrCat(packed.ahead),
                   absl::StrCat("0 to ", kMaxAhead));
    if (stage.outside() < std::max(1, plan_.grid_levels) || stage.outside() > levels)
      return fault("loops outside of the copy", absl::StrCat(stage.outside()),
                   absl::StrCat(std::max(1, plan_.grid_levels), " to ", levels));
    // The emitter has one place for copies.
    if (plan_.copy_level > 0 && plan_.copy_level != stage.outside())
      return fault("two operands are copied at different loops", absl::StrCat(stage.outside()),
                   absl::StrCat(plan_.copy_level));
    plan_.copy_level = stage.outside();
    if (nest_.reduction[packed.loop])
      return fault("panels within blocks must not be along a reduction", stage.along(), "a parallel loop");
    for (int level = 0; level < plan_.copy_level; ++level) {
      const auto [loop, step] = plan_.levels[level];
      // The copy would be repeated for each tile of that loop.
      if (varies(nest_.statements[0].inputs[packed.input], loop) && step == plan_.tile[loop] && step > 1)
        return fault("a loop over tiles that the operand walks is outside of its copy", loopName(nest_, loop),
                     "blocks of it outside, tiles inside");
    }
    return absl::OkStatus();
  }

  const v1::Tile& tile_;
  const v1::Kernel& kernel_;
  const std::string& path_;
  const Nest& nest_;
  const Chip& chip_;
  TilePlan plan_;
};

/// Checks the fields that every leaf must have, and those that no leaf may have.
absl::Status checkForm(const Leaf& leaf, int number, int operand) {
  const v1::Tile& tile = *leaf.tile;
  if (!tile.has_kernel() || !tile.children().empty())
    return scheduleFault(leaf.path, "a leaf must be a kernel without children", printTileLine(tile), "a kernel");
  if (tile.join() != v1::Tile::JOIN_UNSPECIFIED || !tile.level().empty() || tile.deferred_softmax())
    return scheduleFault(leaf.path, "a leaf has no level, join or rewriting", printTileLine(tile),
                         "no level, no join, no rewriting");
  if (tile.kernel().nest() != number)
    return scheduleFault(leaf.path, "nest of the leaf", absl::StrCat(tile.kernel().nest()), absl::StrCat(number));
  if (tile.kernel().operand() != operand)
    return scheduleFault(leaf.path, "input that the leaf packs", absl::StrCat(tile.kernel().operand()),
                         absl::StrCat(operand));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> loopNamed(const Nest& nest, const std::string& name, const std::string& path) {
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (loopName(nest, loop) == name) return loop;
  return scheduleFault(path, "the nest has no such loop", name.empty() ? "no name" : name, loopsOf(nest));
}

absl::StatusOr<TilePlan> planOf(const Leaf& leaf, const Nest& nest, int number, const Chip& chip) {
  TESSERA_RETURN_IF_ERROR(checkForm(leaf, number, 0));
  return LeafReader(leaf, nest, chip).read(/*pack=*/false);
}

absl::StatusOr<TilePlan> packPlanOf(const Leaf& leaf, const Nest& copy, int number, int operand, int64_t width,
                                    const Chip& chip) {
  TESSERA_RETURN_IF_ERROR(checkForm(leaf, number, operand));
  if (!leaf.tile->stages().empty() || leaf.tile->kernel().has_prefetch())
    return scheduleFault(leaf.path, "a copy has no stages and no prefetches", printTileLine(*leaf.tile),
                         "no stage, no fetch");
  TESSERA_ASSIGN_OR_RETURN(auto plan, LeafReader(leaf, copy, chip).read(/*pack=*/true));
  // At the border between two panels, elements have another distance than within a panel.
  const Access& panels = copy.statements[0].outputs[0].access;
  for (int loop = 0; loop < copy.loops(); ++loop)
    if (panels.between(loop) != panels.strides[loop] && plan.tile[loop] != std::min(width, copy.extents[loop]))
      return scheduleFault(leaf.path, absl::StrCat("a tile of a copy is one panel along ", loopName(copy, loop)),
                           absl::StrCat(plan.tile[loop]), absl::StrCat(std::min(width, copy.extents[loop])));
  return plan;
}

}  // namespace tessera::compiler::codegen
