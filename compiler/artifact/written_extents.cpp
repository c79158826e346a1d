#include "compiler/artifact/written_extents.h"

#include <algorithm>
#include <optional>

#include "proto/messages/element_size.h"

namespace tessera::compiler {
namespace {

using Walk = v1::KernelInfo::Walk;

constexpr int64_t kMostFactor = int64_t{1} << 30;  // bound of a count of steps that the runtime accepts

/// The loop of a walk that a grid bound of its phase shortens: to ceil(k * numerator / denominator) of its steps.
struct CutLoop {
  int loop = 0;
  int64_t step = 1;  ///< iterations
  int64_t numerator = 1, denominator = 1;
};

std::optional<CutLoop> loopOf(const Cut& cut, const Walk& walk, int64_t grid) {
  int64_t points = 1;
  for (const Walk::Level& level : walk.levels()) points *= level.count();
  if (points == grid) {
    int64_t inner = points;
    for (const Walk::Level& level : walk.levels()) {
      inner /= level.count();
      if (level.count() == cut.count && inner == cut.inner) return CutLoop{level.loop(), level.step()};
    }
  }
  // The front of the whole grid: the same share of the walk's own points, whose slowest level is its first.
  if (cut.inner != 1 || cut.count != grid || walk.levels().empty()) return std::nullopt;
  const Walk::Level& first = walk.levels(0);
  if (first.count() > kMostFactor || grid > kMostFactor) return std::nullopt;
  return CutLoop{first.loop(), first.step(), first.count(), grid};
}

WrittenExtent reachOf(const Walk& walk, const Walk::Touch& touch, int64_t element, int64_t grid, int32_t phase,
                      const std::vector<Cut>& grid_bounds) {
  WrittenExtent reach{.operand = touch.buffer(), .base = touch.offset() + element, .terms = {}};
  for (int loop = 0; loop < touch.strides_size(); ++loop)
    if (touch.strides(loop) > 0) reach.base += touch.strides(loop) * (walk.extents(loop) - 1);
  std::vector<int> ended;
  for (size_t c = 0; c < grid_bounds.size(); ++c) {
    if (grid_bounds[c].phase != phase) continue;
    const std::optional<CutLoop> cut = loopOf(grid_bounds[c], walk, grid);
    if (!cut || std::find(ended.begin(), ended.end(), cut->loop) != ended.end()) continue;
    const int64_t stride = touch.strides(cut->loop), most = stride * walk.extents(cut->loop);
    if (stride <= 0) continue;
    ended.push_back(cut->loop);
    reach.base -= most;  // the remaining iterations of the other loops belong to the last iteration of this one
    reach.terms.push_back({.cut = static_cast<int32_t>(c),
                           .numerator = cut->numerator,
                           .denominator = cut->denominator,
                           .bytes = stride * cut->step,
                           .most = most});
  }
  return reach;
}

}  // namespace

std::vector<WrittenExtent> writtenExtentsOf(const v1::Plan& plan, const v1::Step& step, const v1::KernelInfo& kernel,
                                            const std::vector<Cut>& grid_bounds) {
  std::vector<WrittenExtent> written_extents;
  if (grid_bounds.empty()) return written_extents;
  for (const v1::KernelInfo::Phase& phase : kernel.phases())
    if (phase.walks().empty() || phase.grid() > kMostFactor) return written_extents;
  for (int operand = step.operands_size() - kernel.num_results(); operand < step.operands_size(); ++operand) {
    const v1::Buffer& buffer = plan.buffers(step.operands(operand));
    const int64_t element = elementBytes(buffer.spec().dtype());
    std::vector<WrittenExtent> found;
    bool ends = false, whole = false;
    for (int p = 0; p < kernel.phases_size(); ++p) {
      for (const Walk& walk : kernel.phases(p).walks()) {
        for (const Walk::Touch& touch : walk.touches()) {
          if (!touch.written() || touch.buffer() != operand) continue;
          WrittenExtent reach = reachOf(walk, touch, element, kernel.phases(p).grid(), p, grid_bounds);
          ends |= !reach.terms.empty();
          whole |= reach.terms.empty() && reach.base >= buffer.size_bytes();
          if (std::find(found.begin(), found.end(), reach) == found.end()) found.push_back(std::move(reach));
        }
      }
    }
    if (ends && !whole) written_extents.insert(written_extents.end(), found.begin(), found.end());
  }
  return written_extents;
}

}  // namespace tessera::compiler
