#include "compiler/backends/ptx/cycle_estimate.h"

#include <algorithm>
#include <cmath>

#include "proto/messages/element_size.h"

namespace tessera::compiler::ptx {
namespace {

constexpr double kSectorBytes = 32;  // the smallest part of a line that a level delivers

/// The share of the tiles along an iteration that is within the operator.
double shareOf(int64_t extent, int64_t tiles, int64_t tile) {
  return static_cast<double>(extent) / static_cast<double>(tiles * tile);
}

/// Combined time of units that work concurrently: the longest, plus a little for the others, since they stall each
/// other at times.
double together(std::initializer_list<double> cycles) {
  constexpr double kDegree = 4;
  double sum = 0;
  for (double each : cycles) sum += std::pow(each, kDegree);
  return std::pow(sum, 1 / kDegree);
}

class Pricer {
 public:
  Pricer(const Plan& plan, const v1::Target& target, const v1::CostParameters::Threads& parameters)
      : plan_(plan),
        core_(target.units(0)),
        parameters_(parameters),
        level_(target.memory(plan.level)),
        next_(target.memory(std::min(plan.level + 1, target.memory_size() - 1))),
        last_(target.memory(target.memory_size() - 1)) {
    warp_ = std::max<int64_t>(1, target.registers().vector_bits() / 32);
    double units = core_.count();
    for (const v1::ComputeUnit& unit : target.units()) {
      if (unit.name() == plan.intrinsic.unit()) units = unit.count();
    }
    const double warps =
        std::max(1.0, static_cast<double>(plan.intrinsic.threads().threads()) / static_cast<double>(warp_));
    // Groups that the tensor units of one core serve at a time.
    groups_at_once_ = std::max(1.0, units / core_.count() / warps);
    interval_ =
        plan.intrinsic.cycles_per_issue() > 0 ? plan.intrinsic.cycles_per_issue() : plan.intrinsic.latency_cycles();
  }

  double run() {
    for (const Side& side : plan_.sources) copies(side);
    const auto cores = static_cast<double>(core_.count()), held = static_cast<double>(blocksHeld());
    const auto grid = static_cast<double>(plan_.grid());
    // Whole waves of resident blocks on all cores, then a last one with fewer blocks per core.
    const double full = std::floor(grid / (cores * held));
    const double last = std::ceil((grid - full * cores * held) / cores);
    double bytes = 0;
    for (const loopnest::Access& access : plan_.tensors()) {
      double elements = 1;
      for (int64_t extent : shapeOf(plan_.software, access)) elements *= static_cast<double>(extent);
      bytes += elements * static_cast<double>(elementBytes(access.dtype));
    }
    return together(
        {full * wave(held) + (last > 0 ? wave(last) : 0), bytes / (last_.bandwidth_bytes_per_cycle() * cores)});
  }

 private:
  double groups() const { return static_cast<double>(plan_.groups_x) * plan_.groups_y; }
  double calls() const { return static_cast<double>(plan_.sources[0].blocks) * plan_.sources[1].blocks; }

  int64_t blocksHeld() const {
    constexpr int64_t kRegistersAtOnce = 8;  // allocation unit of a thread's registers
    const int64_t each = (plan_.registers + kRegistersAtOnce - 1) / kRegistersAtOnce * kRegistersAtOnce;
    const int64_t shared =
        (level_.capacity_bytes() + parameters_.block_bytes()) / (plan_.sharedBytes() + parameters_.block_bytes());
    return std::max<int64_t>(1, std::min({shared, parameters_.core_registers() / (each * plan_.threads()),
                                          parameters_.core_threads() / plan_.threads()}));
  }

  /// Bytes moved and instructions executed by the copies of one block's stage.
  void copies(const Side& side) {
    const bool first = side.operand == 1;
    const auto element = static_cast<double>(side.element_bytes);
    const auto bytes = static_cast<double>(side.rows * side.columns * side.element_bytes);
    const double within = shareOf(plan_.extentOf(plan_.r), plan_.summed_tiles, plan_.tileR()) *
                          (first ? shareOf(plan_.extentOf(plan_.x), plan_.tiles_x, plan_.tileX())
                                 : shareOf(plan_.extentOf(plan_.y), plan_.tiles_y, plan_.tileY()));
    const auto along = [&](int subscript, int64_t most) {
      const int64_t extent = plan_.extentOf(subscript != side.kept ? plan_.r : first ? plan_.x : plan_.y);
      return std::min(most, runOf(subscript == 0 ? side.addresses.first : side.addresses.second, extent));
    };
    const double row = static_cast<double>(along(side.along, side.columns)) * element;
    // Elements that are loaded one by one pass through the first-level cache, which keeps data for neighbouring rows.
    const double run =
        side.asynchronous ? row : std::max(row, static_cast<double>(along(1 - side.along, side.rows)) * element);
    moved_ += bytes * within * std::max(1.0, kSectorBytes / run);
    if (side.descriptor) {  // each call reads it again
      in_shared_ += bytes + static_cast<double>(plan_.sizeOf(first ? plan_.x : plan_.y) * plan_.sizeOf(plan_.r)) *
                                element * calls() * groups() * plan_.steps;
    } else {
      // Written once, then loaded by each group that uses it.
      in_shared_ += bytes * (1 + (first ? plan_.groups_y : plan_.groups_x));
    }
    double each = parameters_.copy_instructions();
    if (!side.asynchronous) {
      waits_ = true;
      each += parameters_.element_instructions();
      // The first-level cache looks up one line per cycle.
      const double lines = row < kSectorBytes ? kSectorBytes * element / row : 2;
      lookups_ += static_cast<double>(side.copies * plan_.threads()) / static_cast<double>(warp_) * lines * within;
    }
    double executed = static_cast<double>(side.copies) * each;
    if (side.fetch)
      executed += static_cast<double>(side.blocks) * side.fragment.registers / side.matrices * plan_.steps;
    instructions_ += executed * static_cast<double>(plan_.threads());
  }

  /// The time of a stage with `blocks` resident blocks.
  double stage(double blocks) const {
    const double per_call = calls() * plan_.steps * interval_;
    const double instructions = instructions_ + (parameters_.stage_instructions() + calls() * plan_.steps) *
                                                    static_cast<double>(plan_.threads());
    const double moving = blocks * moved_ / next_.bandwidth_bytes_per_cycle();
    const double busy = together({std::ceil(blocks * groups() / groups_at_once_) * per_call,
                                  blocks * in_shared_ / level_.bandwidth_bytes_per_cycle(), moving, blocks * lookups_,
                                  blocks * instructions / core_.lanes()});
    const double multiplied =
        std::max<double>(plan_.intrinsic.latency_cycles(), calls() * interval_ * std::ceil(groups() / groups_at_once_));
    // An asynchronous instruction works on one stage during the next stage's barrier.
    const double chain = plan_.readsShared()
                             ? plan_.steps * calls() * interval_ * std::ceil(groups() / groups_at_once_)
                             : plan_.steps * (level_.latency_cycles() + multiplied) + parameters_.stage_cycles();
    const double arrive = arrives();
    const int ahead = std::max(1, plan_.ahead());
    return std::max(busy, waits_ ? chain + arrive : std::max(chain, (arrive + moving) / ahead));
  }

  /// Blocks that start together read data that no cache holds: it comes from the outermost level.
  double arrives() const { return std::max(next_.latency_cycles(), last_.latency_cycles()); }

  double wave(double blocks) const {
    const auto stages = static_cast<double>(plan_.summed_tiles * plan_.summed);
    return stages * stage(blocks) + arrives() + blocks * (finished() + stored());
  }

  /// Cycles of the epilogue for a block's results.
  double finished() const {
    double bytes = 0, instructions = 0;
    const double results = static_cast<double>(plan_.tileX() * plan_.tileY());
    for (const Finish& step : plan_.epilogue) {
      instructions += results;
      if (!step.added) continue;
      const double rows = step.at.first.empty() ? 1 : static_cast<double>(plan_.tileX()),
                   columns = step.at.second.empty() ? 1 : static_cast<double>(plan_.tileY());
      bytes += rows * columns * static_cast<double>(elementBytes(step.added->dtype));
      instructions += rows * columns * parameters_.copy_instructions();
    }
    return bytes / next_.bandwidth_bytes_per_cycle() + instructions / core_.lanes();
  }

  /// Cycles for storing a block's results: sectors that a group's store fills partially count whole.
  double stored() const {
    const double bytes = static_cast<double>(elementBytes(plan_.result_type));
    const double within = shareOf(plan_.extentOf(plan_.x), plan_.tiles_x, plan_.tileX()) *
                          shareOf(plan_.extentOf(plan_.y), plan_.tiles_y, plan_.tileY());
    const double results = static_cast<double>(plan_.tileX() * plan_.tileY()) * within;
    if (plan_.storesRows()) {
      const double held = static_cast<double>(elementBytes(plan_.drainedType()));
      const double stores = results / static_cast<double>(plan_.result_along == 1 ? plan_.result_vector : 1);
      const double copies = results / static_cast<double>(plan_.result_copy) * parameters_.copy_instructions();
      return 2 * results * held / level_.bandwidth_bytes_per_cycle() +
             results * bytes / next_.bandwidth_bytes_per_cycle() + (stores + copies) / core_.lanes() +
             2 * parameters_.stage_cycles();
    }
    // Over the threads that store at once.
    const auto run = [&](const std::vector<Part>& parts, const std::vector<int64_t>& lanes, int64_t each,
                         int64_t extent) {
      const auto end = lanes.begin() + std::min<int64_t>(static_cast<int64_t>(lanes.size()), warp_);
      return bytes * static_cast<double>(std::min(*std::max_element(lanes.begin(), end) + each, runOf(parts, extent)));
    };
    const double row =
        std::max(run(plan_.to.first, plan_.result.first, 1, plan_.extentOf(plan_.x)),
                 run(plan_.to.second, plan_.result.second, plan_.result_vector, plan_.extentOf(plan_.y)));
    const double moving = results * bytes * std::max(1.0, kSectorBytes / row) / next_.bandwidth_bytes_per_cycle();
    const double executed = results / static_cast<double>(plan_.result_vector) * parameters_.copy_instructions();
    return moving + executed / core_.lanes();
  }

  const Plan& plan_;
  const v1::ComputeUnit& core_;
  const v1::CostParameters::Threads& parameters_;
  const v1::MemoryLevel &level_, &next_, &last_;
  int64_t warp_ = 32;
  double groups_at_once_ = 1, interval_ = 1;
  double moved_ = 0, in_shared_ = 0, lookups_ = 0, instructions_ = 0;
  bool waits_ = false;  // whether threads wait for their own copies (no asynchronous copies)
};

}  // namespace

double estimatedCycles(const Plan& plan, const v1::Target& target, const v1::CostParameters::Threads& parameters) {
  return Pricer(plan, target, parameters).run();
}

}  // namespace tessera::compiler::ptx
