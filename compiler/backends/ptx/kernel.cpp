#include "compiler/backends/ptx/kernel.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/ptx/write.h"
#include "compiler/backends/spatial/element.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/target/element_text.h"
#include "compiler/target/instruction_sets.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::ptx {
namespace {

using loopnest::Nest;

constexpr size_t kMaxMappings = 4096;
constexpr int64_t kMaxBytes = int64_t{1} << 30;  // largest tensor that is run

/// How far a point of some loops is from the access at 0, in elements.
int64_t movedBy(const loopnest::Offset& offset, const std::vector<int>& loops, const std::vector<int64_t>& point) {
  int64_t elements = 0;
  for (size_t i = 0; i < loops.size(); ++i) elements += point[i] * offset.strides[static_cast<size_t>(loops[i])];
  return elements;
}

template <typename Number>
absl::StatusOr<Checked> checkAs(const Kernel& kernel, const v1::Target& target, uint64_t seed, int64_t most_points) {
  const Plan& plan = kernel.plan;
  const Nest& nest = plan.software;
  std::mt19937_64 random(seed);
  std::vector<std::vector<uint8_t>> bytes;
  std::vector<std::vector<Number>> numbers;
  const std::vector<loopnest::Access> accesses = plan.tensors();
  for (const loopnest::Access& access : accesses) {
    int64_t count = 1;
    for (int64_t extent : shapeOf(nest, access)) count = loopnest::saturatedProduct(count, extent);
    if (loopnest::saturatedProduct(count, elementBytes(access.dtype)) > kMaxBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(access.name, " has ", count, " elements, too many to be run"));
    }
    std::vector<Number>& drawn = numbers.emplace_back(static_cast<size_t>(count));
    for (Number& number : drawn) {
      const uint64_t bits = random();
      if constexpr (std::is_same_v<Number, double>) {
        // Uniform in [-1, 1).
        number = simulator::rounded(static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63, access.dtype);
      } else {
        const int64_t low = std::max<int64_t>(simulator::least(access.dtype), -128);
        number = low + static_cast<int64_t>(bits % 256);
      }
    }
    std::vector<uint8_t>& data = bytes.emplace_back(static_cast<size_t>(count * elementBytes(access.dtype)));
    simulator::encode(access.dtype, drawn.data(), drawn.size(), data.data());
  }
  Launch launch;
  launch.threads = plan.threads();
  launch.shared_bytes = plan.sharedBytes();
  launch.banks = plan.banks;
  for (auto& data : bytes) launch.tensors.push_back(&data);
  const double each = static_cast<double>(plan.tileX() * plan.tileY() * plan.tileR()) *
                      static_cast<double>(plan.summed_tiles * plan.summed);
  const auto fit =
      static_cast<int64_t>(std::min(static_cast<double>(most_points) / each, static_cast<double>(plan.grid())));
  Checked checked;
  checked.blocks = std::max<int64_t>(1, fit);
  for (int64_t b = 0; b < checked.blocks; ++b) {
    // Evenly spread blocks with the first and the last; a single one is the last, which has the edges.
    launch.blocks.push_back(checked.blocks == 1 ? plan.grid() - 1 : b * (plan.grid() - 1) / (checked.blocks - 1));
  }
  TESSERA_ASSIGN_OR_RETURN(checked.run, run(absl::StrCat(heading(target), kernel.text), launch));
  const v1::DataType type = nest.accesses[0].dtype;
  std::vector<Number> found(numbers[0].size());
  simulator::decode(type, bytes[0].data(), found.size(), found.data());
  std::vector<int> kept, summed;
  std::vector<int64_t> kept_extents, summed_extents;
  for (size_t l = 0; l < nest.loops.size(); ++l) {
    const bool reduction = nest.isReduction(static_cast<int>(l));
    (reduction ? summed : kept).push_back(static_cast<int>(l));
    (reduction ? summed_extents : kept_extents).push_back(nest.loops[l].extent);
  }
  const double bound = boundOf(plan);
  const loopnest::Offset to = offsetOf(nest, nest.accesses[0]), left = offsetOf(nest, nest.accesses[1]),
                         right = offsetOf(nest, nest.accesses[2]);
  std::vector<loopnest::Offset> added;
  for (size_t a = nest.accesses.size(); a < accesses.size(); ++a) added.push_back(offsetOf(nest, accesses[a]));
  intrinsic::forEachPoint(kept_extents, [&](const std::vector<int64_t>& point) {
    const int64_t element = to.constant + movedBy(to, kept, point);
    const auto wrong = [&](const std::string& what) {
      if (++checked.wrong == 1) checked.first_wrong = absl::StrCat("element ", element, what);
    };
    // Of a partial run, results of other blocks are missing as expected.
    if (!checked.run.written[static_cast<size_t>(element * elementBytes(type))]) {
      if (checked.blocks == plan.grid()) wrong(" is not computed");
      return;
    }
    ++checked.results;
    const int64_t l = left.constant + movedBy(left, kept, point), r = right.constant + movedBy(right, kept, point);
    Number sum = 0;
    double magnitudes = 0;
    intrinsic::forEachPoint(summed_extents, [&](const std::vector<int64_t>& part) {
      const Number product = numbers[1][static_cast<size_t>(l + movedBy(left, summed, part))] *
                             numbers[2][static_cast<size_t>(r + movedBy(right, summed, part))];
      sum += product;
      magnitudes += std::fabs(static_cast<double>(product));
    });
    size_t next = 0;
    for (const Finish& step : plan.epilogue) {
      if (step.added) {
        const Number more =
            numbers[nest.accesses.size() + next][static_cast<size_t>(movedBy(added[next], kept, point))];
        ++next;
        sum += more;
        magnitudes += std::fabs(static_cast<double>(more));
      } else if (sum < 0) {
        sum = 0;
      }
    }
    const Number is = found[static_cast<size_t>(element)];
    if constexpr (std::is_same_v<Number, double>) {
      const double error = std::fabs(is - sum), share = error / std::max(bound * magnitudes, 1e-300);
      checked.largest_error = std::max(checked.largest_error, std::isnan(error) ? INFINITY : error);
      checked.largest_error_ratio = std::max(checked.largest_error_ratio, std::isnan(share) ? INFINITY : share);
      // Written so that NaN counts as wrong.
      if (!(share <= 1)) wrong(absl::StrCat(" is ", is, ", not ", sum));
    } else {
      const int64_t expected = simulator::held(sum, type, v1::Intrinsic::Arithmetic::WRAP);
      if (is != expected) wrong(absl::StrCat(" is ", is, ", not ", expected));
    }
  });
  return checked;
}

/// Calls use(software, intrinsic, matching) for every mapping of the operator to each requested instruction of the
/// target; it returns the reason why there is no kernel. Fails with all reasons if no mapping has one.
template <typename Use>
absl::Status forEachMapping(const Nest& software, const v1::Target& target, const Question& question, Use&& use) {
  TESSERA_RETURN_IF_ERROR(intrinsic::checkMappable(software));
  bool any = false;
  std::vector<std::string> reasons, names;
  for (const v1::Intrinsic& intrinsic : instructionsOf(target)) {
    names.push_back(intrinsic.name());
    if (!question.instruction.empty() && intrinsic.name() != question.instruction) continue;
    const absl::StatusOr<Nest> instruction = intrinsic::nestOf(intrinsic);
    if (!instruction.ok()) continue;
    // The last reason of an instruction is reported if none of its mappings has a kernel.
    std::string reason = absl::StrCat(intrinsic.name(), ": no loops of the operator are its iterations");
    bool used = false;
    const intrinsic::Mappings mappings =
        intrinsic::enumerateMappings(software, *instruction, {.any_order = true, .most = kMaxMappings});
    for (const intrinsic::Matching& matching : mappings.matchings) {
      const absl::Status status = use(mappings.software, intrinsic, matching);
      used = used || status.ok();
      if (!status.ok()) reason = std::string(status.message());
    }
    any = any || used;
    if (!used) reasons.push_back(reason);
  }
  if (any) return absl::OkStatus();
  if (reasons.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(target.name(), " has no instruction ", question.instruction,
                                                      "; accepted: ", absl::StrJoin(names, ", ")));
  }
  constexpr size_t kMaxReasons = 4;
  const size_t more = reasons.size() - std::min(reasons.size(), kMaxReasons);
  reasons.resize(reasons.size() - more);
  return absl::FailedPreconditionError(
      absl::StrCat(absl::StrJoin(reasons, "; "), more > 0 ? absl::StrCat("; ", more, " more") : ""));
}

/// Bytes of the accumulator type: the wider type is preferred.
int64_t sumBytes(const v1::Intrinsic& intrinsic) { return elementBytes(intrinsic.operands(0).dtype()); }

}  // namespace

double boundOf(const Plan& plan) {
  const v1::DataType held = plan.instruction.accesses[0].dtype;
  if (!isFloatingPoint(held)) return 0;
  double products = 1;
  const Nest& software = plan.software;
  for (size_t l = 0; l < software.loops.size(); ++l) {
    if (software.isReduction(static_cast<int>(l))) products *= static_cast<double>(software.loops[l].extent);
  }
  const bool each_step = plan.intrinsic.arithmetic().rounding() != v1::Intrinsic::Arithmetic::ONCE;
  const double calls = static_cast<double>(plan.summed_tiles * plan.summed * plan.steps) *
                           (each_step ? 2.0 * static_cast<double>(plan.sizeOf(plan.r)) : 1) +
                       static_cast<double>(plan.epilogue.size());
  // (1 + u)^k - 1 without cancellation, plus the last rounding, plus the reference's own error in double precision.
  return std::expm1((calls + 1) * std::log1p(simulator::unitRoundoff(held))) +
         simulator::unitRoundoff(plan.result_type) * 1.001 + products * 0x1p-52;
}

absl::StatusOr<Kernel> kernelOf(const Nest& software, const v1::Target& target, const std::string& name,
                                const Question& question) {
  Kernel best;
  const PlanOptions options{.swizzled = question.swizzled, .tile = {}, .epilogue = question.epilogue};
  if (const auto steps = epilogueOf(software, question.epilogue); !steps.ok()) return steps.status();
  absl::Status found = forEachMapping(
      software, target, question,
      [&](const Nest& nest, const v1::Intrinsic& intrinsic, const intrinsic::Matching& matching) -> absl::Status {
        TESSERA_ASSIGN_OR_RETURN(Plan plan, planOf(nest, intrinsic, matching, target, options));
        const int64_t width = sumBytes(intrinsic), widest = best.mappings == 0 ? 0 : sumBytes(best.plan.intrinsic);
        ++best.mappings;
        if (width > widest || (width == widest && plan.cycles < best.plan.cycles)) best.plan = std::move(plan);
        return absl::OkStatus();
      });
  if (!found.ok()) return found;
  best.name = name;
  best.text = write(best.plan, target, name);
  return best;
}

absl::StatusOr<std::vector<Kernel>> kernelsOf(const Nest& software, const v1::Target& target, const std::string& name,
                                              int64_t most, const Question& question) {
  struct Mapped {
    Nest nest;
    v1::Intrinsic intrinsic;
    intrinsic::Matching matching;
  };
  std::vector<Mapped> mappings;
  std::vector<std::pair<TileCost, size_t>> tiles;  // with the index of its mapping
  int64_t widest = 0;
  PlanOptions options{.swizzled = question.swizzled, .tile = {}, .epilogue = question.epilogue};
  if (const auto steps = epilogueOf(software, question.epilogue); !steps.ok()) return steps.status();
  absl::Status found = forEachMapping(
      software, target, question,
      [&](const Nest& nest, const v1::Intrinsic& intrinsic, const intrinsic::Matching& matching) -> absl::Status {
        TESSERA_ASSIGN_OR_RETURN(const std::vector<TileCost> fitting,
                                 tilesOf(nest, intrinsic, matching, target, options));
        // A wider accumulator replaces all narrower ones found so far.
        if (sumBytes(intrinsic) > widest) mappings.clear(), tiles.clear();
        widest = std::max(widest, sumBytes(intrinsic));
        if (sumBytes(intrinsic) < widest) return absl::OkStatus();
        for (const TileCost& tile : fitting) tiles.emplace_back(tile, mappings.size());
        mappings.push_back({nest, intrinsic, matching});
        return absl::OkStatus();
      });
  if (!found.ok()) return found;
  std::vector<size_t> order(tiles.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t one, size_t other) {
    return std::pair(tiles[one].first.cycles, one) < std::pair(tiles[other].first.cycles, other);
  });
  const auto count = std::min(static_cast<size_t>(std::max<int64_t>(most, 1)), tiles.size());
  std::vector<Kernel> kernels;
  for (size_t i = 0; i < count; ++i) {
    const auto& [tile, mapping] = tiles[order[count == 1 ? 0 : i * (tiles.size() - 1) / (count - 1)]];
    const Mapped& mapped = mappings[mapping];
    options.tile = tile.tile;
    TESSERA_ASSIGN_OR_RETURN(Plan plan, planOf(mapped.nest, mapped.intrinsic, mapped.matching, target, options));
    Kernel& kernel = kernels.emplace_back();
    kernel.plan = std::move(plan);
    kernel.name = absl::StrCat(name, i);
    kernel.text = write(kernel.plan, target, kernel.name);
    kernel.mappings = mappings.size();
  }
  return kernels;
}

absl::StatusOr<Checked> check(const Kernel& kernel, const v1::Target& target, uint64_t seed, int64_t most_points) {
  return isFloatingPoint(kernel.plan.software.accesses[0].dtype) ? checkAs<double>(kernel, target, seed, most_points)
                                                                 : checkAs<int64_t>(kernel, target, seed, most_points);
}

}  // namespace tessera::compiler::ptx
