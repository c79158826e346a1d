#include "compiler/backends/cpu/region/region_builder.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/backends/cpu/region/counted_keys.h"
#include "compiler/backends/cpu/region/region_scratch.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Variants are copies of the code: full, first and last slices for each slice loop.
constexpr size_t kMaxVariants = 27;

mlir::Type elementOf(mlir::Value root) { return llvm::cast<mlir::MemRefType>(root.getType()).getElementType(); }

}  // namespace

llvm::SmallVector<int64_t> denseStrides(llvm::ArrayRef<int64_t> sizes) {
  llvm::SmallVector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (int c = static_cast<int>(sizes.size()) - 1; c >= 0; --c) {
    strides[c] = stride;
    stride *= sizes[c];
  }
  return strides;
}

absl::StatusOr<RegionBuilder> RegionBuilder::create(const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops,
                                                    const Chip& chip) {
  TESSERA_ASSIGN_OR_RETURN(auto geometry, RegionGeometry::infer(nests, loops));
  return RegionBuilder(nests, loops, std::move(geometry), chip);
}

std::optional<UnkeptRows> RegionBuilder::unkeptRows() const {
  const auto* kept = llvm::find_if(loops_, [](const SliceLoop& loop) { return loop.sequence_length > 1; });
  if (kept == loops_.end()) return std::nullopt;
  const bool softmax = nests_.deferred_softmax || nests_.softmax || nests_.mask || kept + 1 != loops_.end();
  for (const Nest& nest : nests_.nests)
    for (const Statement& statement : nest.statements)
      for (const Operand& output : statement.outputs)
        if (!softmax && geometry_.keeps(output.access.root)) return std::nullopt;
  const Coordinates& result = nests_.coordinates.at(nests_.result);
  const std::string name = absl::StrCat("d", result.dims[kept->coordinate]);
  return UnkeptRows{absl::StrCat("slices along ", name, " follow each other, and ",
                                 softmax ? "a softmax keeps no rows" : "share no rows to keep"),
                    name, absl::StrCat("a loop over ", name, " whose slices are dealt to cores, once")};
}

absl::Status RegionBuilder::layOut() {
  size_t variants = 1;
  for (int v = 0; v < geometry_.sliceLoops(); ++v) {
    region_.counts.push_back(geometry_.count(v));
    region_.groups.emplace_back(geometry_.groups(v));
    variants *= geometry_.groups(v).size();
  }
  // Each variant is code of its own, so their number bounds the size of the object.
  if (variants > kMaxVariants)
    return refuseChain(absl::StrCat("slices have ", variants, " different shapes"), absl::StrCat(variants),
                       absl::StrCat("at most ", kMaxVariants));
  llvm::SmallVector<int> group(geometry_.sliceLoops(), 0);
  // All combinations of groups, the last slice loop fastest: the emitter numbers variants in that order.
  do region_.variants.push_back({group, {}, {}});
  while (next(group));
  visitBuffers();
  return absl::OkStatus();
}

void RegionBuilder::setStrides(mlir::Value buffer, llvm::SmallVector<int64_t> strides, int64_t elements) {
  ScratchLayout& layout = layouts_[buffer];
  layout.strides = std::move(strides);
  layout.elements = elements;
}

std::vector<std::vector<RegionNest>> RegionBuilder::cut() {
  chooseDepths();
  std::vector<std::vector<RegionNest>> sliced;
  for (const RegionVariant& variant : region_.variants) sliced.push_back(slice(variant.group));
  region_.sequence_length = geometry_.sequenceLength();
  region_.move_bytes = chip_.vectorBits() / 8;
  for (RegionVariant& variant : region_.variants) variant.moves = movesOf(variant.group);
  region_.masked = nests_.mask && !nests_.mask->blocks;
  return sliced;
}

void RegionBuilder::placeScratch(llvm::ArrayRef<mlir::Value> panels) {
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> buffers;
  auto add = [&](mlir::Value root, int64_t elements) {
    buffers.emplace_back(root, elements * (elementBits(elementOf(root)) / 8));
  };
  for (mlir::Value root : scratch_) add(root, layouts_[root].elements);
  for (mlir::Value root : panels) add(root, llvm::cast<mlir::MemRefType>(root.getType()).getNumElements());
  placeRegionScratch(region_, buffers, static_cast<int>(nests_.nests.size()));
}

Region RegionBuilder::finish() {
  if (nests_.softmax)
    for (RegionVariant& variant : region_.variants) variant.counted = findDynamicKeyRange(variant, *nests_.softmax);
  const double kept = nests_.mask ? keptShare() : 1;
  if (kept < 1) region_.keys_per_group = nests_.mask->keys_per_group;
  region_.mask_loop = geometry_.maskLoopOf();
  region_.unmasked_blocks.assign(geometry_.unmaskedBlocks().begin(), geometry_.unmaskedBlocks().end());
  if (!loops_.back().reductions.empty()) region_.blocks = region_.counts.back();
  region_.description = describe(kept);
  return std::move(region_);
}

/// Advances `group` to the next combination; false after the last one.
bool RegionBuilder::next(llvm::SmallVector<int>& group) const {
  for (int v = static_cast<int>(group.size()) - 1; v >= 0; --v) {
    if (++group[v] < static_cast<int>(geometry_.groups(v).size())) return true;
    group[v] = 0;
  }
  return false;
}

bool RegionBuilder::isScratch(mlir::Value root) const {
  return root.getDefiningOp<mlir::memref::AllocOp>() && !nests_.isResult(root);
}

void RegionBuilder::visitBuffers() {
  auto visit = [&](const Nest& nest, const Access& access) {
    if (!isScratch(access.root)) return;
    auto [entry, added] = layouts_.try_emplace(access.root);
    const Coordinates& coordinates = nests_.coordinates.at(access.root);
    ScratchLayout& layout = entry->second;
    if (added) scratch_.push_back(access.root);
    // An access that is not a box may reach any element, so the buffer keeps its own layout.
    if (!walksOf(access, nest.extents, coordinates)) layout.whole = true;
    if (!added) return;
    for (int c = 0; c < coordinates.size(); ++c) layout.sizes.push_back(geometry_.largestBox(access.root, c));
    layout.strides = denseStrides(layout.sizes);
    layout.elements = layout.sizes.empty() ? 1 : layout.strides[0] * layout.sizes[0];
  };
  for (auto [n, nest] : llvm::enumerate(nests_.nests))
    for (auto [s, statement] : llvm::enumerate(nest.statements)) {
      for (const Operand& input : statement.inputs)
        if (input.access.root && !input.from) visit(nest, input.access);
      for (auto [o, output] : llvm::enumerate(statement.outputs)) {
        visit(nest, output.access);
        if (auto found = layouts_.find(output.access.root); found != layouts_.end() && !found->second.writer)
          found->second.writer = {static_cast<int>(n), static_cast<int>(s), static_cast<int>(o)};
      }
    }
  for (const Nest& nest : nests_.nests)
    for (const Statement& statement : nest.statements)
      statement.op->walk([&](mlir::memref::LoadOp load) {
        if (auto found = layouts_.find(rootOf(load.getMemRef())); found != layouts_.end()) found->second.whole = true;
      });
  for (mlir::Value root : scratch_) {
    ScratchLayout& layout = layouts_[root];
    layout.in_memory = isInMemory(root);
    if (layout.whole) layout.elements = llvm::cast<mlir::MemRefType>(root.getType()).getNumElements();
  }
}

bool RegionBuilder::isInMemory(mlir::Value root) const {
  return llvm::any_of(nests_.nests, [&](const Nest& nest) {
    return llvm::any_of(nest.statements, [&](const Statement& statement) {
      for (const Operand& input : statement.inputs)
        if (input.access.root == root && accessesInputMemory(input)) return true;
      for (auto [o, output] : llvm::enumerate(statement.outputs))
        if (output.access.root == root && accessesOutputMemory(statement, o)) return true;
      return false;
    });
  });
}

/// A nest runs again when a slice number changes on which its ranges or its accesses depend.
void RegionBuilder::chooseDepths() {
  depth_.assign(nests_.nests.size(), 0);
  for (size_t n = 0; n < nests_.nests.size(); ++n)
    for (int v = 0; v < geometry_.sliceLoops(); ++v)
      if (geometry_.dependsOn(n, v) || nests_.whenOf(n) == When::kEveryBlock || nests_.whenOf(n) == When::kLastBlock)
        depth_[n] = v + 1;
  // Nests that write parts of one buffer must run again together. A greater depth of one nest may require a greater
  // depth of others, so this is repeated until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (mlir::Value root : scratch_) {
      llvm::SmallVector<size_t> writers;
      int deepest = 0;
      for (auto [n, nest] : llvm::enumerate(nests_.nests))
        for (const Statement& statement : nest.statements)
          for (const Operand& output : statement.outputs)
            if (output.access.root == root) {
              writers.push_back(n);
              deepest = std::max(deepest, depth_[n]);
            }
      for (int c = 0; c < nests_.coordinates.at(root).size(); ++c)  // the box moves
        deepest = std::max(deepest, layouts_[root].whole ? 0 : geometry_.boxCutBy(root, c) + 1);
      for (size_t n : writers)
        if (depth_[n] < deepest) {
          depth_[n] = deepest;
          changed = true;
        }
    }
  }
  // If only one slice follows, the nest runs always: skipping it would gain nothing.
  for (int& depth : depth_) {
    int64_t after = 1;
    for (int v = depth; v < geometry_.sliceLoops(); ++v) after *= geometry_.count(v);
    if (after == 1) depth = geometry_.sliceLoops();
  }
  for (size_t n = 0; n < nests_.nests.size(); ++n)
    if (nests_.whenOf(n) == When::kFirstBlock) depth_[n] = geometry_.sliceLoops() - 1;
}

/// Adds the start of `range`, times `stride`, to `access`. `v`: the slice loop that moves the range; -1: none.
void RegionBuilder::moveBy(Access& access, int64_t stride, const MovingRange& range, int v,
                           llvm::ArrayRef<int> group) const {
  access.offset += stride * range.lo;
  if (v < 0 || range.step == 0) return;
  access.slice[v] += stride * range.step;
  // The slice number counts from the first slice of the loop, the offset from the first slice of the group.
  access.offset -= stride * range.step * geometry_.groups(v)[group[v]].lo;
}

void RegionBuilder::place(Access& access, size_t n, llvm::ArrayRef<MovingRange> loops,
                          llvm::ArrayRef<int> group) const {
  const Nest& whole = nests_.nests[n];
  auto found = layouts_.find(access.root);
  if (found != layouts_.end() && !found->second.whole) {
    const ScratchLayout& layout = found->second;
    const Walks walks = *walksOf(access, whole.extents, nests_.coordinates.at(access.root));
    // Rebuilt for the scratch layout: coordinates times its strides, relative to the box of this slice.
    access.offset = 0;
    access.strides.assign(whole.loops(), 0);
    access.slice.assign(geometry_.sliceLoops(), 0);
    for (auto [c, walk] : llvm::enumerate(walks)) {
      const int64_t stride = layout.strides[c];
      access.offset += stride * walk.start;
      for (auto [loop, coefficient] : walk.loops) access.strides[loop] += stride * coefficient;
      moveBy(access, -stride, geometry_.scratchRange(access.root, static_cast<int>(c), group),
             geometry_.boxCutBy(access.root, static_cast<int>(c)), group);
    }
  } else {
    access.slice.assign(geometry_.sliceLoops(), 0);
  }
  for (int loop = 0; loop < whole.loops(); ++loop)
    moveBy(access, access.strides[loop], loops[loop], geometry_.cutBy(n, loop), group);
}

/// The moves of kept rows in slices of `group`.
std::vector<HaloMove> RegionBuilder::movesOf(llvm::ArrayRef<int> group) const {
  std::vector<HaloMove> moves;
  for (mlir::Value root : scratch_) {
    const std::optional<ReusedRows> kept = geometry_.kept(root, group);
    if (!kept) continue;
    const ScratchLayout& layout = layouts_.at(root);
    const int64_t row = layout.strides[kept->coordinate];
    // Boxes end at the end of the largest box, so kept rows move down by the number of new rows.
    const int64_t end = geometry_.largestBox(root, kept->coordinate) - kept->by;
    HaloMove& move = moves.emplace_back(HaloMove{root, elementOf(root)});
    move.from = end * row + (kept->by - kept->rows) * row;
    move.to = (end - kept->rows) * row;
    move.length = kept->rows * row;
    for (int c = 0; c < kept->coordinate; ++c)
      if (const int64_t extent = geometry_.largestBox(root, c); extent > 1)
        move.around.emplace_back(layout.strides[c], extent);
  }
  return moves;
}

std::vector<RegionNest> RegionBuilder::slice(llvm::ArrayRef<int> group) const {
  std::vector<RegionNest> result;
  for (size_t n = 0; n < nests_.nests.size(); ++n) {
    if (geometry_.empty(n, group)) continue;
    Nest nest = nests_.nests[n];
    llvm::SmallVector<MovingRange> loops;
    for (int loop = 0; loop < nest.loops(); ++loop) loops.push_back(geometry_.loop(n, loop, group));
    for (Statement& statement : nest.statements) {
      for (Operand& input : statement.inputs)
        if (input.access.root && !input.from) place(input.access, n, loops, group);
      for (Operand& output : statement.outputs) place(output.access, n, loops, group);
      for (Operand& input : statement.inputs)  // a register operand keeps the access that names its value
        if (input.from) input.access = nest.statements[input.from->statement].outputs[input.from->output].access;
      // linalg.index counts over the whole workload, so bodies add the position of the slice.
      statement.index_start.assign(statement.index_weights.size(), 0);
      statement.index_slice.assign(statement.index_weights.size(),
                                   llvm::SmallVector<int64_t>(geometry_.sliceLoops(), 0));
      for (auto [d, weights] : llvm::enumerate(statement.index_weights))
        for (int loop = 0; loop < nest.loops(); ++loop) {
          Access position;
          position.slice.assign(geometry_.sliceLoops(), 0);
          moveBy(position, weights[loop], loops[loop], geometry_.cutBy(n, loop), group);
          statement.index_start[d] += position.offset;
          for (int v = 0; v < geometry_.sliceLoops(); ++v) statement.index_slice[d][v] += position.slice[v];
        }
    }
    for (int loop = 0; loop < nest.loops(); ++loop) nest.extents[loop] = loops[loop].size;
    // Loops of one iteration in these slices disappear, and contiguous ones merge.
    mergeLoops(nest);
    result.push_back({std::move(nest), static_cast<int>(n), depth_[n], nests_.whenOf(n) == When::kLastBlock});
  }
  return result;
}

/// The share of the scores that slices compute.
double RegionBuilder::keptShare() const {
  const PositionMask& mask = *nests_.mask;
  double kept = 0, all = 0;
  if (geometry_.maskLoopOf() >= 0) {
    const int64_t blocks = geometry_.count(geometry_.sliceLoops() - 1);
    for (const Range& range : geometry_.unmaskedBlocks()) {
      kept += static_cast<double>(range.size());
      all += static_cast<double>(blocks);
    }
  } else if (const int v = geometry_.cutBy(mask.nest, mask.key); v >= 0 && !mask.blocks) {
    // Whole rows: the mask cuts the loop over keys, to a range for each group of slices.
    llvm::SmallVector<int> group(geometry_.sliceLoops(), 0);
    for (auto [g, slices] : llvm::enumerate(geometry_.groups(v))) {
      group[v] = static_cast<int>(g);
      const auto count = static_cast<double>(slices.size());
      kept += count * static_cast<double>(geometry_.loop(mask.nest, mask.key, group).size);
      all += count * static_cast<double>(nests_.nests[mask.nest].extents[mask.key]);
    }
  } else {
    return 1;
  }
  return kept / all;
}

std::string RegionBuilder::describe(double kept) const {
  const Coordinates& result = nests_.coordinates.at(nests_.result);
  llvm::SmallVector<int64_t> shape(result.extents);
  for (const SliceLoop& loop : loops_)
    if (loop.coordinate >= 0) shape[loop.coordinate] = std::min(loop.tile, shape[loop.coordinate]);
  std::string text = absl::StrCat("region of ", nests_.nests.size(), " nests, ", region_.slices(), " slices of ",
                                  shape.empty() ? "1" : absl::StrJoin(shape, "x"));
  if (region_.blocks > 1) absl::StrAppend(&text, " in ", region_.blocks, " blocks of r0");
  if (kept < 1) absl::StrAppend(&text, absl::StrFormat(", %.0f %% of the keys masked", 100 * (1 - kept)));
  for (const RegionVariant& variant : region_.variants) {
    if (!variant.counted) continue;
    absl::StrAppend(&text, ", keys counted by ", variant.counted->keys_per_group);
    break;
  }
  for (const RegionVariant& variant : region_.variants) {
    if (variant.strips.empty()) continue;
    const Strip& strip = variant.strips[0];
    absl::StrAppend(&text, ", ", strip.end - strip.first, " of them ", strip.rows, " rows at a time");
    break;
  }
  if (region_.sequence_length > 1)
    absl::StrAppend(&text, ", halos kept in ", region_.points(), region_.points() == 1 ? " part of " : " parts of ",
                    region_.sequence_length, " slices");
  size_t fetched = 0;
  for (const RegionNestRun& step : region_.variants[0].steps) fetched += step.plan.next_blocks.size();
  if (fetched > 0) absl::StrAppend(&text, ", ", fetched, " operands of the next slices fetched ahead");
  return text;
}

}  // namespace tessera::compiler::codegen
