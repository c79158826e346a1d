#include "compiler/backends/cpu/region/region_slices.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/operand_accesses.h"
#include "compiler/backends/cpu/region/masked_keys.h"
#include "compiler/backends/cpu/tiling/loop_order.h"
#include "compiler/backends/cpu/tiling/tile_plan.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Extends `box` to the smallest box that contains both; an empty one adds nothing.
void enclose(llvm::SmallVector<Range>& box, llvm::ArrayRef<Range> other) {
  if (llvm::any_of(other, [](const Range& range) { return range.size() == 0; })) return;
  if (box.empty()) {
    box.assign(other.begin(), other.end());
    return;
  }
  for (auto [mine, its] : llvm::zip_equal(box, other)) {
    mine.lo = std::min(mine.lo, its.lo);
    mine.hi = std::max(mine.hi, its.hi);
  }
}

/// The box that `walks` covers while each loop runs through its range.
llvm::SmallVector<Range> covered(const Walks& walks, llvm::ArrayRef<Range> loops) {
  llvm::SmallVector<Range> box;
  for (const Walk& walk : walks) {
    Range range{walk.start, walk.start + 1};
    for (auto [loop, coefficient] : walk.loops) {
      // Walks have positive coefficients only, so the ends of the loops are the ends of the box.
      range.lo += coefficient * loops[loop].lo;
      range.hi += coefficient * (loops[loop].hi - 1);
    }
    box.push_back(range);
  }
  return box;
}

size_t lastWriter(const SlicedNests& region, mlir::Value root) {
  size_t last = 0;
  for (auto [n, nest] : llvm::enumerate(region.nests))
    for (const Statement& statement : nest.statements)
      for (const Operand& output : statement.outputs)
        if (output.access.root == root) last = n;
  return last;
}

/// Backward inference (TLF): computes the needs of one slice by visiting the nests from last to first.
class BackwardInference {
 public:
  explicit BackwardInference(const SlicedNests& region) : region_(region), walks_(region.nests.size()) {
    for (auto [n, nest] : llvm::enumerate(region.nests))
      for (const Statement& statement : nest.statements) {
        for (const Operand& input : statement.inputs)
          walks_[n].push_back(input.access.root && !input.from ? walk(nest, input.access) : Walks());
        for (const Operand& output : statement.outputs) walks_[n].push_back(walk(nest, output.access));
      }
  }

  /// From now on, slices keep rows of these buffers: they reuse the rows that the previous slice has computed along the
  /// given coordinate.
  void keep(llvm::DenseMap<mlir::Value, int> coordinates) { keeps_ = std::move(coordinates); }
  /// Buffers that cannot keep rows: a nest would read or write rows that already belong to another slice.
  llvm::ArrayRef<mlir::Value> unkeepable() const { return unkeepable_; }

  /// The needs of a slice after the one with needs `before` in its sequence; null: the first slice of a sequence.
  Needs needsAfter(const SliceLoop& cut, Range range, int dim, const Needs* before) {
    before_ = before;
    Needs needs = slice(cut, range, dim, {});
    before_ = nullptr;
    for (const auto& [root, c] : keeps_) {
      const Range* old = before ? rowsOf(*before, root, c) : nullptr;
      const Range* now = rowsOf(needs, root, c);
      if (old && now && continues(*old, *now) && old->hi > now->lo)
        needs.kept[root] = {c, old->hi - now->lo, now->hi - old->hi};
    }
    return needs;
  }

  /// The needs of `range` along slice loop `cut`; `dim`: the result dimension that is cut, used for other results.
  Needs slice(const SliceLoop& cut, Range range, int dim) {
    Needs all = slice(cut, range, dim, {});
    // First without the mask: the box of scores decides which keys it keeps. Then again for these keys only.
    if (!region_.mask || region_.mask->blocks || all.loops[region_.mask->nest].empty()) return all;
    const Range kept = unmaskedKeys(region_, all.loops[region_.mask->nest]);
    if (kept.size() == region_.nests[region_.mask->nest].extents[region_.mask->key]) return all;
    return slice(cut, range, dim, kept);
  }

 private:
  /// `kept`: the keys that the region's mask keeps; empty: all.
  Needs slice(const SliceLoop& cut, Range range, int dim, Range kept) {
    kept_ = kept;
    reductions_ = cut.reductions;
    coordinate_ = cut.coordinate;
    dim_ = dim;
    range_ = range;
    needs_ = Needs();
    seed(region_.result);
    for (mlir::Value result : region_.other_results) seed(result);
    needs_.loops.resize(region_.nests.size());
    // Consumers before producers: a nest knows all that later nests need of its results.
    for (size_t n = region_.nests.size(); n-- > 0;) visit(n);
    return std::move(needs_);
  }

  static const Range* rowsOf(const Needs& needs, mlir::Value root, int c) {
    const auto found = needs.boxes.find(root);
    return found == needs.boxes.end() || found->second.empty() ? nullptr : &found->second[c];
  }

  /// Whether a slice that holds `old` contains the first rows of `now`.
  static bool continues(Range old, Range now) { return old.lo <= now.lo && old.hi <= now.hi; }

  /// The ranges of a buffer that this slice's nests must compute: all rows except those kept from the previous slice.
  llvm::SmallVector<Range> missingRanges(mlir::Value root, llvm::ArrayRef<Range> box) const {
    llvm::SmallVector<Range> rest(box);
    const auto found = keeps_.find(root);
    if (!before_ || found == keeps_.end() || box.empty()) return rest;
    const Range* old = rowsOf(*before_, root, found->second);
    Range& rows = rest[found->second];
    // The rows up to old->hi are there already.
    if (old && continues(*old, rows)) rows.lo = std::max(rows.lo, old->hi);
    return rest;
  }

  /// Kept rows must be final: the rows that nests up to the buffer's last writer touch are among those that later nests
  /// need and no earlier slice has left. A buffer that held another value first (one buffer used for two values) cannot
  /// keep rows.
  void check(size_t n, mlir::Value root, const std::optional<Walks>& walks, llvm::ArrayRef<Range> loops) {
    const auto found = keeps_.find(root);
    if (found == keeps_.end() || n > lastWriter(region_, root)) return;
    const auto box = needs_.boxes.find(root);
    const int c = found->second;
    const bool needed = walks && box != needs_.boxes.end() && !box->second.empty();
    const Range mine = needed ? covered(*walks, loops)[c] : Range{};
    if (!needed || mine.lo < missingRanges(root, box->second)[c].lo || mine.hi > box->second[c].hi)
      unkeepable_.push_back(root);
  }

  std::optional<Walks> walk(const Nest& nest, const Access& access) {
    return walksOf(access, nest.extents, region_.coordinates.at(access.root));
  }

  llvm::SmallVector<Range> whole(mlir::Value root) const {
    llvm::SmallVector<Range> box;
    for (int64_t extent : region_.coordinates.at(root).extents) box.push_back({0, extent});
    return box;
  }

  void seed(mlir::Value root) {
    llvm::SmallVector<Range> box = whole(root);
    if (coordinate_ >= 0 && root == region_.result) {
      box[coordinate_] = range_;
    } else if (coordinate_ >= 0) {
      const Coordinates& cut = region_.coordinates.at(region_.result);
      const Coordinates& mine = region_.coordinates.at(root);
      // The same part of the same dimension, counted from its slowest part.
      auto part = [](const Coordinates& coordinates, int c) {
        int number = 0;
        while (c > 0 && coordinates.dims[c - 1] == coordinates.dims[c]) ++number, --c;
        return number;
      };
      for (int c = 0; c < mine.size(); ++c)
        if (mine.dims[c] == dim_ && mine.extents[c] == cut.extents[coordinate_] &&
            part(mine, c) == part(cut, coordinate_))
          box[c] = range_;
    }
    enclose(needs_.boxes[root], box);
  }

  /// Adjacent blocks, start + size * block + place: selects whole blocks that `range` touches.
  static void restrictBlocks(const Walk& walk, Range range, const Nest& nest, llvm::SmallVector<Range>& loops) {
    auto [block, size] = walk.loops[0];
    auto [place, step] = walk.loops[1];
    if (size < step) {
      std::swap(block, place);
      std::swap(size, step);
    }
    if (step != 1 || nest.extents[place] != size) return;
    auto below = [size = size](int64_t value) { return value >= 0 ? value / size : -((size - 1 - value) / size); };
    // From the block that contains the first needed place to the one that contains the last.
    loops[block].lo = std::max(loops[block].lo, below(range.lo - walk.start));
    loops[block].hi = std::min(loops[block].hi, below(range.hi - walk.start + size - 1));
  }

  void visit(size_t n) {
    const Nest& nest = region_.nests[n];
    llvm::SmallVector<Range> loops(nest.loops(), Range{});
    // First: the iterations that compute what later nests need of the outputs.
    size_t slot = 0;
    bool needed = false;
    for (const Statement& statement : nest.statements) {
      slot += statement.inputs.size();
      for (const Operand& output : statement.outputs) {
        const std::optional<Walks>& walks = walks_[n][slot++];
        auto found = needs_.boxes.find(output.access.root);
        if (found == needs_.boxes.end() || found->second.empty()) {
          if (!region_.coordinates.at(output.access.root).extents.empty()) continue;
        }
        llvm::SmallVector<Range> mine(nest.loops());
        for (int loop = 0; loop < nest.loops(); ++loop) mine[loop] = {0, nest.extents[loop]};
        if (found != needs_.boxes.end())
          for (auto [c, range] : llvm::enumerate(missingRanges(output.access.root, found->second))) {
            const int64_t extent = region_.coordinates.at(output.access.root).extents[c];
            if (range == Range{0, extent}) continue;
            if (!walks) continue;  // not a box: needs all of it; checkResults reports where that is impossible
            const Walk& walk = (*walks)[c];
            if (walk.loops.empty()) {  // a single place of the coordinate: needed or not
              if (walk.start < range.lo || walk.start >= range.hi)
                for (Range& loop : mine) loop = {0, 0};
              continue;
            }
            if (walk.loops.size() == 2) {
              restrictBlocks(walk, range, nest, mine);
              continue;
            }
            // Strided or overlapping walks cannot be restricted exactly: the whole loop runs.
            if (walk.loops.size() != 1 || walk.loops[0].second != 1) continue;
            Range& loop = mine[walk.loops[0].first];
            loop.lo = std::max(loop.lo, range.lo - walk.start);
            loop.hi = std::min(loop.hi, range.hi - walk.start);
          }
        if (llvm::any_of(mine, [](const Range& range) { return range.size() == 0; })) continue;
        needed = true;
        for (auto [sum, range] : llvm::zip_equal(loops, mine))
          // Several outputs: the smallest range that serves all of them.
          sum = sum.size() == 0 ? range : Range{std::min(sum.lo, range.lo), std::max(sum.hi, range.hi)};
      }
    }
    for (auto [nest_number, loop] : reductions_)
      if (nest_number == n) loops[loop] = range_;
    if (needed && kept_.size() > 0)
      for (auto [nest_number, loop] : region_.mask->sums)
        if (nest_number == n) loops[loop] = kept_;
    if (!needed) {
      needs_.loops[n].assign(nest.loops(), Range{});
      return;
    }
    // Then: the elements that these iterations read and write.
    slot = 0;
    for (const Statement& statement : nest.statements) {
      for (const Operand& input : statement.inputs) {
        const std::optional<Walks>& walks = walks_[n][slot++];
        if (!input.access.root || input.from) continue;
        check(n, input.access.root, walks, loops);
        enclose(needs_.boxes[input.access.root], walks ? covered(*walks, loops) : whole(input.access.root));
      }
      for (const Operand& output : statement.outputs) {
        const std::optional<Walks>& walks = walks_[n][slot++];
        check(n, output.access.root, walks, loops);
        enclose(needs_.boxes[output.access.root], walks ? covered(*walks, loops) : whole(output.access.root));
      }
      // A body may load from captured buffers at places unknown here, so it needs them whole.
      statement.op->walk([&](mlir::memref::LoadOp load) {
        const mlir::Value root = rootOf(load.getMemRef());
        if (region_.coordinates.contains(root)) enclose(needs_.boxes[root], whole(root));
      });
    }
    needs_.loops[n] = std::move(loops);
  }

  const SlicedNests& region_;
  std::vector<llvm::SmallVector<std::optional<Walks>>> walks_;  ///< [nest][slot]
  int coordinate_ = 0, dim_ = 0;
  Range range_, kept_;
  llvm::SmallVector<std::pair<size_t, int>> reductions_;
  Needs needs_;
  llvm::DenseMap<mlir::Value, int> keeps_;
  const Needs* before_ = nullptr;
  llvm::SmallVector<mlir::Value> unkeepable_;
};

/// Slices of buffers that are read after the region must not overlap, and together must cover each buffer.
absl::Status checkResults(const SlicedNests& region, const std::vector<Needs>& slices, int dim) {
  llvm::SmallVector<mlir::Value> results{region.result};
  results.append(region.other_results.begin(), region.other_results.end());
  for (mlir::Value root : results) {
    if (slices.size() < 2) break;
    // Along one coordinate at least, the slices must be adjacent ranges from its begin to its end.
    bool apart = false;
    const Coordinates& coordinates = region.coordinates.at(root);
    for (int c = 0; c < coordinates.size() && !apart; ++c) {
      apart = true;
      for (size_t s = 0; s < slices.size() && apart; ++s) {
        const auto& box = slices[s].boxes.at(root);
        if (box.empty()) return refuseChain("a result is computed by no slice", absl::StrCat("d", dim), "");
        const int64_t begin = s == 0 ? 0 : slices[s - 1].boxes.at(root)[c].hi;
        const int64_t end = s + 1 == slices.size() ? coordinates.extents[c] : box[c].hi;
        apart = box[c].lo == begin && box[c].hi == end;
      }
    }
    if (!apart)
      return refuseChain(absl::StrCat(describeNest(region, lastWriter(region, root)), " cannot be cut along d", dim,
                                      ": slices would write the same elements of a result",
                                      root == region.result ? "" : " other than the first"),
                         absl::StrCat("d", dim), "a dimension of every result that nothing reads across");
  }
  return absl::OkStatus();
}

/// Whether all nests that touch a buffer access it as a box.
bool walkedAsBoxes(const SlicedNests& region, mlir::Value root) {
  for (const Nest& nest : region.nests)
    for (const Statement& statement : nest.statements) {
      auto strays = [&](const Access& access) {
        return access.root == root && !walksOf(access, nest.extents, region.coordinates.at(root));
      };
      bool loaded = false;
      statement.op->walk([&](mlir::memref::LoadOp load) { loaded |= rootOf(load.getMemRef()) == root; });
      if (loaded || llvm::any_of(statement.inputs, [&](const Operand& input) { return strays(input.access); }) ||
          llvm::any_of(statement.outputs, [&](const Operand& output) { return strays(output.access); }))
        return false;
    }
  return true;
}

/// Intermediate buffers in memory whose boxes move along one coordinate, with that coordinate.
llvm::DenseMap<mlir::Value, int> movingBuffers(const SlicedNests& region, const std::vector<Needs>& slices) {
  llvm::DenseMap<mlir::Value, int> moving;
  for (const Nest& nest : region.nests)
    for (const Statement& statement : nest.statements)
      for (const Operand& input : statement.inputs) {
        const mlir::Value root = input.access.root;
        if (!accessesInputMemory(input) || !root.getDefiningOp<mlir::memref::AllocOp>() || region.isResult(root) ||
            !walkedAsBoxes(region, root))
          continue;
        // Rows can be kept only if the box moves along a single coordinate.
        llvm::SmallVector<int> changing;
        for (int c = 0; c < region.coordinates.at(root).size(); ++c)
          if (llvm::any_of(slices, [&](const Needs& needs) {
                const auto first = slices[0].boxes.find(root), mine = needs.boxes.find(root);
                return first != slices[0].boxes.end() && !first->second.empty() && mine != needs.boxes.end() &&
                       !mine->second.empty() && !(mine->second[c] == first->second[c]);
              }))
            changing.push_back(c);
        if (changing.size() == 1) moving[root] = changing[0];
      }
  return moving;
}

/// The needs of all slices, where the slices of a sequence keep the rows that they share.
std::vector<Needs> keepRows(BackwardInference& backward, const SlicedNests& region, const SliceLoop& slice,
                            int64_t extent, int dim, const std::vector<Needs>& apart) {
  llvm::DenseMap<mlir::Value, int> keeps = movingBuffers(region, apart);
  while (true) {
    backward.keep(keeps);
    std::vector<Needs> slices;
    for (int64_t s = 0; s < static_cast<int64_t>(apart.size()); ++s) {
      const Range range{s * slice.tile, std::min((s + 1) * slice.tile, extent)};
      slices.push_back(backward.needsAfter(
          slice, range, dim, s % slice.sequence_length == 0 ? nullptr : &slices[static_cast<size_t>(s - 1)]));
    }
    bool dropped = false;
    for (mlir::Value root : backward.unkeepable()) dropped |= keeps.erase(root);
    // A buffer that cannot keep rows changes the needs of others, so the slices are computed again. Each round drops at
    // least one buffer.
    if (!dropped) return slices;
  }
}

}  // namespace

absl::StatusOr<std::vector<Needs>> inferNeeds(const SlicedNests& region, const SliceLoop& slice) {
  const Coordinates& coordinates = region.coordinates.at(region.result);
  const bool whole = slice.coordinate < 0;
  const int64_t extent = whole ? slice.extent : coordinates.extents[slice.coordinate];
  const int dim = whole ? -1 : coordinates.dims[slice.coordinate];
  if (constexpr int64_t kMaxSlices = 1 << 16; (extent + slice.tile - 1) / slice.tile > kMaxSlices)
    return refuseChain(absl::StrCat("blocks of ", slice.tile, " along d", dim, " would be more than ", kMaxSlices),
                       absl::StrCat(slice.tile), "larger blocks");
  BackwardInference backward(region);
  std::vector<Needs> slices;
  for (int64_t lo = 0; lo < extent; lo += slice.tile) {
    slices.push_back(backward.slice(slice, {lo, std::min(lo + slice.tile, extent)}, dim));
  }
  if (slice.sequence_length > 1) slices = keepRows(backward, region, slice, extent, dim, slices);
  if (!whole) TESSERA_RETURN_IF_ERROR(checkResults(region, slices, dim));
  return slices;
}

std::string describeNest(const SlicedNests& region, size_t nest) {
  const Nest& described = region.nests[nest];
  return absl::StrCat("operation ", nest + 1, " of ", region.nests.size(), " (",
                      isContraction(described)   ? "contraction"
                      : described.hasReduction() ? "reduction"
                                                 : "elementwise",
                      ")");
}

absl::Status refuseChain(const std::string& message, const std::string& found, const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat("schedule.chain: ", message));
  failure.set_attribute("schedule.chain");
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix("cut other dimensions, or build the workload without a chain tiling");
  return failureStatus(failure);
}

}  // namespace tessera::compiler::codegen
