#include "compiler/backends/cpu/region/region_geometry.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/region/masked_keys.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// The most changes of the running blocks from slice to slice: each change is a comparison in every block.
constexpr int kMaxChanges = 64;

bool isEmpty(const llvm::SmallVector<Range>& loops) {
  return llvm::any_of(loops, [](const Range& range) { return range.size() == 0; });
}

std::optional<Range> boxRange(const Needs& needs, mlir::Value root, int c) {
  auto found = needs.boxes.find(root);
  if (found == needs.boxes.end() || found->second.empty()) return std::nullopt;
  return found->second[c];
}

/// Whether the range differs between any two slices.
template <typename Fn>
bool changes(const std::vector<Needs>& slices, Fn range) {
  return llvm::any_of(slices, [&](const Needs& needs) { return !(range(needs) == range(slices[0])); });
}

/// All ranges of a slice in a fixed order, zero for empty nests; for kept rows, their number.
llvm::SmallVector<Range> rangesOf(const Needs& needs, llvm::ArrayRef<mlir::Value> roots) {
  llvm::SmallVector<Range> all;
  for (const auto& loops : needs.loops)
    for (const Range& range : loops) all.push_back(isEmpty(loops) ? Range{} : range);
  for (mlir::Value root : roots) {
    if (auto found = needs.boxes.find(root); found != needs.boxes.end())
      all.append(found->second.begin(), found->second.end());
    const ReusedRows kept = needs.kept.lookup(root);
    all.push_back({0, kept.rows});
    all.push_back({0, kept.by});
  }
  return all;
}

/// Groups `slices` (ascending numbers): consecutive ones whose ranges have equal sizes and move by equal steps.
void groupSlices(llvm::ArrayRef<llvm::SmallVector<Range>> ranges, llvm::ArrayRef<int64_t> slices, bool begins,
                 llvm::SmallVector<SliceGroup>& groups) {
  // The first two slices of a group give its steps; each further slice must continue all of them exactly.
  auto fits = [&](size_t begin, size_t s) {
    const auto &first = ranges[slices[begin]], &second = ranges[slices[begin + 1]], &mine = ranges[slices[s]];
    if (mine.size() != first.size() || second.size() != first.size()) return false;
    const int64_t apart = slices[begin + 1] - slices[begin];
    for (size_t r = 0; r < mine.size(); ++r) {
      const int64_t step = (second[r].lo - first[r].lo) / apart;
      if (mine[r].size() != first[r].size() || mine[r].lo != first[r].lo + step * (slices[s] - slices[begin]))
        return false;
    }
    return true;
  };
  for (size_t begin = 0; begin < slices.size();) {
    size_t end = begin + 1;
    while (end < slices.size() && fits(begin, end)) ++end;
    groups.push_back({slices[begin], slices[end - 1] + 1, static_cast<int64_t>(end - begin), begins});
    begin = end;
  }
}

llvm::SmallVector<SliceGroup> groupSlices(const std::vector<Needs>& slices, llvm::ArrayRef<mlir::Value> roots,
                                          int64_t sequence_length) {
  llvm::SmallVector<llvm::SmallVector<Range>> ranges;
  llvm::SmallVector<int64_t> first, others;
  for (auto [s, needs] : llvm::enumerate(slices)) {
    ranges.push_back(rangesOf(needs, roots));
    // First slices of a sequence reuse no rows, so they need code of their own.
    (sequence_length > 1 && static_cast<int64_t>(s) % sequence_length == 0 ? first : others)
        .push_back(static_cast<int64_t>(s));
  }
  llvm::SmallVector<SliceGroup> groups;
  groupSlices(ranges, first, true, groups);
  groupSlices(ranges, others, false, groups);
  return groups;
}

}  // namespace

absl::StatusOr<RegionGeometry> RegionGeometry::infer(const SlicedNests& nests, llvm::ArrayRef<SliceLoop> loops) {
  RegionGeometry geometry;
  const Coordinates& result = nests.coordinates.at(nests.result);
  llvm::SmallVector<mlir::Value> roots;  // in the order of first use, so that equal units give equal groups
  auto use = [&](mlir::Value root) {
    if (root && !llvm::is_contained(roots, root)) roots.push_back(root);
  };
  for (const Nest& nest : nests.nests) {
    geometry.loop_cut_.emplace_back(nest.loops(), -1);
    for (const Statement& statement : nest.statements) {
      for (const Operand& input : statement.inputs) use(input.access.root);
      for (const Operand& output : statement.outputs) use(output.access.root);
    }
  }
  for (mlir::Value root : roots) geometry.box_cut_[root].assign(nests.coordinates.at(root).size(), -1);
  for (auto [v, slice] : llvm::enumerate(loops)) {
    TESSERA_ASSIGN_OR_RETURN(auto needs, inferNeeds(nests, slice));
    auto name = [&](const SliceLoop& loop) {
      return loop.coordinate < 0 ? std::string("r0") : absl::StrCat("d", result.dims[loop.coordinate]);
    };
    auto twice = [&](const std::string& what, int other) {
      return refuseChain(absl::StrCat(what, " is walked by ", name(slice), " and by ", name(loops[other]),
                                      " together, and only one can be cut"),
                         name(slice), "dimensions that no operand adds up");
    };
    for (size_t n = 0; n < nests.nests.size(); ++n)
      for (int loop = 0; loop < nests.nests[n].loops(); ++loop) {
        if (!changes(needs, [&](const Needs& of) { return isEmpty(of.loops[n]) ? Range{} : of.loops[n][loop]; }))
          continue;
        // A nest that runs in some slices only, but always over the same range, is not cut.
        Range known;
        for (const Needs& of : llvm::reverse(needs))
          if (!isEmpty(of.loops[n])) known = of.loops[n][loop];
        if (!changes(needs, [&](const Needs& of) { return isEmpty(of.loops[n]) ? known : of.loops[n][loop]; }))
          continue;
        // Emitted code adds one slice number per loop: a loop that two slice loops move cannot be expressed.
        int& cut = geometry.loop_cut_[n][loop];
        if (cut >= 0) return twice(absl::StrCat("loop ", loop, " of ", describeNest(nests, n)), cut);
        cut = static_cast<int>(v);
      }
    for (mlir::Value root : roots)
      for (int c = 0; c < nests.coordinates.at(root).size(); ++c) {
        std::optional<Range> known;  // slices that do not touch the buffer do not count
        for (const Needs& of : needs)
          if (!known) known = boxRange(of, root, c);
        if (!changes(needs, [&](const Needs& of) { return boxRange(of, root, c).value_or(known.value_or(Range{})); }))
          continue;
        int& cut = geometry.box_cut_[root][c];
        if (cut >= 0) return twice(absl::StrCat("a buffer of extent ", nests.coordinates.at(root).extents[c]), cut);
        cut = static_cast<int>(v);
      }
    geometry.groups_.push_back(groupSlices(needs, roots, slice.sequence_length));
    geometry.sequence_length_ = slice.sequence_length;
    geometry.needs_.push_back(std::move(needs));
  }
  if (nests.mask && nests.mask->blocks) geometry.setUnmaskedBlocks(nests);
  return geometry;
}

/// Chooses the slice loop that removes the most blocks: the emitted code tests one slice number only.
void RegionGeometry::setUnmaskedBlocks(const SlicedNests& nests) {
  const PositionMask& mask = *nests.mask;
  double least = 1;
  for (int v = 0; v + 1 < sliceLoops(); ++v) {
    llvm::SmallVector<Range> blocks;
    double share = 0;
    int changes = 0;
    for (const Needs& needs : needs_[v]) {
      Range& range = blocks.emplace_back(Range{0, count(sliceLoops() - 1)});
      if (!isEmpty(needs.loops[mask.nest])) {
        const Range keys = unmaskedKeys(nests, needs.loops[mask.nest]);
        range = {keys.lo / mask.keys_per_group, (keys.hi + mask.keys_per_group - 1) / mask.keys_per_group};
      }
      share += static_cast<double>(range.size()) / static_cast<double>(count(sliceLoops() - 1) * count(v));
      changes += blocks.size() > 1 && !(range == blocks[blocks.size() - 2]);
    }
    // Keeps the slice loop that leaves the smallest share of blocks.
    if (share >= least || changes > kMaxChanges) continue;
    least = share;
    mask_loop_ = v;
    kept_blocks_ = std::move(blocks);
  }
}

/// The slice after the first one of a group.
int64_t RegionGeometry::secondSlice(int v, int group) const {
  const SliceGroup& members = groups_[v][group];
  // First slices of sequences are `sequence_length_` apart. Other slices skip the first slice of the next sequence.
  if (members.begins) return members.lo + sequence_length_;
  const bool keeps = v + 1 == sliceLoops() && sequence_length_ > 1;
  return members.lo + (keeps && (members.lo + 1) % sequence_length_ == 0 ? 2 : 1);
}

MovingRange RegionGeometry::moving(int v, int group, llvm::function_ref<Range(const Needs&)> range) const {
  const auto& slices = needs_[v];
  const SliceGroup& members = groups_[v][group];
  const Range first = range(slices[members.lo]);
  if (members.count < 2) return {first.lo, first.size(), 0};
  // Groups are formed so that ranges move linearly: two slices determine the step.
  const int64_t next = secondSlice(v, group);
  return {first.lo, first.size(), (range(slices[next]).lo - first.lo) / (next - members.lo)};
}

MovingRange RegionGeometry::loop(size_t n, int loop, llvm::ArrayRef<int> group) const {
  const int v = loop_cut_[n][loop];
  if (v >= 0) return moving(v, group[v], [&](const Needs& needs) { return needs.loops[n][loop]; });
  // Not cut: the range is the same in every slice in which the nest runs.
  for (const Needs& needs : needs_[0])
    if (!isEmpty(needs.loops[n])) return {needs.loops[n][loop].lo, needs.loops[n][loop].size(), 0};
  return {};
}

MovingRange RegionGeometry::box(mlir::Value root, int c, llvm::ArrayRef<int> group) const {
  const int v = box_cut_.at(root)[c];
  if (v >= 0)
    return moving(v, group[v], [&](const Needs& needs) { return boxRange(needs, root, c).value_or(Range{}); });
  for (const Needs& needs : needs_[0])
    if (auto range = boxRange(needs, root, c)) return {range->lo, range->size(), 0};
  return {};
}

MovingRange RegionGeometry::scratchRange(mlir::Value root, int c, llvm::ArrayRef<int> group) const {
  MovingRange range = box(root, c, group);
  if (!keeps(root) || boxCutBy(root, c) + 1 != sliceLoops()) return range;
  const int64_t largest = largestBox(root, c);
  // Kept rows precede the new ones, so the buffer begins as far before the box as the largest box is longer.
  range.lo -= largest - range.size;
  range.size = largest;
  return range;
}

std::optional<ReusedRows> RegionGeometry::kept(mlir::Value root, llvm::ArrayRef<int> group) const {
  const auto& kept = needs_.back()[groups_.back()[group.back()].lo].kept;
  const auto found = kept.find(root);
  return found == kept.end() ? std::nullopt : std::optional(found->second);
}

bool RegionGeometry::keeps(mlir::Value root) const {
  return llvm::any_of(needs_.back(), [&](const Needs& needs) { return needs.kept.contains(root); });
}

bool RegionGeometry::empty(size_t n, llvm::ArrayRef<int> group) const {
  // Slices of a group have the same geometry, so the first one stands for all.
  for (int v = 0; v < sliceLoops(); ++v)
    if (isEmpty(needs_[v][groups_[v][group[v]].lo].loops[n])) return true;
  return false;
}

int64_t RegionGeometry::largestBox(mlir::Value root, int c) const {
  int64_t size = 0;
  const int v = std::max(0, box_cut_.at(root)[c]);
  for (const Needs& needs : needs_[v])
    if (auto range = boxRange(needs, root, c)) size = std::max(size, range->size());
  return size;
}

bool RegionGeometry::dependsOn(size_t n, int v) const {
  // Not cut, but run in some slices only, counts as well.
  return llvm::is_contained(loop_cut_[n], v) ||
         changes(needs_[v], [&](const Needs& needs) { return Range{0, isEmpty(needs.loops[n]) ? 0 : 1}; });
}

}  // namespace tessera::compiler::codegen
