#include "compiler/artifact/write_bounds.h"

#include <algorithm>
#include <optional>

#include "proto/messages/element_size.h"

namespace tessera::compiler {
namespace {

using WalkInfo = v1::KernelInfo::Walk;

constexpr int64_t kMaxSteps = int64_t{1} << 30;  // bound of a count of steps that the runtime accepts

/// The loop of a walk that a grid bound of its phase shortens: to ceil(k * numerator / denominator) of its steps.
struct BoundedLoop {
  int loop = 0;
  int64_t step = 1;  ///< iterations
  int64_t numerator = 1, denominator = 1;
};

std::optional<BoundedLoop> loopOf(const GridBound& bound, const WalkInfo& walk, int64_t grid) {
  int64_t points = 1;
  for (const WalkInfo::Level& level : walk.levels()) points *= level.count();
  if (points == grid) {
    int64_t inner = points;
    for (const WalkInfo::Level& level : walk.levels()) {
      inner /= level.count();
      if (level.count() == bound.count && inner == bound.inner) return BoundedLoop{level.loop(), level.step()};
    }
  }
  // The front of the whole grid: the same share of the walk's own points, whose slowest level is its first.
  if (bound.inner != 1 || bound.count != grid || walk.levels().empty()) return std::nullopt;
  const WalkInfo::Level& first = walk.levels(0);
  if (first.count() > kMaxSteps || grid > kMaxSteps) return std::nullopt;
  return BoundedLoop{first.loop(), first.step(), first.count(), grid};
}

WriteBound writeBoundOf(const WalkInfo& walk, const WalkInfo::Touch& touch, int64_t element, int64_t grid,
                        int32_t phase, const std::vector<GridBound>& grid_bounds) {
  WriteBound bound{.operand = touch.buffer(), .base = touch.offset() + element, .terms = {}};
  for (int loop = 0; loop < touch.strides_size(); ++loop)
    if (touch.strides(loop) > 0) bound.base += touch.strides(loop) * (walk.extents(loop) - 1);
  std::vector<int> ended;
  for (size_t c = 0; c < grid_bounds.size(); ++c) {
    if (grid_bounds[c].phase != phase) continue;
    const std::optional<BoundedLoop> bounded = loopOf(grid_bounds[c], walk, grid);
    if (!bounded || std::find(ended.begin(), ended.end(), bounded->loop) != ended.end()) continue;
    const int64_t stride = touch.strides(bounded->loop), most = stride * walk.extents(bounded->loop);
    if (stride <= 0) continue;
    ended.push_back(bounded->loop);
    bound.base -= most;  // the remaining iterations of the other loops belong to the last iteration of this one
    bound.terms.push_back({.grid_bound = static_cast<int32_t>(c),
                           .numerator = bounded->numerator,
                           .denominator = bounded->denominator,
                           .bytes = stride * bounded->step,
                           .most = most});
  }
  return bound;
}

}  // namespace

std::vector<WriteBound> writeBoundsOf(const v1::Plan& plan, const v1::Step& step, const v1::KernelInfo& kernel,
                                      const std::vector<GridBound>& grid_bounds) {
  std::vector<WriteBound> write_bounds;
  if (grid_bounds.empty()) return write_bounds;
  for (const v1::KernelInfo::Phase& phase : kernel.phases())
    if (phase.walks().empty() || phase.grid() > kMaxSteps) return write_bounds;
  for (int operand = step.operands_size() - kernel.num_results(); operand < step.operands_size(); ++operand) {
    const v1::Buffer& buffer = plan.buffers(step.operands(operand));
    const int64_t element = elementBytes(buffer.spec().dtype());
    std::vector<WriteBound> found;
    bool ends = false, whole = false;
    for (int p = 0; p < kernel.phases_size(); ++p) {
      for (const WalkInfo& walk : kernel.phases(p).walks()) {
        for (const WalkInfo::Touch& touch : walk.touches()) {
          if (!touch.written() || touch.buffer() != operand) continue;
          WriteBound bound = writeBoundOf(walk, touch, element, kernel.phases(p).grid(), p, grid_bounds);
          ends |= !bound.terms.empty();
          whole |= bound.terms.empty() && bound.base >= buffer.size_bytes();
          if (std::find(found.begin(), found.end(), bound) == found.end()) found.push_back(std::move(bound));
        }
      }
    }
    if (ends && !whole) write_bounds.insert(write_bounds.end(), found.begin(), found.end());
  }
  return write_bounds;
}

}  // namespace tessera::compiler
