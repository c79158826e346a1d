#include "compiler/codegen/region/region.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/operand_accesses.h"
#include "compiler/codegen/region/apply_region.h"
#include "compiler/codegen/region/counted_keys.h"
#include "compiler/codegen/region/prefetch_blocks.h"
#include "compiler/codegen/region/prefetch_next_slice.h"
#include "compiler/codegen/region/region_geometry.h"
#include "compiler/codegen/region/region_packing.h"
#include "compiler/codegen/region/region_scratch.h"
#include "compiler/codegen/region/region_strips.h"
#include "compiler/codegen/tiling/loop_order.h"
#include "compiler/schedule/fault.h"
#include "compiler/schedule/words.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Variants are copies of the code: full, first and last slices for each slice loop.
constexpr size_t kMostVariants = 27;
/// A tree may pad buffers up to this multiple of the size they need.
constexpr int64_t kMostPadding = 16;

/// Layout of a region's buffer in scratch.
struct ScratchLayout {
  bool whole = false;                  ///< like the buffer itself, because some access to it is not a box
  llvm::SmallVector<int64_t> strides;  ///< elements, per coordinate
  int64_t elements = 0;
};

class RegionBuilder {
 public:
  RegionBuilder(mlir::OpBuilder& builder, const SlicedNests& nests, RegionGeometry geometry, const Chip& chip,
                const ParsedRegion* followed)
      : builder_(builder), nests_(nests), geometry_(std::move(geometry)), chip_(chip), followed_(followed) {}

  absl::StatusOr<Region> build(std::vector<PackBefore>& before) {
    size_t variants = 1;
    for (int v = 0; v < geometry_.sliceLoops(); ++v) {
      region_.counts.push_back(geometry_.count(v));
      region_.groups.emplace_back(geometry_.groups(v));
      variants *= geometry_.groups(v).size();
    }
    // Each variant is code of its own, so their number bounds the size of the object.
    if (variants > kMostVariants)
      return refuseChain(absl::StrCat("slices have ", variants, " different shapes"), absl::StrCat(variants),
                         absl::StrCat("at most ", kMostVariants));
    if (followed_ && followed_->variants.size() != variants)
      return scheduleFault(followed_->tile.path, "kinds of slices: full ones, last ones, those at a border",
                           absl::StrCat(followed_->variants.size()), absl::StrCat(variants));
    chooseLayouts();
    TESSERA_RETURN_IF_ERROR(followed_ ? followLayouts() : recordLayouts());
    chooseDepths();
    llvm::SmallVector<int> group(geometry_.sliceLoops(), 0);
    // All combinations of groups, the last slice loop fastest: the emitter numbers variants in that order.
    do region_.variants.push_back({group, {}, {}});
    while (next(group));
    std::vector<std::vector<RegionNest>> sliced;
    for (const RegionVariant& variant : region_.variants) sliced.push_back(slice(variant.group));
    region_.part = geometry_.part();
    region_.move_bytes = chip_.vectorBits() / 8;
    for (RegionVariant& variant : region_.variants) variant.moves = movesOf(variant.group);
    region_.masked = nests_.mask && !nests_.mask->blocks;
    TESSERA_ASSIGN_OR_RETURN(panels_, planRegion(builder_, chip_, sliced, region_, before, followed_));
    region_.deferred_softmax = nests_.deferred_softmax;
    if (followed_) {
      // Strips before scratch, scratch before prefetches: each decides on the basis of the one before.
      TESSERA_RETURN_IF_ERROR(applyStrips(region_, *followed_));
      placeScratch();
      TESSERA_RETURN_IF_ERROR(applyPrefetches(region_, chip_, *followed_));
    } else {
      formStrips(region_, chip_);
      prefetchNextSlice(region_, chip_);
      placeScratch();
      prefetchBlocks(region_, chip_);
    }
    if (nests_.softmax)
      for (RegionVariant& variant : region_.variants) variant.counted = findDynamicKeyRange(variant, *nests_.softmax);
    return std::move(region_);
  }

 private:
  /// Advances `group` to the next combination; false after the last one.
  bool next(llvm::SmallVector<int>& group) const {
    for (int v = static_cast<int>(group.size()) - 1; v >= 0; --v) {
      if (++group[v] < static_cast<int>(geometry_.groups(v).size())) return true;
      group[v] = 0;
    }
    return false;
  }

  bool isScratch(mlir::Value root) const {
    return root.getDefiningOp<mlir::memref::AllocOp>() && !nests_.isResult(root);
  }

  /// Layouts are as large as one slice needs. Rows a multiple of an eighth of the near level's set span apart would
  /// share few of its sets, so such rows are padded by one line.
  void chooseLayouts() {
    const Chip::Level& near = chip_.near();
    auto visit = [&](const Nest& nest, const Access& access) {
      if (!isScratch(access.root)) return;
      auto [entry, added] = layouts_.try_emplace(access.root);
      const Coordinates& coordinates = nests_.coordinates.at(access.root);
      ScratchLayout& layout = entry->second;
      if (added) scratch_.push_back(access.root);
      // An access that is not a box may reach any element, so the buffer keeps its own layout.
      if (!walksOf(access, nest.extents, coordinates)) layout.whole = true;
      if (!added) return;
      const int64_t bytes = elementBits(access.element) / 8;
      int64_t stride = 1;
      int outermost = 0;  // the first coordinate with several places: coordinates outside of it need no padding
      while (outermost + 1 < coordinates.size() && geometry_.largestBox(access.root, outermost) == 1) ++outermost;
      for (int c = coordinates.size() - 1; c >= 0; --c) {
        layout.strides.insert(layout.strides.begin(), stride);
        stride *= geometry_.largestBox(access.root, c);
        // Layouts of a tree come later (followLayouts). Buffers without memory stay dense: trees do not describe them,
        // but strides decide which loops merge.
        if (!followed_ && c > outermost && isTouched(access.root) && stride * bytes >= near.setSpan() / 4 &&
            stride * bytes % (near.setSpan() / 8) == 0)
          stride += near.line_bytes / bytes;
      }
      layout.elements = stride;
    };
    for (auto [n, nest] : llvm::enumerate(nests_.nests))
      for (auto [s, statement] : llvm::enumerate(nest.statements)) {
        for (const Operand& input : statement.inputs)
          if (input.access.root && !input.from) visit(nest, input.access);
        for (auto [o, output] : llvm::enumerate(statement.outputs)) {
          visit(nest, output.access);
          written_by_.try_emplace(output.access.root,
                                  ScratchStrides{static_cast<int>(n), static_cast<int>(s), static_cast<int>(o), {}});
        }
      }
    for (const Nest& nest : nests_.nests)
      for (const Statement& statement : nest.statements)
        statement.op->walk([&](mlir::memref::LoadOp load) {
          if (auto found = layouts_.find(rootOf(load.getMemRef())); found != layouts_.end()) found->second.whole = true;
        });
    for (mlir::Value root : scratch_)
      if (ScratchLayout& layout = layouts_[root]; layout.whole)
        layout.elements = llvm::cast<mlir::MemRefType>(root.getType()).getNumElements();
  }

  /// Strides without padding between rows.
  llvm::SmallVector<int64_t> dense(mlir::Value root) const {
    llvm::SmallVector<int64_t> strides;
    int64_t stride = 1;
    for (int c = nests_.coordinates.at(root).size() - 1; c >= 0; --c) {
      strides.insert(strides.begin(), stride);
      stride *= geometry_.largestBox(root, c);
    }
    return strides;
  }

  /// Strides that have an effect: that of a coordinate with a single place has none.
  llvm::SmallVector<int64_t> effective(mlir::Value root, llvm::SmallVector<int64_t> strides) const {
    for (auto [c, stride] : llvm::enumerate(strides))
      if (geometry_.largestBox(root, static_cast<int>(c)) == 1) stride = 0;
    return strides;
  }

  /// Whether the buffer is memory at all: a value that only passes in registers has no place.
  bool isTouched(mlir::Value root) const {
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

  absl::Status recordLayouts() {
    for (mlir::Value root : scratch_) {
      const ScratchLayout& layout = layouts_[root];
      const auto writer = written_by_.find(root);
      // Only layouts that differ from the dense one are stages of the tree.
      if (writer == written_by_.end() || layout.whole || !isTouched(root) ||
          effective(root, layout.strides) == effective(root, dense(root)))
        continue;
      region_.strides.push_back(writer->second);
      region_.strides.back().strides = effective(root, layout.strides);
    }
    return absl::OkStatus();
  }

  /// Applies the strides of the tree's stages to the slices' own buffers.
  absl::Status followLayouts() {
    const Leaf& tile = followed_->tile;
    int used = 0;
    for (mlir::Value root : scratch_) {
      const auto found = written_by_.find(root);
      if (found == written_by_.end() || !isTouched(root)) continue;
      const ScratchStrides& writer = found->second;
      // Stages are in the order of first use; a buffer without a stage stays dense.
      if (used == tile.tile->stages_size()) break;
      const v1::Stage& stage = tile.tile->stages(used);
      if (stage.layout() != words::kStrided || stage.nest() != writer.nest || stage.statement() != writer.statement ||
          stage.operand() != writer.result)
        continue;
      ++used;
      ScratchLayout& layout = layouts_[root];
      const llvm::SmallVector<int64_t> least = effective(root, dense(root));
      llvm::SmallVector<int64_t> strides(stage.strides().begin(), stage.strides().end());
      bool fits = !layout.whole && strides.size() == least.size() && strides != least;
      int64_t elements = 1;  // of the inner coordinates
      for (int c = static_cast<int>(least.size()) - 1; fits && c >= 0; --c) {
        // A stride must step over all inner elements, and may pad them by a bounded factor.
        fits = least[c] == 0 ? strides[c] == 0 : strides[c] >= elements && strides[c] <= kMostPadding * least[c];
        if (least[c] > 0) elements = strides[c] * geometry_.largestBox(root, c);
      }
      if (!fits || stage.within() || !stage.order().empty() || !stage.along().empty() || !stage.copies().empty() ||
          stage.outside() != 0 || stage.distance() != 0 || stage.ahead() != 0)
        return scheduleFault(tile.path, absl::StrCat("strides of what nest ", stage.nest(), " writes"),
                             absl::StrJoin(stage.strides(), ","),
                             layout.whole ? "none: it lies as the workload says"
                                          : absl::StrCat("at least ", absl::StrJoin(least, ","),
                                                         ", which is without "
                                                         "a stage, and at most ",
                                                         kMostPadding, " times that"));
      layout.strides = strides;
      layout.elements = elements;
      region_.strides.push_back(writer);
      region_.strides.back().strides = strides;
    }
    if (used == tile.tile->stages_size()) return absl::OkStatus();
    return scheduleFault(tile.path, "stages of buffers that slices have of their own, each once, by first use",
                         absl::StrCat(tile.tile->stages_size(), " stages, ", used, " buffers"), "");
  }

  /// A nest runs again when a slice number changes on which its ranges or its accesses depend.
  void chooseDepths() {
    depth_.assign(nests_.nests.size(), 0);
    for (size_t n = 0; n < nests_.nests.size(); ++n)
      for (int v = 0; v < geometry_.sliceLoops(); ++v)
        if (geometry_.dependsOn(n, v) || nests_.time(n) == When::kEveryBlock || nests_.time(n) == When::kLastBlock)
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
      if (nests_.time(n) == When::kFirstBlock) depth_[n] = geometry_.sliceLoops() - 1;
  }

  /// Adds the start of `range`, times `stride`, to `access`. `v`: the slice loop that moves the range; -1: none.
  void moveBy(Access& access, int64_t stride, const MovingRange& range, int v, llvm::ArrayRef<int> group) const {
    access.offset += stride * range.lo;
    if (v < 0 || range.step == 0) return;
    access.slice[v] += stride * range.step;
    // The slice number counts from the first slice of the loop, the offset from the first slice of the group.
    access.offset -= stride * range.step * geometry_.groups(v)[group[v]].lo;
  }

  void place(Access& access, size_t n, llvm::ArrayRef<MovingRange> loops, llvm::ArrayRef<int> group) const {
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
        moveBy(access, -stride, geometry_.origin(access.root, static_cast<int>(c), group),
               geometry_.boxCutBy(access.root, static_cast<int>(c)), group);
      }
    } else {
      access.slice.assign(geometry_.sliceLoops(), 0);
    }
    for (int loop = 0; loop < whole.loops(); ++loop)
      moveBy(access, access.strides[loop], loops[loop], geometry_.cutBy(n, loop), group);
  }

  /// The moves of kept rows in slices of `group`.
  std::vector<HaloMove> movesOf(llvm::ArrayRef<int> group) const {
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

  std::vector<RegionNest> slice(llvm::ArrayRef<int> group) const {
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
      result.push_back({std::move(nest), static_cast<int>(n), depth_[n], nests_.time(n) == When::kLastBlock});
    }
    return result;
  }

  void placeScratch() {
    llvm::SmallVector<std::pair<mlir::Value, int64_t>> buffers;
    auto add = [&](mlir::Value root, int64_t elements) {
      buffers.emplace_back(root, elements * (elementBits(elementOf(root)) / 8));
    };
    for (mlir::Value root : scratch_) add(root, layouts_[root].elements);
    for (mlir::Value root : panels_) add(root, llvm::cast<mlir::MemRefType>(root.getType()).getNumElements());
    placeRegionScratch(region_, buffers, static_cast<int>(nests_.nests.size()));
  }

  static mlir::Type elementOf(mlir::Value root) {
    return llvm::cast<mlir::MemRefType>(root.getType()).getElementType();
  }

  mlir::OpBuilder& builder_;
  const SlicedNests& nests_;
  RegionGeometry geometry_;
  const Chip& chip_;
  const ParsedRegion* followed_;
  Region region_;
  llvm::SmallVector<mlir::Value> scratch_;  ///< in the order of first use
  llvm::SmallVector<mlir::Value> panels_;   ///< filled within the region
  llvm::DenseMap<mlir::Value, ScratchLayout> layouts_;
  llvm::DenseMap<mlir::Value, ScratchStrides> written_by_;
  llvm::SmallVector<int> depth_;  ///< per nest
};

/// Checks that slices of a part have rows to keep.
absl::Status checkKept(const SlicedNests& nests, const RegionGeometry& geometry, llvm::ArrayRef<SliceLoop> loops,
                       const ParsedRegion* followed) {
  const auto* kept = llvm::find_if(loops, [](const SliceLoop& loop) { return loop.part > 1; });
  if (kept == loops.end()) return absl::OkStatus();
  const bool softmax = nests.deferred_softmax || nests.softmax || nests.mask || kept + 1 != loops.end();
  for (const Nest& nest : nests.nests)
    for (const Statement& statement : nest.statements)
      for (const Operand& output : statement.outputs)
        if (!softmax && geometry.keeps(output.access.root)) return absl::OkStatus();
  const Coordinates& result = nests.coordinates.at(nests.result);
  const std::string name = absl::StrCat("d", result.dims[kept->coordinate]);
  const std::string message = absl::StrCat("slices along ", name, " follow each other, and ",
                                           softmax ? "a softmax keeps no rows" : "share no rows to keep"),
                    accepted = absl::StrCat("a loop over ", name, " whose slices are dealt to cores, once");
  return followed ? scheduleFault(followed->tile.path, message, name, accepted) : refuseChain(message, name, accepted);
}

/// The share of the scores that slices compute.
double keptShare(const SlicedNests& nests, const RegionGeometry& geometry) {
  const PositionMask& mask = *nests.mask;
  double kept = 0, all = 0;
  if (geometry.maskLoopOf() >= 0) {
    const int64_t blocks = geometry.count(geometry.sliceLoops() - 1);
    for (const Range& range : geometry.unmaskedBlocks()) {
      kept += static_cast<double>(range.size());
      all += static_cast<double>(blocks);
    }
  } else if (const int v = geometry.cutBy(mask.nest, mask.key); v >= 0 && !mask.blocks) {
    // Whole rows: the mask cuts the loop over keys, to a range for each group of slices.
    llvm::SmallVector<int> group(geometry.sliceLoops(), 0);
    for (auto [g, slices] : llvm::enumerate(geometry.groups(v))) {
      group[v] = static_cast<int>(g);
      const auto count = static_cast<double>(slices.size());
      kept += count * static_cast<double>(geometry.loop(mask.nest, mask.key, group).size);
      all += count * static_cast<double>(nests.nests[mask.nest].extents[mask.key]);
    }
  } else {
    return 1;
  }
  return kept / all;
}

}  // namespace

absl::StatusOr<Region> formRegion(mlir::OpBuilder& builder, const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops,
                                  const Chip& chip, std::vector<PackBefore>& before, const ParsedRegion* followed) {
  TESSERA_ASSIGN_OR_RETURN(auto geometry, RegionGeometry::infer(nests, loops));
  TESSERA_RETURN_IF_ERROR(checkKept(nests, geometry, loops, followed));
  const double kept = nests.mask ? keptShare(nests, geometry) : 1;
  const int mask_loop = geometry.maskLoopOf();
  const llvm::SmallVector<Range> unmasked_blocks(geometry.unmaskedBlocks());
  TESSERA_ASSIGN_OR_RETURN(auto region,
                           RegionBuilder(builder, nests, std::move(geometry), chip, followed).build(before));
  if (kept < 1) region.key_piece = nests.mask->piece;
  region.mask_loop = mask_loop;
  region.unmasked_blocks = unmasked_blocks;
  if (!loops.back().reductions.empty()) region.blocks = region.counts.back();
  const Coordinates& result = nests.coordinates.at(nests.result);
  llvm::SmallVector<int64_t> shape(result.extents);
  for (const SliceLoop& loop : loops)
    if (loop.coordinate >= 0) shape[loop.coordinate] = std::min(loop.tile, shape[loop.coordinate]);
  region.description = absl::StrCat("region of ", nests.nests.size(), " nests, ", region.slices(), " slices of ",
                                    shape.empty() ? "1" : absl::StrJoin(shape, "x"));
  if (region.blocks > 1) absl::StrAppend(&region.description, " in ", region.blocks, " blocks of r0");
  if (kept < 1) absl::StrAppend(&region.description, absl::StrFormat(", %.0f %% of the keys masked", 100 * (1 - kept)));
  for (const RegionVariant& variant : region.variants) {
    if (!variant.counted) continue;
    absl::StrAppend(&region.description, ", keys counted by ", variant.counted->piece);
    break;
  }
  for (const RegionVariant& variant : region.variants) {
    if (variant.strips.empty()) continue;
    const Strip& strip = variant.strips[0];
    absl::StrAppend(&region.description, ", ", strip.end - strip.first, " of them ", strip.rows, " rows at a time");
    break;
  }
  if (region.part > 1)
    absl::StrAppend(&region.description, ", halos kept in ", region.points(),
                    region.points() == 1 ? " part of " : " parts of ", region.part, " slices");
  size_t fetched = 0;
  for (const RegionNestRun& step : region.variants[0].steps) fetched += step.plan.next_blocks.size();
  if (fetched > 0) absl::StrAppend(&region.description, ", ", fetched, " operands of the next slices fetched ahead");
  return region;
}

}  // namespace tessera::compiler::codegen
