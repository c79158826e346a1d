#include "compiler/backends/spatial/nest_execution.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/evaluator.h"

namespace tessera::compiler::simulator {
namespace {

/// The position of an access, as the sum of a part that the loops across a strip determine, a part of the loops along
/// it, and a part of both.
struct Position {
  loopnest::Subscript across, along, both;
  std::array<int64_t, kStrip> at{};  ///< the first part, at each point of the strip; with `both`, the whole position
  bool regular = false;
  int64_t step = 0;
  bool kept = false;  ///< an output that stays in its value while the loops along the strip run
};

/// Counts through the indices of some loops of a nest, the last one fastest.
class Odometer {
 public:
  Odometer(std::vector<int> loops, const std::vector<int64_t>& extents) : loops_(std::move(loops)) {
    for (const int loop : loops_) extents_.push_back(extents[static_cast<size_t>(loop)]);
  }
  /// Advances `point`, by `run` points along the last loop; false, with all indices at 0, after the last one.
  bool next(std::vector<int64_t>& point, int64_t run = 1) const {
    for (size_t i = loops_.size(); i-- > 0; run = 1) {
      int64_t& index = point[static_cast<size_t>(loops_[i])];
      index += run;
      if (index < extents_[i]) return true;
      index = 0;
    }
    return false;
  }

  /// The last loop, -1 without loops, and the number of points that remain along it, at most `most`.
  int innermost() const { return loops_.empty() ? -1 : loops_.back(); }
  int run(const std::vector<int64_t>& point, int64_t most) const {
    if (loops_.empty()) return 1;
    return static_cast<int>(std::min(most, extents_.back() - point[static_cast<size_t>(loops_.back())]));
  }

 private:
  std::vector<int> loops_;
  std::vector<int64_t> extents_;
};

class NestRun {
 public:
  NestRun(const CheckedKernel& kernel, const SpatialNest& nest, std::span<uint8_t* const> buffers)
      : kernel_(kernel),
        nest_(nest),
        buffers_(buffers),
        evaluator_(nest),
        parallel_(parallelLoopsOf(nest)),
        point_(nest.loops.size(), 0),
        yields_(static_cast<size_t>(nest.outputs)) {
    std::vector<int> across, along;
    for (size_t l = 0; l < nest.loops.size(); ++l) {
      if (nest.loops[l].extent > 1) (parallel_[l] ? across : along).push_back(static_cast<int>(l));
    }
    for (const SpatialAccess& access : nest.accesses) positions_.push_back(split(access));
    for (size_t output = 0; output < static_cast<size_t>(nest.outputs); ++output)
      positions_[output].kept = staysPut(output, along);
    across_ = Odometer(across, nest.extents());
    along_ = Odometer(along, nest.extents());
  }

  absl::Status run() {
    bool more = true;
    while (more) {
      int count = 0;
      std::vector<int64_t> first = point_;
      while (more && count < kStrip) {
        const int run = across_.run(point_, kStrip - count);
        for (Position& position : positions_) place(position, count, run);
        for (const auto& index : evaluator_.indices()) {
          if (!parallel_[static_cast<size_t>(index.loop)]) continue;
          int64_t* values = evaluator_.value(index.value).whole() + count;
          const int64_t begin = point_[static_cast<size_t>(index.loop)];
          const int64_t step = index.loop == across_.innermost() ? 1 : 0;
          for (int i = 0; i < run; ++i) values[i] = begin + i * step;
        }
        count += run;
        more = across_.next(point_, run);
      }
      std::vector<int64_t> next = point_;
      if (absl::Status status = strip(first, count); !status.ok()) return status;
      point_ = std::move(next);
    }
    return absl::OkStatus();
  }

 private:
  /// The positions of `run` points from point_ along the innermost loop, from number `first` of the strip.
  void place(Position& position, int first, int run) {
    int64_t* at = position.at.data() + first;
    const int innermost = across_.innermost();
    if (position.across.digits.empty()) {
      const int64_t begin = position.across.at(point_), step = position.across.coefficientOf(innermost);
      for (int i = 0; i < run; ++i) at[i] = begin + i * step;
      return;
    }
    std::vector<int64_t> point = point_;
    for (int i = 0; i < run; ++i) {
      at[i] = position.across.at(point);
      if (innermost >= 0) ++point[static_cast<size_t>(innermost)];
    }
  }

  Position split(const SpatialAccess& access) const {
    Position position;
    position.across.constant = access.position.constant;
    for (const loopnest::Term& term : access.position.terms)
      (parallel_[static_cast<size_t>(term.loop)] ? position.across : position.along).terms.push_back(term);
    for (const loopnest::Digit& digit : access.position.digits) {
      const auto is_parallel = [&](const loopnest::Term& term) { return parallel_[static_cast<size_t>(term.loop)]; };
      const bool all = std::ranges::all_of(digit.terms, is_parallel);
      const bool none = std::ranges::none_of(digit.terms, is_parallel);
      (all ? position.across : none ? position.along : position.both).digits.push_back(digit);
    }
    return position;
  }

  /// Whether an output can be read once before and written once after the loops along a strip: they do not move it, and
  /// no other access has its buffer.
  bool staysPut(size_t output, const std::vector<int>& along) const {
    const SpatialAccess& written = nest_.accesses[output];
    for (const int loop : along)
      if (written.position.uses(loop)) return false;
    for (size_t other = 0; other < nest_.accesses.size(); ++other)
      if (other != output && nest_.accesses[other].buffer == written.buffer) return false;
    return std::ranges::none_of(nest_.body, [&](const SpatialOperation& operation) {
      return operation.name == "load" && operation.access.buffer == written.buffer;
    });
  }

  StripPlace placeOf(const Position& position, int64_t shift) const {
    return {.positions = position.at.data(), .regular = position.regular, .step = position.step, .shift = shift};
  }

  uint8_t* bytesOf(size_t access) const { return buffers_[static_cast<size_t>(nest_.accesses[access].buffer)]; }

  /// All points of the loops along the strip that begins at `first`.
  absl::Status strip(const std::vector<int64_t>& first, int count) {
    for (Position& position : positions_) {
      position.step = count > 1 ? position.at[1] - position.at[0] : 1;
      position.regular = position.both.digits.empty();
      for (int i = 1; i < count && position.regular; ++i)
        position.regular =
            position.at[static_cast<size_t>(i)] - position.at[static_cast<size_t>(i) - 1] == position.step;
    }
    point_ = first;
    for (size_t l = 0; l < parallel_.size(); ++l)
      if (!parallel_[l]) point_[l] = 0;
    const auto outputs = static_cast<size_t>(nest_.outputs);
    for (size_t output = 0; output < outputs; ++output)
      if (positions_[output].kept) read(output, count);
    do {
      for (size_t a = 0; a < positions_.size(); ++a)
        if (!positions_[a].kept) read(a, count);
      for (const auto& index : evaluator_.indices()) {
        if (!parallel_[static_cast<size_t>(index.loop)])
          std::fill_n(evaluator_.value(index.value).whole(), count, point_[static_cast<size_t>(index.loop)]);
      }
      if (absl::Status status = evaluator_.run(count, buffers_, kernel_.elements); !status.ok())
        return absl::Status(status.code(),
                            absl::StrCat("nest ", nest_.name, ", ", pointText(), ": ", status.message()));
      // All yields are values of this point: none may be overwritten before it is stored.
      for (size_t output = 0; output < outputs; ++output) yields_[output] = evaluator_.value(nest_.yields[output]);
      for (size_t output = 0; output < outputs; ++output) {
        if (positions_[output].kept) {
          evaluator_.value(static_cast<int>(output)) = yields_[output];
        } else {
          write(output, count);
        }
      }
    } while (along_.next(point_));
    for (size_t output = 0; output < outputs; ++output)
      if (positions_[output].kept) write(output, count);
    return absl::OkStatus();
  }

  void read(size_t access, int count) {
    Position& position = positions_[access];
    withBoth(position, count, [&](const StripPlace& place) {
      readStrip(nest_.accesses[access].dtype, bytesOf(access), place, count,
                evaluator_.value(static_cast<int>(access)));
    });
  }

  void write(size_t output, int count) {
    withBoth(positions_[output], count, [&](const StripPlace& place) {
      writeStrip(nest_.accesses[output].dtype, bytesOf(output), place, count, yields_[output]);
    });
  }

  /// Adds the part that depends on both kinds of loops, point by point.
  template <typename Use>
  void withBoth(const Position& position, int count, Use&& use) {
    const int64_t shift = position.along.at(point_);
    if (position.both.digits.empty()) return use(placeOf(position, shift));
    std::vector<int64_t> point = point_;
    for (int i = 0; i < count; ++i) {
      whole_[static_cast<size_t>(i)] = position.at[static_cast<size_t>(i)] + position.both.at(point);
      across_.next(point);
    }
    use({.positions = whole_.data(), .shift = shift});
  }

  std::string pointText() const {
    std::string text = "from";
    for (size_t l = 0; l < nest_.loops.size(); ++l) absl::StrAppend(&text, " ", nest_.loops[l].name, " = ", point_[l]);
    return text;
  }

  const CheckedKernel& kernel_;
  const SpatialNest& nest_;
  std::span<uint8_t* const> buffers_;
  Evaluator evaluator_;
  std::vector<bool> parallel_;
  std::vector<int64_t> point_;
  std::vector<Position> positions_;
  std::vector<StripValue> yields_;  // per output
  std::array<int64_t, kStrip> whole_{};
  Odometer across_{{}, {}}, along_{{}, {}};
};

}  // namespace

absl::Status runNest(const CheckedKernel& kernel, const SpatialNest& nest, std::span<uint8_t* const> buffers) {
  return NestRun(kernel, nest, buffers).run();
}

}  // namespace tessera::compiler::simulator
