#include "compiler/backends/cpu/tiling/nested_blocks.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/tiling/contraction_plan.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/fusion/nested_planner.h"
#include "compiler/loopnest/nest.h"

namespace tessera::compiler::codegen {
namespace {

/// A type of the element's size, which is all that blocks depend on.
v1::DataType typeOfSize(mlir::Type element) {
  switch (elementBits(element)) {
    case 64:
      return v1::DATA_TYPE_F64;
    case 32:
      return v1::DATA_TYPE_F32;
    case 16:
      return v1::DATA_TYPE_F16;
    default:
      return v1::DATA_TYPE_I8;
  }
}

/// The operand as a box: one dimension for each loop that moves it.
loopnest::Access accessOf(const Nest& nest, const Operand& operand, const std::string& name) {
  loopnest::Access access{.name = name, .dtype = typeOfSize(operand.access.element)};
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (operand.access.strides[loop] != 0) access.subscripts.push_back({.terms = {{loop, 1}}});
  return access;
}

/// The product as a chain with one member. Its blocks consist of whole tiles, and of whole sums or of parts as long as
/// the plan's: shorter parts would make the kernel interrupt its sums too often. Nothing if an operand is not accessed
/// as a box.
std::optional<fusion::Chain> chainOf(const Nest& nest, const TilePlan& plan) {
  const Statement& product = nest.statements[0];
  fusion::Chain chain;
  loopnest::Statement member{.name = "product", .body = {.opaque = true}};
  for (int loop = 0; loop < nest.loops(); ++loop) {
    const int64_t extent = nest.extents[loop];
    const int64_t part = std::min(extent, nest.reduction[loop] ? plan.block[loop] : plan.tile[loop]);
    chain.loops.push_back({.name = absl::StrCat(loop),
                           .extent = extent,
                           .min_tile = std::max<int64_t>(1, part),
                           .whole = nest.reduction[loop] && part == 0,
                           .multiple = std::max<int64_t>(1, part)});
    member.loops.push_back(loop);
  }
  for (auto [number, input] : llvm::enumerate(product.inputs)) {
    if (!input.access.root || input.from || !canPack(nest, static_cast<int>(number))) return std::nullopt;
    member.inputs.push_back(static_cast<int>(chain.accesses.size()));
    chain.accesses.push_back(accessOf(nest, input, absl::StrCat("operand ", number)));
  }
  member.output = static_cast<int>(chain.accesses.size());
  chain.accesses.push_back(accessOf(nest, product.outputs[0], "result"));
  // A chain of one member: the planner minimizes the data movement of this product alone.
  chain.statements.push_back(std::move(member));
  return chain;
}

/// The chip's two farthest caches, farthest first: the capacity available to one core, and the bandwidth that fills it.
std::vector<fusion::BlockMemory> memoriesOf(const Chip& chip) {
  std::vector<fusion::BlockMemory> memories;
  for (size_t level = chip.levels().size() - 1; level-- > 0 && memories.size() < 2;) {
    const Chip::Level& cache = chip.level(level);
    memories.push_back({chip.costParameters().memory().resident_share() * chip.share(cache, cache.sharers),
                        chip.bytesPerSecond(chip.level(level + 1))});
  }
  return memories;
}

/// Appends the loops of a level; reduction loops go inside the others, which cores may share. A block that is not a
/// multiple of the inner block is dropped.
void addLevel(const Nest& nest, const fusion::LevelBlocks& blocks, llvm::ArrayRef<int64_t> inside, TilePlan& plan,
              llvm::SmallVector<int64_t>& outside) {
  for (const bool sums : {false, true})
    for (const int loop : blocks.order) {
      const int64_t step = blocks.tiles[loop] / inside[loop] * inside[loop];
      if (nest.reduction[loop] != sums || step <= inside[loop] || step >= outside[loop]) continue;
      plan.levels.push_back({loop, step});
      outside[loop] = plan.block[loop] = step;
    }
}

}  // namespace

void nestBlocks(const Nest& nest, const Chip& chip, TilePlan& plan) {
  const std::optional<fusion::Chain> chain = chainOf(nest, plan);
  const std::vector<fusion::BlockMemory> memories = memoriesOf(chip);
  if (!chain || memories.size() < 2) return;
  const auto nested = fusion::planNested(*chain, memories);
  if (!nested.ok()) return;  // not even the tiles fit
  const fusion::LevelBlocks& near = nested->members[0].levels[0];
  if (near.order.empty()) return;
  plan.levels.clear();
  plan.block.assign(nest.loops(), 0);
  llvm::SmallVector<int64_t> outside(nest.extents.begin(), nest.extents.end()), near_tiles(plan.tile);
  // Far blocks must be multiples of the near blocks, near blocks of the register tile.
  for (const int loop : near.order) near_tiles[loop] = near.tiles[loop];
  addLevel(nest, nested->far, near_tiles, plan, outside);
  addLevel(nest, near, plan.tile, plan, outside);
  plan.copy_level = static_cast<int>(plan.levels.size());
  for (const int loop : plan.order) plan.levels.push_back({loop, plan.tile[loop]});
  // Packing within blocks requires a block of the operand's rows.
  for (PackedOperand& packed : plan.packed)
    if (packed.within && plan.block[packed.loop] == 0) packed.within = false, packed.ahead = 0;
}

}  // namespace tessera::compiler::codegen
