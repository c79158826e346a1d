#include "compiler/backends/ptx/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/backends/ptx/cycle_estimate.h"
#include "compiler/target/chip.h"
#include "compiler/target/element_text.h"
#include "compiler/target/validate_intrinsic.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::ptx {
namespace {

using loopnest::Nest;
using loopnest::saturatedProduct;

constexpr int64_t kCopiedBytes = 16;  // bytes per copy of a thread, at most
constexpr int kDescribedRowBytes = 128;
constexpr int64_t kMaxIndex = int64_t{1} << 30;  // indices and element numbers are computed in 32 bits

class Planner {
 public:
  Planner(const Nest& software, const v1::Intrinsic& intrinsic, const intrinsic::Matching& matching,
          const v1::Target& target, const PlanOptions& options)
      : target_(target), parameters_(completedCostParameters(target).threads()), options_(options) {
    plan_.software = software;
    plan_.intrinsic = intrinsic;
    plan_.matching = matching;
  }

  absl::StatusOr<Plan> run() {
    if (options_.tile) {
      TESSERA_RETURN_IF_ERROR(prepare());
      if (!take(*options_.tile)) return fault("the tile does not fit the registers and the shared level");
      return std::move(plan_);
    }
    TESSERA_ASSIGN_OR_RETURN(const std::vector<TileCost> all, tiles());
    take(std::min_element(all.begin(), all.end(), [](const TileCost& one, const TileCost& other) {
           return one.cycles < other.cycles;
         })->tile);
    return std::move(plan_);
  }

  absl::StatusOr<std::vector<TileCost>> tiles() {
    TESSERA_RETURN_IF_ERROR(prepare());
    std::vector<TileCost> fitting;
    // All combinations of powers of two: 1,620 tiles.
    for (const int groups_x : {1, 2, 4}) {
      for (const int groups_y : {1, 2, 4}) {
        for (const int blocks_x : {1, 2, 4, 8}) {
          for (const int blocks_y : {1, 2, 4, 8, 16}) {
            for (const int steps : {1, 2, 4}) {
              for (const int stages : {2, 3, 4}) {
                const Tile tile = {groups_x, groups_y, blocks_x, blocks_y, steps, stages};
                if (take(tile)) fitting.push_back({tile, plan_.cycles});
              }
            }
          }
        }
      }
    }
    if (fitting.empty()) return fault("no tile of it fits the registers, the shared level and the copies of a thread");
    return fitting;
  }

 private:
  absl::Status prepare() {
    // Each step uses the results of the steps before it; none of them depends on the tile.
    for (absl::Status (Planner::*step)() : {&Planner::iterations, &Planner::types, &Planner::tensors, &Planner::fetches,
                                            &Planner::drain, &Planner::epilogue}) {
      TESSERA_RETURN_IF_ERROR((this->*step)());
    }
    return absl::OkStatus();
  }

  bool take(const Tile& tile) {
    plan_.groups_x = tile.groups_x, plan_.groups_y = tile.groups_y;
    plan_.sources[0].blocks = tile.blocks_x, plan_.sources[1].blocks = tile.blocks_y;
    plan_.steps = tile.steps, plan_.stages = tile.stages;
    if (!complete(plan_)) return false;
    plan_.cycles = estimatedCycles(plan_, target_, parameters_);
    return true;
  }

  absl::Status fault(const std::string& what) const {
    return absl::FailedPreconditionError(absl::StrCat(plan_.intrinsic.name(), ": ", what));
  }

  /// Assigns iterations to x, y and r.
  absl::Status iterations() {
    TESSERA_ASSIGN_OR_RETURN(const Nest instruction, intrinsic::nestOf(plan_.intrinsic));
    plan_.instruction = instruction;
    const auto& v = plan_.intrinsic;
    if (!v.has_threads() || v.threads().assembly().empty()) {
      return fault("it is not described as threads execute it together");
    }
    if (v.threads().threads() < 1 || !std::has_single_bit(static_cast<uint32_t>(v.threads().threads()))) {
      return fault("its threads are no power of two");
    }
    const intrinsic::Form form = intrinsic::formOf(instruction);
    const bool product = form == v1::Intrinsic::Arithmetic::MULTIPLY_ADD && intrinsic::formOf(plan_.software) == form &&
                         instruction.accesses.size() == 3 && instruction.loops.size() == 3 &&
                         instruction.bounds.empty();
    // x occurs in the result and the first source, y in the result and the second source, r in both sources.
    int kinds[3] = {-1, -1, -1};
    for (int i = 0; product && i < 3; ++i) {
      const bool result = instruction.accesses[0].uses(i), left = instruction.accesses[1].uses(i);
      const bool right = instruction.accesses[2].uses(i);
      if (result && left != right) kinds[left ? 0 : 1] = i;
      if (!result && left && right) kinds[2] = i;
    }
    if (!product || *std::min_element(kinds, kinds + 3) < 0) return fault("it is no product of two matrices");
    plan_.x = kinds[0], plan_.y = kinds[1], plan_.r = kinds[2];
    TESSERA_ASSIGN_OR_RETURN(auto mapping, physicalMapping(plan_.software, plan_.intrinsic, plan_.matching, target_));
    plan_.mapping = std::move(mapping);
    for (const intrinsic::Group& group : plan_.mapping.groups) {
      if (group.extent > kMaxIndex) return fault("an iteration of the operator is too long for 32 bits");
      if (!std::has_single_bit(static_cast<uint64_t>(group.size))) return fault("its extents are no powers of two");
    }
    for (const loopnest::Subscript& subscript : plan_.software.accesses[0].subscripts) {
      int walking = 0;
      for (const auto& term : subscript.terms)
        walking += plan_.software.loops[static_cast<size_t>(term.loop)].extent > 1;
      // Two threads would store the same element.
      if (walking > 1) return fault("the result has a subscript that adds loops");
    }
    return absl::OkStatus();
  }

  /// Sources have the operator's types; a result may be narrower than its accumulator.
  absl::Status types() {
    for (size_t operand = 0; operand < 3; ++operand) {
      const auto& array = plan_.software.accesses[static_cast<size_t>(arrayOf(plan_.matching, operand))];
      const v1::DataType has = array.dtype, wants = plan_.instruction.accesses[operand].dtype;
      const bool rounds = operand == 0 && isFloatingPoint(has) && wants == v1::DATA_TYPE_F32 &&
                          (has == v1::DATA_TYPE_F16 || has == v1::DATA_TYPE_BF16);
      if (has == wants || rounds) continue;
      return fault(absl::StrCat(array.name, " is ", elementText(has), ", not ", elementText(wants)));
    }
    plan_.result_type = plan_.software.accesses[0].dtype;
    return absl::OkStatus();
  }

  absl::Status tensors() {
    std::vector<int> kept, summed;
    for (int loop : plan_.mapping.outer) {
      const loopnest::Loop& described = plan_.software.loops[static_cast<size_t>(loop)];
      const bool reduction = plan_.software.isReduction(loop);
      (reduction ? summed : kept).push_back(loop);
      int64_t& product = reduction ? plan_.summed : plan_.kept;
      product = saturatedProduct(product, described.extent);
    }
    for (size_t operand = 0; operand < 3; ++operand) {
      const auto& array = plan_.software.accesses[static_cast<size_t>(arrayOf(plan_.matching, operand))];
      int64_t elements = 1;
      for (int64_t extent : shapeOf(plan_.software, array)) elements = saturatedProduct(elements, extent);
      if (elements > kMaxIndex) {
        return fault(absl::StrCat(array.name, " has ", elements, " elements; at most ", kMaxIndex, " are addressed"));
      }
      Addresses addresses;
      const auto [strides, constant] = offsetOf(plan_.software, array);
      addresses.constant = constant;
      addresses.kept = partsOf(plan_.software, kept, strides);
      addresses.summed = partsOf(plan_.software, summed, strides);
      const loopnest::Access& access = plan_.instruction.accesses[operand];
      if (access.subscripts.size() != 2 || access.subscripts[0].terms.size() != 1 ||
          access.subscripts[1].terms.size() != 1) {
        return fault("it is no product of two matrices");
      }
      const int first = access.subscripts[0].terms[0].loop, second = access.subscripts[1].terms[0].loop;
      addresses.first = partsOf(plan_.software, plan_.mapping.groups[static_cast<size_t>(first)].loops, strides);
      addresses.second = partsOf(plan_.software, plan_.mapping.groups[static_cast<size_t>(second)].loops, strides);
      const auto& described = plan_.intrinsic.threads().descriptors();
      const bool in_place = std::any_of(described.begin(), described.end(),
                                        [&](const auto& way) { return way.operand() == access.name; });
      absl::StatusOr<Fragment> fragment = Fragment{};
      if (!in_place) fragment = fragmentOf(plan_.intrinsic, plan_.instruction, operand);
      if (!fragment.ok()) return fragment.status();
      if (operand == 0) {
        plan_.to = std::move(addresses);
        plan_.result = *std::move(fragment);
        swapped_result_ = first == plan_.y;
        continue;
      }
      Side& side = plan_.sources[operand - 1];
      side.operand = static_cast<int>(operand);
      side.array = arrayOf(plan_.matching, operand);
      side.kept = first == plan_.r ? 1 : 0;
      side.element_bytes = elementBytes(array.dtype);
      side.addresses = std::move(addresses);
      side.fragment = *std::move(fragment);
    }
    // The result's fragment in the order x, y.
    if (swapped_result_) {
      std::swap(plan_.result.first, plan_.result.second);
      std::swap(plan_.result.first_of, plan_.result.second_of);
      std::swap(plan_.to.first, plan_.to.second);
    }
    const auto& slots = plan_.result;
    // Two results of a thread can be stored together if they are neighbours in a row, in every thread, at an even
    // column.
    bool pairs = slots.first_of.size() % 2 == 0 && !slots.opaque();
    for (size_t s = 0; s + 1 < slots.first_of.size(); s += 2) {
      pairs = pairs && slots.first_of[s] == slots.first_of[s + 1] && slots.second_of[s] + 1 == slots.second_of[s + 1] &&
              slots.second_of[s] % 2 == 0;
    }
    for (int64_t column : slots.second) pairs = pairs && column % 2 == 0;
    plan_.result_vector = pairs ? std::min(neighboursOf(plan_.to.second, plan_.extentOf(plan_.y), 2),
                                           alignmentOf(plan_.to, plan_.to.first, 2))
                                : 1;
    const int64_t most = kCopiedBytes / elementBytes(plan_.software.accesses[0].dtype);
    for (const int along : {1, 0}) {
      const auto& parts = along == 0 ? plan_.to.first : plan_.to.second;
      const int64_t neighbours = std::min(neighboursOf(parts, plan_.extentOf(along == 0 ? plan_.x : plan_.y), most),
                                          alignmentOf(plan_.to, along == 0 ? plan_.to.second : plan_.to.first, most));
      if (neighbours < most || most < 2) continue;
      plan_.result_along = along;
      plan_.result_copy = most;
      break;
    }
    return absl::OkStatus();
  }

  /// Selects the memory level of the sources, and for each source the row direction that moves the most bytes at once.
  absl::Status fetches() {
    std::string level;
    for (const auto& transfer : plan_.intrinsic.transfers()) {
      if (transfer.operand() == plan_.instruction.accesses[1].name && transfer.to() == kRegisters)
        level = transfer.from();
    }
    const auto& described = plan_.intrinsic.threads().descriptors();
    for (const auto& way : described) level = way.from();
    if (!described.empty() && !options_.swizzled) return fault("it reads rows that are exchanged, and no plain ones");
    for (const auto& way : described) {
      if (way.row_bytes() == kDescribedRowBytes && plan_.intrinsic.threads().has_asynchronous()) continue;
      return fault(
          "of sources that are read in place, kernels are written for rows of 128 bytes and products that go on");
    }
    plan_.level = -1;
    for (int i = 0; i < target_.memory_size(); ++i) {
      if (target_.memory(i).name() == level) plan_.level = i;
    }
    if (plan_.level < 0) return fault("no transfer says from which level its sources are fetched");
    plan_.banks = banksOf(target_.memory(plan_.level));
    const auto& copy = target_.memory(plan_.level).filled_by();
    for (Side& side : plan_.sources) {
      double best = -1;
      Side chosen;
      // Rows in shared memory may run along the sum or along the result's loop: tries both.
      for (const int along : {1 - side.kept, side.kept}) {
        Side candidate = side;
        candidate.along = along;
        const auto* fetch = fetchAlong(candidate);
        if (!described.empty()) {
          const auto way = std::find_if(described.begin(), described.end(),
                                        [&](const auto& each) { return isAlong(each, candidate); });
          // An instruction's part must begin at whole groups of rows, or whole rows.
          const int64_t part = plan_.sizeOf(side.operand == 1 ? plan_.x : plan_.y);
          if (way == described.end() ||
              (along == side.kept ? part * side.element_bytes % way->row_bytes() : part % way->rows()) != 0)
            continue;
          candidate.descriptor = *way;
        } else if (!fetch && !plainLoads(candidate)) {
          continue;
        }
        if (fetch) candidate.fetch = *fetch;
        // Blocks of an opaque fragment must begin at its load's alignment.
        if (side.fragment.opaque() && along == side.kept &&
            plan_.sizeOf(side.operand == 1 ? plan_.x : plan_.y) * side.element_bytes % alignedAt(side.operand) != 0)
          continue;
        const Addresses& addresses = side.addresses;
        const bool first = along == 0;
        const int kept = side.operand == 1 ? plan_.x : plan_.y;
        const int64_t most = chunkOf(candidate) / side.element_bytes;
        candidate.vector = std::min(neighboursOf(first ? addresses.first : addresses.second,
                                                 plan_.extentOf(along == side.kept ? kept : plan_.r), most),
                                    alignmentOf(addresses, first ? addresses.second : addresses.first, most));
        const int64_t bytes = candidate.vector * side.element_bytes;
        candidate.asynchronous =
            !copy.assembly().empty() && std::count(copy.bytes().begin(), copy.bytes().end(), bytes) > 0;
        // Threads of a group copy along rows, so rows of the tensor should be contiguous in the same direction.
        const auto& parts = first ? addresses.first : addresses.second;
        const bool neighbours = std::any_of(parts.begin(), parts.end(),
                                            [](const Part& part) { return part.weight == 1 && part.stride == 1; });
        // Wide copies matter most. The fractions break ties: contiguous rows first, then a matrix load.
        const double worth = static_cast<double>(candidate.vector) + (neighbours ? 0.5 : 0) + (fetch ? 0.25 : 0);
        if (worth <= best) continue;
        best = worth;
        chosen = candidate;
      }
      if (best < 0) {
        return fault(absl::StrCat("neither a fetch nor plain loads nor a descriptor bring the fragment of ",
                                  plan_.instruction.accesses[static_cast<size_t>(side.operand)].name));
      }
      side = std::move(chosen);
    }
    return absl::OkStatus();
  }

  /// Opaque results leave via shared memory: chooses the row direction with more contiguous elements to store.
  absl::Status drain() {
    if (!plan_.result.opaque()) return absl::OkStatus();
    const int64_t most = kCopiedBytes / elementBytes(plan_.result_type);
    plan_.result_copy = 0;
    for (const int along : {1, 0}) {
      const int iteration = along == 0 ? plan_.x : plan_.y;
      const auto& fetches = plan_.intrinsic.threads().matrix_loads();
      const auto way = std::find_if(fetches.begin(), fetches.end(), [&](const v1::Intrinsic::MatrixLoad& fetch) {
        return fetch.operand() == plan_.instruction.accesses[0].name && fetch.from() == kRegisters &&
               fetch.to() == target_.memory(plan_.level).name() &&
               fetch.along() == plan_.instruction.loops[static_cast<size_t>(iteration)].name;
      });
      const int64_t bytes = elementBytes(plan_.instruction.accesses[0].dtype);
      if (way == fetches.end() || plan_.sizeOf(iteration) * bytes % alignedAt(0) != 0) continue;
      const int64_t neighbours =
          std::min(neighboursOf(along == 0 ? plan_.to.first : plan_.to.second, plan_.extentOf(iteration), most),
                   alignmentOf(plan_.to, along == 0 ? plan_.to.second : plan_.to.first, most));
      if (neighbours <= plan_.result_copy) continue;
      plan_.result_along = along;
      plan_.result_copy = neighbours;
      plan_.drain = *way;
    }
    return plan_.drain ? absl::OkStatus() : fault("no fetch brings its results to the level");
  }

  absl::Status epilogue() {
    TESSERA_ASSIGN_OR_RETURN(std::vector<EpilogueStep> steps, epilogueOf(plan_.software, options_.epilogue));
    std::vector<int> kept;
    for (int loop : plan_.mapping.outer) {
      if (!plan_.software.isReduction(loop)) kept.push_back(loop);
    }
    plan_.epilogue.clear();
    for (EpilogueStep& step : steps) {
      Finish& finish = plan_.epilogue.emplace_back();
      static_cast<EpilogueStep&>(finish) = std::move(step);
      if (!finish.added) continue;
      const auto [strides, constant] = offsetOf(plan_.software, *finish.added);
      finish.at.constant = constant;
      finish.at.first = partsOf(plan_.software, plan_.mapping.groups[static_cast<size_t>(plan_.x)].loops, strides);
      finish.at.second = partsOf(plan_.software, plan_.mapping.groups[static_cast<size_t>(plan_.y)].loops, strides);
      finish.at.kept = partsOf(plan_.software, kept, strides);
    }
    return absl::OkStatus();
  }

  /// Alignment in bytes of loads and stores of an operand's registers, from its transfers.
  int64_t alignedAt(int operand) const {
    int64_t bytes = 1;
    for (const auto& transfer : plan_.intrinsic.transfers()) {
      if (transfer.operand() == plan_.instruction.accesses[static_cast<size_t>(operand)].name &&
          (transfer.from() == kRegisters || transfer.to() == kRegisters))
        bytes = std::max<int64_t>(bytes, transfer.alignment_bytes());
    }
    return bytes;
  }
  /// Bytes of neighbours that are loaded together.
  static int64_t chunkOf(const Side& side) {
    return side.fetch && !side.fragment.opaque() ? std::min<int64_t>(kCopiedBytes, side.fetch->row_bytes())
                                                 : kCopiedBytes;
  }

  /// Whether a matrix load or a descriptor applies to rows in this direction.
  template <typename Way>
  bool isAlong(const Way& way, const Side& side) const {
    const loopnest::Access& access = plan_.instruction.accesses[static_cast<size_t>(side.operand)];
    const int loop = access.subscripts[static_cast<size_t>(side.along)].terms[0].loop;
    return way.operand() == access.name && way.from() == target_.memory(plan_.level).name() &&
           way.along() == plan_.instruction.loops[static_cast<size_t>(loop)].name;
  }

  const v1::Intrinsic::MatrixLoad* fetchAlong(const Side& side) const {
    for (const auto& fetch : plan_.intrinsic.threads().matrix_loads()) {
      if (!isAlong(fetch, side) || fetch.to() != kRegisters || fetch.matrices().empty() != side.fragment.opaque())
        continue;
      if (side.fragment.opaque()) return &fetch;
      if (fetch.rows() < 1 || fetch.row_bytes() < side.element_bytes || fetch.row_bytes() % side.element_bytes != 0)
        continue;
      bool all = true;
      // A matrix load is usable only if it distributes every register of the fragment.
      for (int r = 0; r < side.fragment.registers; ++r) {
        all = all && !rowsOf(side.fragment, fetch, r, side.along, side.element_bytes).empty();
      }
      if (all) return &fetch;
    }
    return nullptr;
  }

  /// Whether the elements of a register are contiguous along rows.
  static bool plainLoads(const Side& side) {
    const Fragment& fragment = side.fragment;
    if (fragment.opaque()) return false;
    const auto& lies = side.along == 0 ? fragment.first_of : fragment.second_of;
    const auto& other = side.along == 0 ? fragment.second_of : fragment.first_of;
    for (size_t s = 0; s < lies.size(); ++s) {
      const size_t begin = s - s % static_cast<size_t>(fragment.in_register);
      if (lies[s] != lies[begin] + static_cast<int64_t>(s - begin) || other[s] != other[begin]) return false;
    }
    return true;
  }

  /// Rounds up to the next odd multiple of `unit`, so that rows begin in as many different banks as the unit allows.
  static int64_t padded(int64_t bytes, int64_t unit) {
    const int64_t units = (bytes + unit - 1) / unit;
    return (units + (units % 2 == 0 ? 1 : 0)) * unit;
  }

  /// Sets the sizes that follow from the tile; returns false if it does not fit.
  bool complete(Plan& plan) const {
    if (plan.threads() > parameters_.max_threads() || plan.ahead() < 1) return false;
    int64_t registers = parameters_.index_registers(), base = 0;
    for (Side& side : plan.sources) {
      const int64_t kept = side.operand == 1 ? plan.tileX() : plan.tileY();
      side.rows = side.along == side.kept ? plan.tileR() : kept;
      side.columns = side.along == side.kept ? kept : plan.tileR();
      const bool opaque = side.fragment.opaque();
      int64_t row_bytes = side.columns * side.element_bytes;
      const int64_t chunk = side.fetch && !opaque ? side.fetch->row_bytes() : kCopiedBytes;
      // A row must hold one load.
      if (row_bytes < (side.descriptor ? side.descriptor->row_bytes() : chunk)) return false;
      side.swizzle = swizzleOf(side.descriptor ? side.descriptor->row_bytes() : row_bytes, chunk, plan.banks);
      if (side.descriptor &&
          (side.swizzle.period() != side.descriptor->rows() || side.rows % side.descriptor->rows() != 0))
        return false;
      if (!options_.swizzled || opaque) side.swizzle.mask = 0;
      // Opaque loads, by address and row length, do not permit a swizzle: rows are padded so that they begin in
      // different banks.
      if (opaque && options_.swizzled) side.swizzle.row_bytes = row_bytes = padded(row_bytes, alignedAt(side.operand));
      const int64_t in_row = side.columns / side.vector;
      if (in_row > plan.threads()) return false;
      side.copies = (side.rows * in_row - 1) / plan.threads() + 1;
      if (side.copies > parameters_.max_copies()) return false;
      side.base = base;
      base += side.rows * row_bytes;
      // Aligned to the swizzle's period, so that rows of all stages have the same permutation.
      const int64_t unit = std::max<int64_t>(
          {1, plan.banks.line(), side.descriptor ? side.swizzle.period() * side.swizzle.row_bytes : 1});
      base = (base + unit - 1) / unit * unit;
      const int all = side.blocks * side.fragment.registers;
      if (opaque) {
        side.matrices = side.fragment.registers;
      } else if (side.fetch) {
        side.matrices = 0;
        // Takes the widest form of the load that divides the registers of all blocks.
        for (int count : side.fetch->matrices()) {
          // One row address per thread, for as many matrices as follow the same pattern.
          const bool fits = count > 0 && count * side.fetch->rows() <= side.fragment.threads && all % count == 0 &&
                            (count <= side.fragment.registers ? side.fragment.registers % count == 0
                                                              : count % side.fragment.registers == 0);
          if (fits) side.matrices = std::max(side.matrices, count);
        }
        if (side.matrices == 0) return false;
      }
      const int wide = side.fragment.type.ends_with("64") ? 2 : 1;
      registers += all * wide + (side.asynchronous ? 2 : 1) * side.copies;
    }
    const int wide = plan.result.type.ends_with("64") ? 2 : 1;
    // The sums of all blocks stay in registers.
    registers += int64_t{plan.sources[0].blocks} * plan.sources[1].blocks * plan.result.registers * wide;
    const int64_t most = target_.registers().vector_count() > 0 ? target_.registers().vector_count() : 128;
    if (registers > most) return false;
    plan.registers = registers;
    plan.stage_bytes = base;
    if (plan.drain) {
      plan.drain_pitch = padded(plan.resultColumns() * elementBytes(plan.drainedType()), alignedAt(0));
      if (!plan.storesRows()) return false;
    }
    if (plan.sharedBytes() > target_.memory(plan.level).capacity_bytes()) return false;
    plan.tiles_x = (plan.extentOf(plan.x) - 1) / plan.tileX() + 1;
    plan.tiles_y = (plan.extentOf(plan.y) - 1) / plan.tileY() + 1;
    plan.summed_tiles = (plan.extentOf(plan.r) - 1) / plan.tileR() + 1;
    const int64_t stages = saturatedProduct(plan.summed_tiles, plan.summed);
    const int64_t grid = saturatedProduct(saturatedProduct(plan.tiles_x, plan.tiles_y), plan.kept);
    return std::max(stages, grid) <= kMaxIndex;
  }

  const v1::Target& target_;
  const v1::CostParameters::Threads parameters_;
  const PlanOptions& options_;
  bool swapped_result_ = false;
  Plan plan_;
};

}  // namespace

std::vector<loopnest::Access> Plan::tensors() const {
  std::vector<loopnest::Access> all = software.accesses;
  for (const Finish& step : epilogue) {
    if (step.added) all.push_back(*step.added);
  }
  return all;
}

int64_t Plan::resultPitch() const {
  if (drain) return drain_pitch;
  const int64_t bytes = elementBytes(result_type);
  if (result_along == 0) return tileX() * bytes + kCopiedBytes;
  // Rows are padded by the number of banks that one row's share of a store fills.
  const auto end = result.second.begin() + std::clamp<int64_t>(banks.count, 1, result.threads);
  const int64_t filled = (*std::max_element(result.second.begin(), end) + result_vector) * bytes;
  return tileY() * bytes + (filled + kCopiedBytes - 1) / kCopiedBytes * kCopiedBytes;
}

absl::StatusOr<Plan> planOf(const Nest& software, const v1::Intrinsic& intrinsic, const intrinsic::Matching& matching,
                            const v1::Target& target, const PlanOptions& options) {
  return Planner(software, intrinsic, matching, target, options).run();
}

absl::StatusOr<std::vector<TileCost>> tilesOf(const Nest& software, const v1::Intrinsic& intrinsic,
                                              const intrinsic::Matching& matching, const v1::Target& target,
                                              const PlanOptions& options) {
  return Planner(software, intrinsic, matching, target, options).tiles();
}

}  // namespace tessera::compiler::ptx
