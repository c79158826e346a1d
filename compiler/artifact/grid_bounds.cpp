#include "compiler/artifact/grid_bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "proto/messages/element_size.h"

namespace tessera::compiler {
namespace {

using WalkInfo = v1::KernelInfo::Walk;

constexpr int64_t kMaxCountFactor = int64_t{1} << 46;  // bound of a count's factors that the runtime accepts

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The rows of a buffer: byte b belongs to row b / bytes mod count. A run of n rows of the range, at most `most`, needs
/// the first ceil(n * count / most) + slack rows.
struct RowsOfBuffer {
  int64_t bytes = 0;  ///< of one row; 0 if unknown
  int64_t count = 1;
  int64_t slack = 0;
  int64_t all() const { return bytes * count; }
};

uint32_t rangesOf(const v1::Step::Rows& rows) {
  uint32_t ranges = 0;
  for (const int32_t dimension : rows.dimensions()) ranges |= uint32_t{1} << dimension;
  return ranges;
}

/// Rows of one range, or of several together, in the buffers of a step.
class RowsOfBuffers {
 public:
  RowsOfBuffers(const v1::Plan& plan, const v1::Step& step, uint32_t ranges) : results_(step.operands_size()) {
    for (int dimension = 0; dimension < plan.dimensions_size(); ++dimension)
      if (dimension < 32 && (ranges >> dimension & 1) != 0) most_ *= -plan.dimensions(dimension).size();
    for (const v1::Step::Rows& rows : step.rows()) {
      if (rangesOf(rows) != ranges) continue;
      const v1::Buffer& buffer = plan.buffers(step.operands(rows.operand()));
      rows_[rows.operand()] = {rows.stride() * elementBytes(buffer.spec().dtype()),
                               rows.count() > 0 ? rows.count() : most_, rows.slack()};
    }
  }

  int64_t most() const { return most_; }
  RowsOfBuffer of(int buffer) const {
    const auto found = rows_.find(buffer);
    return found == rows_.end() ? RowsOfBuffer{} : found->second;
  }
  /// Whether all of the last `results` operands have rows.
  bool coversResults(int results) const {
    for (int operand = results_ - results; operand < results_; ++operand)
      if (of(operand).bytes == 0) return false;
    return results > 0;
  }

  /// Infers the rows of temporaries that the walk writes row by row from buffers with rows.
  void learn(const WalkInfo& walk) {
    for (const WalkInfo::Touch& written : walk.touches()) {
      if (!written.written() || written.buffer() >= 0 || of(written.buffer()).bytes > 0) continue;
      for (const WalkInfo::Touch& read : walk.touches()) {
        if (read.written() || of(read.buffer()).bytes == 0) continue;
        RowsOfBuffer rows = of(read.buffer());
        rows.bytes = bytesBy(walk, read, written);
        if (rows.bytes == 0) continue;
        rows_[written.buffer()] = rows;
        break;
      }
    }
  }

  /// Whether iteration i of `loop` touches no byte of a row before floor(i * its stride / the row's bytes).
  bool ascends(const WalkInfo& walk, const WalkInfo::Touch& touch, int loop) const {
    const RowsOfBuffer rows = of(touch.buffer());
    const int64_t whole = rows.all(), step = touch.strides(loop);
    return rows.bytes > 0 && step > 0 && step % whole != 0 && within(walk, touch, whole, -1) < whole;
  }

 private:
  /// The last byte within `whole` that the touch reaches, over all loops except `except` and those that move by
  /// multiples of `whole`; `whole` if it goes backwards.
  static int64_t within(const WalkInfo& walk, const WalkInfo::Touch& touch, int64_t whole, int except) {
    if (touch.offset() < 0) return whole;
    int64_t last = touch.offset() % whole;
    for (int loop = 0; loop < touch.strides_size(); ++loop) {
      if (touch.strides(loop) < 0) return whole;
      if (loop != except && touch.strides(loop) % whole != 0) last += touch.strides(loop) * (walk.extents(loop) - 1);
    }
    return last;
  }

  /// The loop that alone walks all rows of a buffer, while all other loops stay within one of its iterations or one
  /// row; -1: none.
  static int rowLoop(const WalkInfo& walk, const WalkInfo::Touch& touch, const RowsOfBuffer& rows) {
    const int64_t row = rows.bytes;
    for (int loop = 0; loop < touch.strides_size(); ++loop) {
      const int64_t step = touch.strides(loop);
      if (step <= 0 || step * walk.extents(loop) != rows.all()) continue;
      if (step % row != 0 && row % step != 0) continue;
      if (step <= row && within(walk, touch, rows.all(), loop) < step) return loop;
    }
    return -1;
  }

  /// Bytes of a row in the written buffer, if the walk maps the rows it reads to rows it writes; otherwise 0.
  int64_t bytesBy(const WalkInfo& walk, const WalkInfo::Touch& read, const WalkInfo::Touch& written) const {
    RowsOfBuffer rows = of(read.buffer());
    const int loop = rowLoop(walk, read, rows);
    if (loop < 0) return 0;
    rows.bytes = written.strides(loop) * (rows.bytes / read.strides(loop));
    return rows.bytes > 0 && rowLoop(walk, written, rows) == loop ? rows.bytes : 0;
  }

  int64_t most_ = 1;
  int results_;
  std::map<int, RowsOfBuffer> rows_;  // by operand or temporary
};

/// A run of n rows needs ceil(n * numerator / denominator) + slack.
struct Steps {
  int64_t numerator = 0, denominator = 1, slack = 0;
};

/// Makes `to`, a grid bound or a candidate for one, need at least as many steps as `other`.
template <typename To>
void raise(To& to, Steps other) {
  const int64_t common = std::gcd(other.numerator, other.denominator);
  other.numerator /= common;
  other.denominator /= common;
  if (static_cast<__int128>(other.numerator) * to.denominator >
      static_cast<__int128>(to.numerator) * other.denominator) {
    to.numerator = other.numerator;
    to.denominator = other.denominator;
  }
  to.slack = std::max(to.slack, other.slack);
}

/// A dimension of a walk's own grid that a grid bound may shorten.
struct Candidate {
  int64_t outer = 1, count = 1, inner = 1, numerator = 0, denominator = 1, slack = 0;
  int64_t ofOneRow() const { return ceilDiv(numerator, denominator) + slack; }  ///< steps
};

/// Steps of `step` bytes for the rows that a run needs: ceil((ceil(n * count / most) + slack) * bytes / step). The
/// inner rounding has no effect if steps are whole rows, or if the rows are the range's own.
Steps stepsOf(const RowsOfBuffer& rows, int64_t most, int64_t step) {
  const bool exact = rows.count == most || step % rows.bytes == 0;
  return {.numerator = rows.all(),
          .denominator = step * most,
          .slack = ceilDiv((rows.slack + (exact ? 0 : 1)) * rows.bytes, step)};
}

std::vector<Candidate> candidatesOf(const WalkInfo& walk, const RowsOfBuffers& rows) {
  std::vector<Candidate> candidates;
  std::vector<int> seen;
  for (int l = 0; l < walk.levels_size(); ++l) {
    const WalkInfo::Level& level = walk.levels(l);
    if (std::find(seen.begin(), seen.end(), level.loop()) != seen.end()) continue;  // its block level came before
    seen.push_back(level.loop());
    if (level.count() < 2) continue;
    Candidate candidate{.count = level.count()};
    for (int other = 0; other < walk.levels_size(); ++other)
      if (other != l) (other < l ? candidate.outer : candidate.inner) *= walk.levels(other).count();
    bool writes = false, good = true;
    for (const WalkInfo::Touch& touch : walk.touches()) {
      if (!touch.written()) continue;
      good &= rows.ascends(walk, touch, level.loop());
      if (!good) break;
      raise(candidate, stepsOf(rows.of(touch.buffer()), rows.most(), touch.strides(level.loop()) * level.step()));
      writes = true;
    }
    // A loop within rows satisfies these conditions as well, but a bound of it would skip nothing.
    if (writes && good && candidate.ofOneRow() < candidate.count) candidates.push_back(candidate);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.ofOneRow() * b.count, b.inner) < std::pair(b.ofOneRow() * a.count, a.inner);
  });
  return candidates;
}

int64_t pointsOf(const WalkInfo& walk) {
  int64_t points = 1;
  for (const WalkInfo::Level& level : walk.levels()) points *= level.count();
  return points;
}

std::optional<GridBound> gridBoundOf(const v1::KernelInfo::Phase& phase, const RowsOfBuffers& rows) {
  std::vector<std::vector<Candidate>> candidates;
  bool same_grid = true;
  for (const WalkInfo& walk : phase.walks()) {
    candidates.push_back(candidatesOf(walk, rows));
    if (candidates.back().empty()) return std::nullopt;
    same_grid &= pointsOf(walk) == phase.grid();
  }
  if (candidates.empty()) return std::nullopt;
  // One level that all walks have.
  for (const Candidate& first : candidates[0]) {
    if (!same_grid) break;
    GridBound bound{.count = first.count,
                    .inner = first.inner,
                    .numerator = first.numerator,
                    .denominator = first.denominator,
                    .slack = first.slack};
    const bool shared = std::all_of(candidates.begin(), candidates.end(), [&](const auto& others) {
      const auto other = std::find_if(others.begin(), others.end(), [&](const Candidate& each) {
        return each.count == first.count && each.inner == first.inner;
      });
      if (other == others.end()) return false;
      raise(bound, {other->numerator, other->denominator, other->slack});
      return true;
    });
    if (shared) return bound;
  }
  // Concurrent nests (Para), each bounded in its first dimension: the share of the grid that the most demanding nest
  // needs, rounded up.
  GridBound bound{.count = phase.grid(), .numerator = 0};
  for (const auto& each : candidates) {
    const Candidate& first = each[0];
    if (first.outer != 1 || first.numerator > kMaxCountFactor / phase.grid()) return std::nullopt;
    raise(bound, {.numerator = phase.grid() * first.numerator,
                  .denominator = first.count * first.denominator,
                  .slack = ceilDiv(phase.grid() * (first.slack * first.denominator + first.denominator - 1),
                                   first.count * first.denominator)});
  }
  return bound;
}

}  // namespace

std::vector<GridBound> gridBoundsOf(const v1::Plan& plan, const v1::Step& step, const v1::KernelInfo& kernel) {
  std::vector<GridBound> grid_bounds;
  std::set<uint32_t> all;
  for (const v1::Step::Rows& rows : step.rows()) all.insert(rangesOf(rows));
  for (const uint32_t ranges : all) {
    RowsOfBuffers rows(plan, step, ranges);
    if (!rows.coversResults(kernel.num_results())) continue;
    for (int p = 0; p < kernel.phases_size(); ++p) {
      for (const WalkInfo& walk : kernel.phases(p).walks()) rows.learn(walk);
      std::optional<GridBound> bound = gridBoundOf(kernel.phases(p), rows);
      if (!bound || bound->numerator > kMaxCountFactor / rows.most() || bound->denominator > kMaxCountFactor) continue;
      bound->phase = p;
      bound->ranges = ranges;
      grid_bounds.push_back(*bound);
    }
  }
  std::sort(grid_bounds.begin(), grid_bounds.end(), [](const GridBound& a, const GridBound& b) {
    return std::tuple(a.phase, -a.inner, a.ranges) < std::tuple(b.phase, -b.inner, b.ranges);
  });
  // If two grid bounds are of one dimension, the first one is kept.
  const auto overlap = [](const GridBound& a, const GridBound& b) {
    return a.phase == b.phase && a.inner % (b.inner * b.count) != 0;
  };
  for (size_t i = 1; i < grid_bounds.size();) {
    if (overlap(grid_bounds[i - 1], grid_bounds[i])) {
      grid_bounds.erase(grid_bounds.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return grid_bounds;
}

}  // namespace tessera::compiler
