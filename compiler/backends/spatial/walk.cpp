#include "compiler/backends/spatial/walk.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

class Walker {
 public:
  Walker(const Program& program, Share share, Machine& machine, const std::function<bool(size_t, int64_t)>& only)
      : program_(program), share_(share), machine_(machine), only_(only) {
    before_.resize(program.loops.size() + 1);
    after_.resize(program.loops.size() + 1);
    for (const Step& step : program.steps) (step.after ? after_ : before_)[step.depth].push_back(&step);
    inside_.assign(program.loops.size() + 1, 1);
    for (size_t l = program.loops.size(); l-- > 0;) {
      // Only the outer `shared` loops are divided among units.
      inside_[l] = inside_[l + 1] * (l < static_cast<size_t>(program.shared) ? program.loops[l].trips : 1);
    }
    for (const Dimension& dimension : program.dimensions) {
      place_.first.push_back(0);
      place_.count.push_back(dimension.blocks);
    }
  }

  absl::Status run() { return inside(0, 0); }

 private:
  absl::Status inside(size_t depth, int64_t task) {
    TESSERA_RETURN_IF_ERROR(enter(depth));
    if (depth < program_.loops.size()) {
      const ProgramLoop& loop = program_.loops[depth];
      const int64_t first = place_.first[loop.dimension], count = place_.count[loop.dimension];
      const bool shared = depth < static_cast<size_t>(program_.shared);
      // Skips trips that belong to earlier units.
      int64_t trip = shared ? std::max<int64_t>(0, (share_.first - task) / inside_[depth + 1]) : 0;
      for (; trip < loop.trips && trip * loop.step < count; ++trip) {
        const int64_t begin = task + trip * inside_[depth + 1];
        if (shared && begin >= share_.end) break;
        if (shared && begin + inside_[depth + 1] <= share_.first) continue;
        if (only_ && !only_(depth, trip)) continue;
        place_.first[loop.dimension] = first + trip * loop.step;
        place_.count[loop.dimension] = std::min(loop.step, count - trip * loop.step);
        place_.trips.push_back(trip);
        absl::Status status = inside(depth + 1, begin);
        place_.trips.pop_back();
        if (!status.ok()) return status;
      }
      place_.first[loop.dimension] = first;
      place_.count[loop.dimension] = count;
    }
    return leave(depth);
  }

  absl::Status enter(size_t depth) {
    for (const Step* step : before_[depth]) {
      TESSERA_RETURN_IF_ERROR(step->kind == Step::kFill ? machine_.fill(*step, place_)
                              : step->kind == Step::kCall
                                  ? machine_.call(*step, place_)
                                  : machine_.copy(*step, place_, {0, blocksAt(program_, step->operand, place_)}));
    }
    return absl::OkStatus();
  }

  /// Results leave in pieces that fit the intermediate memories.
  absl::Status leave(size_t depth) {
    if (after_[depth].empty()) return absl::OkStatus();
    const int64_t blocks = blocksAt(program_, after_[depth].front()->operand, place_);
    int64_t piece = blocks;
    for (const Step* step : after_[depth]) {
      const Buffer& to = program_.buffers[step->to];
      if (to.piece > 0) piece = std::min(piece, to.piece);
    }
    for (int64_t first = 0; first < blocks; first += piece) {
      for (const Step* step : after_[depth]) {
        const Piece next{first, std::min(piece, blocks - first)};
        TESSERA_RETURN_IF_ERROR(step->kind == Step::kVector ? machine_.runVector(*step, place_, next)
                                                            : machine_.copy(*step, place_, next));
      }
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const Share share_;
  Machine& machine_;
  const std::function<bool(size_t, int64_t)>& only_;
  std::vector<std::vector<const Step*>> before_, after_;  // per depth
  std::vector<int64_t> inside_;                           // tasks of one trip of the next outer loop
  Place place_;
};

std::string bufferText(const Program& program, int buffer) {
  if (buffer < 0 || buffer >= static_cast<int>(program.buffers.size())) return "?";
  const Buffer& named = program.buffers[buffer];
  return absl::StrCat(program.memories[named.memory].name, ".", named.name);
}

}  // namespace

int64_t tasksOf(const Program& program) {
  int64_t tasks = 1;
  for (int l = 0; l < program.shared; ++l) tasks = loopnest::saturatedProduct(tasks, program.loops[l].trips);
  return tasks;
}

Share shareOf(const Program& program, int64_t unit) {
  const int64_t tasks = tasksOf(program), each = (tasks - 1) / program.units + 1;
  return {std::min(tasks, unit * each), std::min(tasks, (unit + 1) * each)};
}

int64_t blocksAt(const Program& program, int operand, const Place& place) {
  int64_t blocks = 1;
  for (int d : program.walks[operand]) blocks *= place.count[d];
  return blocks;
}

absl::Status walk(const Program& program, int64_t unit, Machine& machine,
                  const std::function<bool(size_t, int64_t)>& only) {
  const Share share = shareOf(program, unit);
  if (share.first == share.end) return absl::OkStatus();
  return Walker(program, share, machine, only).run();
}

std::string stepText(const Program& program, const Step& step) {
  switch (step.kind) {
    case Step::kFill:
      return absl::StrCat("fill ", bufferText(program, step.to));
    case Step::kVector:
      return absl::StrCat(program.epilogue->unit, " runs ", program.epilogue->nest.name, " on ",
                          bufferText(program, step.from), " -> ", bufferText(program, step.to));
    case Step::kCopy:
      return absl::StrCat("copy ", bufferText(program, step.from), " -> ", bufferText(program, step.to));
    default:
      return absl::StrCat("call ", program.choice.intrinsic.name());
  }
}

std::string pathOf(const Program& program, const Step& step, const Place& place) {
  std::vector<std::string> loops;
  for (size_t l = 0; l < place.trips.size(); ++l) {
    const ProgramLoop& loop = program.loops[l];
    // With several loops of one dimension, each gives the start of its own trip.
    loops.push_back(absl::StrCat(program.dimensions[loop.dimension].name, " + ", place.trips[l] * loop.step));
  }
  return absl::StrCat(loops.empty() ? "" : absl::StrJoin(loops, ", ") + ": ", stepText(program, step));
}

}  // namespace tessera::compiler::simulator
