#include "compiler/backends/cpu/region/region_scratch.h"

#include <algorithm>
#include <tuple>

#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/backends/cpu/tiling/reduction.h"
#include "compiler/ir/arena.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

namespace tessera::compiler::codegen {
namespace {

using mlir::Value;

/// A buffer of the region's scratch; `number` is its position in the argument.
struct Scratch {
  Value buffer;
  Lifetime life;
  int number = 0;
};

template <typename Fn>
void forEachStep(const Region& region, Fn fn) {
  for (const RegionVariant& variant : region.variants)
    for (const RegionNestRun& step : variant.steps) fn(step);
}

/// Calls fn for every buffer the step reads or writes in memory.
template <typename Fn>
void forEachBuffer(const RegionNestRun& step, Fn fn) {
  for (const Statement& statement : step.nest.statements) {
    for (const Operand& input : statement.inputs)
      if (accessesInputMemory(input)) fn(input.access.root);
    for (auto [o, output] : llvm::enumerate(statement.outputs))
      if (accessesOutputMemory(statement, o)) fn(output.access.root);
    statement.op->walk([&](mlir::memref::LoadOp load) { fn(rootOf(load.getMemRef())); });
  }
}

/// Whether every nest that is step `number` computes `to` from `from` point by point and reads `from` at no other
/// place. The nest may accumulate its result.
bool overwrites(const Region& region, int number, Value from, Value to) {
  bool found = false, fine = true;
  forEachStep(region, [&](const RegionNestRun& step) {
    if (step.number != number) return;
    const Statement& statement = step.nest.statements[0];
    int made = -1;
    for (auto [s, each] : llvm::enumerate(step.nest.statements)) {
      for (auto [o, output] : llvm::enumerate(each.outputs))
        if (output.access.root == to) {
          fine &= s == 0 && made < 0;
          made = static_cast<int>(o);
        }
      for (const Operand& input : each.inputs) fine &= s == 0 || input.from || input.access.root != from;
    }
    if (made < 0 || (step.nest.hasReduction() ? !isStreamed(step.nest, made) : statement.outputs.size() != 1) ||
        statement.outputs[made].access.element.isInteger(1)) {
      fine = false;
      return;
    }
    for (const Operand& input : statement.inputs) {
      if (input.access.root != from) continue;
      Access same = input.access;
      same.root = to;
      fine &= same == statement.outputs[made].access && same.element == statement.outputs[made].access.element;
      found = true;
    }
  });
  return found && fine;
}

bool keepsRows(const Region& region, Value buffer) {
  return llvm::any_of(region.variants, [&](const RegionVariant& variant) {
    return llvm::any_of(variant.moves, [&](const HaloMove& move) { return move.root == buffer; });
  });
}

}  // namespace

void placeRegionScratch(Region& region, llvm::ArrayRef<std::pair<Value, int64_t>> buffers, int nests) {
  std::vector<Scratch> scratch;
  for (auto [number, buffer] : llvm::enumerate(buffers)) {
    Scratch each{buffer.first, {(buffer.second + 63) / 64 * 64, nests, -1}, static_cast<int>(number)};
    forEachStep(region, [&](const RegionNestRun& step) {
      // A step that does not run in every slice leaves values that later slices read: its buffers are live throughout.
      const bool always = step.depth == static_cast<int>(region.counts.size());
      forEachBuffer(step, [&](Value root) {
        if (root != each.buffer) return;
        each.life.first = std::min(each.life.first, always ? step.number : 0);
        each.life.last = std::max(each.life.last, always ? step.number : nests);
      });
    });
    const bool kept = keepsRows(region, each.buffer);
    // No step touches the buffer.
    if (each.life.first > each.life.last) continue;
    if (kept) each.life = {each.life.bytes, 0, nests};
    scratch.push_back(each);
  }
  // In the order of first use, so that a chain of overlays ends in one place.
  llvm::SmallVector<std::pair<Value, Value>> over;  // the later buffer, and the earlier one whose memory it reuses
  std::sort(scratch.begin(), scratch.end(), [](const Scratch& a, const Scratch& b) {
    return std::tie(a.life.first, a.number) < std::tie(b.life.first, b.number);
  });
  for (size_t later = 0; later < scratch.size(); ++later)
    for (size_t i = 0; i < later; ++i) {
      Scratch &earlier = scratch[i], &mine = scratch[later];
      // The step that reads the earlier buffer last must be the one that writes the later buffer first.
      if (earlier.life.last != mine.life.first || earlier.life.bytes < mine.life.bytes ||
          keepsRows(region, mine.buffer) || keepsRows(region, earlier.buffer) ||
          !overwrites(region, mine.life.first, earlier.buffer, mine.buffer))
        continue;
      // Only a buffer with memory of its own can be reused; a buffer that itself reuses another one's memory has none.
      if (llvm::any_of(over, [&](const auto& pair) { return pair.first == earlier.buffer; })) continue;
      over.emplace_back(mine.buffer, earlier.buffer);
      earlier.life.last = mine.life.last;
      scratch.erase(scratch.begin() + static_cast<int64_t>(later--));
      break;
    }
  // The steps of a strip interleave, so for all other buffers they count as one point in time.
  for (const RegionVariant& variant : region.variants)
    for (const Strip& strip : variant.strips) {
      const int first = variant.steps[strip.first].number, last = variant.steps[strip.end - 1].number;
      for (Scratch& each : scratch) {
        if (each.life.first > first && each.life.first <= last) each.life.first = first;
        if (each.life.last >= first && each.life.last < last) each.life.last = last;
      }
    }
  std::sort(scratch.begin(), scratch.end(), [](const Scratch& a, const Scratch& b) { return a.number < b.number; });
  std::vector<Lifetime> lifetimes;
  for (const Scratch& each : scratch) lifetimes.push_back(each.life);
  const Arena arena = packArena(lifetimes, Packing::kOnce);
  region.scratch_bytes = arena.bytes;
  for (auto [each, offset] : llvm::zip_equal(scratch, arena.offsets)) region.scratch.emplace_back(each.buffer, offset);
  for (auto [buffer, below] : over)
    for (auto [each, offset] : llvm::zip_equal(scratch, arena.offsets))
      if (each.buffer == below) region.scratch.emplace_back(buffer, offset);
}

}  // namespace tessera::compiler::codegen
