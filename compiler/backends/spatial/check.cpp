#include "compiler/backends/spatial/check.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/backends/spatial/element.h"
#include "compiler/backends/spatial/interpreter.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;
using loopnest::Nest;

/// Points of all calls of the instruction, including padding.
double pointsOf(const Program& program) {
  double points = 1;
  for (const Dimension& dimension : program.dimensions) points *= static_cast<double>(dimension.blocks);
  for (const intrinsic::Group& group : program.choice.mapping.groups) points *= static_cast<double>(group.size);
  return points;
}

/// Selects trips so that about `most` points remain: for parallel loops, outermost first, only the first and the last
/// trip; if that is not enough, only the first one, which every loop has.
enum class Chosen { kAll, kEnds, kFirst };
std::vector<Chosen> choose(const Program& program, double most, double& points) {
  std::vector<Chosen> chosen(program.loops.size(), Chosen::kAll);
  points = pointsOf(program);
  for (const Chosen next : {Chosen::kEnds, Chosen::kFirst}) {
    for (size_t l = 0; l < program.loops.size() && points > most; ++l) {
      const auto left = static_cast<double>(chosen[l] == Chosen::kAll ? program.loops[l].trips : 2);
      const double wanted = next == Chosen::kEnds ? 2 : 1;
      if (program.dimensions[program.loops[l].dimension].sum || left <= wanted) continue;
      points *= wanted / left;
      chosen[l] = next;
    }
  }
  return chosen;
}

/// Random numbers of a tensor: for floating-point types full significands whose products are not subnormal; for
/// integers all magnitudes, or small numbers if the instruction saturates. None is 0, which would hide a wrong factor.
template <typename Number>
std::vector<Number> draw(std::mt19937_64& random, v1::DataType type, size_t count, bool small) {
  std::vector<Number> numbers(count);
  for (Number& number : numbers) {
    const uint64_t bits = random();
    if (isFloatingPoint(type)) {
      constexpr double kLeast = 1.0 / 16;
      const double magnitude = kLeast + (1 - kLeast) * static_cast<double>(bits >> 11) * 0x1p-53;
      number = static_cast<Number>(rounded(bits & 1 ? -magnitude : magnitude, type));
    } else {
      constexpr int64_t kSmall = 5, kLarge = 1 << 15;
      const int64_t low = std::max(least(type), -(small ? kSmall : kLarge));
      const int64_t high = std::min(largest(type), small ? kSmall : kLarge);
      const int64_t whole = low + static_cast<int64_t>((bits >> 1) % static_cast<uint64_t>(high - low + 1));
      number = static_cast<Number>(whole == 0 ? high : whole);
    }
  }
  return numbers;
}

/// The operator's loops, one result at a time; addresses are linear, since all accesses are affine.
template <typename Number>
class Reference {
 public:
  Reference(const Nest& nest, const std::vector<std::vector<Number>>& sources)
      : form_(intrinsic::formOf(nest)), sources_(sources) {
    for (const loopnest::Access& access : nest.accesses) {
      offsets_.push_back(offsetOf(nest, access));
    }
    for (size_t l = 0; l < nest.loops.size(); ++l) {
      const bool summed = nest.isReduction(static_cast<int>(l));
      (summed ? summed_ : kept_).push_back(l);
      (summed ? sum_extents_ : kept_extents_).push_back(nest.loops[l].extent);
    }
    parts_.resize(nest.accesses.size());
    intrinsic::forEachPoint(sum_extents_, [&](const std::vector<int64_t>& part) {
      for (size_t array = 1; array < parts_.size(); ++array) {
        int64_t at = 0;
        for (size_t i = 0; i < summed_.size(); ++i) at += part[i] * offsets_[array].strides[summed_[i]];
        parts_[array].push_back(at);
      }
    });
  }

  struct Sum {
    int64_t element = 0;  // of the destination
    Number value = 0;
    double magnitudes = 0;  // sum of the terms' magnitudes
  };

  /// Calls use(Sum) for each result that `wanted` selects.
  template <typename Wanted, typename Use>
  void forEachResult(Wanted&& wanted, Use&& use) const {
    std::vector<int64_t> bases(offsets_.size());
    intrinsic::forEachPoint(kept_extents_, [&](const std::vector<int64_t>& point) {
      for (size_t array = 0; array < bases.size(); ++array) {
        bases[array] = offsets_[array].constant;
        for (size_t i = 0; i < kept_.size(); ++i) bases[array] += point[i] * offsets_[array].strides[kept_[i]];
      }
      if (!wanted(bases[0])) return;
      Sum sum;
      sum.element = bases[0];
      for (size_t part = 0; part < parts_[1].size(); ++part) {
        Number term = sources_[1][static_cast<size_t>(bases[1] + parts_[1][part])];
        for (size_t array = 2; array < bases.size(); ++array) {
          term *= sources_[array][static_cast<size_t>(bases[array] + parts_[array][part])];
        }
        sum.magnitudes += std::fabs(static_cast<double>(term));
        sum.value = part == 0                      ? term
                    : form_ == Arithmetic::MAXIMUM ? std::max(sum.value, term)
                    : form_ == Arithmetic::MINIMUM ? std::min(sum.value, term)
                                                   : sum.value + term;
      }
      use(sum);
    });
  }

 private:
  intrinsic::Form form_;
  const std::vector<std::vector<Number>>& sources_;
  std::vector<loopnest::Offset> offsets_;  // per access
  std::vector<size_t> kept_, summed_;
  std::vector<int64_t> kept_extents_, sum_extents_;
  // per source: offsets in elements from the first product of a result to each product
  std::vector<std::vector<int64_t>> parts_;
};

/// Bound relative to the sum of magnitudes: the combined effect of all roundings between one product and its result.
double boundOf(const Program& program) {
  const Arithmetic& arithmetic = program.choice.intrinsic.arithmetic();
  double calls = 1, within = 1;
  for (const Dimension& dimension : program.dimensions) {
    if (dimension.sum) calls *= static_cast<double>(dimension.blocks);
  }
  const Nest& instruction = program.instruction;
  for (size_t l = 0; l < instruction.loops.size(); ++l) {
    if (instruction.isReduction(static_cast<int>(l))) within *= static_cast<double>(instruction.loops[l].extent);
  }
  const v1::DataType to = program.buffers[0].dtype;
  const v1::DataType middle = arithmetic.intermediate() == v1::DATA_TYPE_UNSPECIFIED ? to : arithmetic.intermediate();
  const double roundoff = std::max(unitRoundoff(to), isFloatingPoint(middle) ? unitRoundoff(middle) : 0);
  const double roundings = calls + 1 + (arithmetic.rounding() == Arithmetic::ONCE ? 0 : within + 1);
  // The reference sums in double precision.
  constexpr double kOfReference = 0x1p-52;
  return std::expm1(roundings * std::log1p(roundoff)) + calls * within * kOfReference;
}

template <typename Number>
absl::StatusOr<Checked> checkAs(const Program& program, uint64_t seed,
                                const std::function<bool(size_t, int64_t)>& only) {
  const Nest& software = program.choice.software;
  std::mt19937_64 random(seed);
  const Arithmetic& arithmetic = program.choice.intrinsic.arithmetic();
  const bool small =
      arithmetic.overflow() == Arithmetic::SATURATE || arithmetic.intermediate_overflow() == Arithmetic::SATURATE;
  TensorBytes tensors;
  std::vector<std::vector<Number>> numbers;
  double all_bytes = 0;  // of tensors and of the random numbers
  for (size_t array = 0; array < software.accesses.size(); ++array) {
    const Buffer& buffer = program.buffers[array];
    if (buffer.bytes > kMaxBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(buffer.name, " has ", buffer.bytes, " bytes; at most ", kMaxBytes, " are simulated"));
    }
    const auto count = static_cast<size_t>(buffer.bytes / elementBytes(buffer.dtype));
    all_bytes += static_cast<double>(buffer.bytes) + static_cast<double>(count * sizeof(Number));
    if (all_bytes > 4.0 * static_cast<double>(kMaxBytes)) {
      return absl::ResourceExhaustedError(
          absl::StrFormat("its tensors take %.1f GB to be simulated; at most %.1f are; name smaller extents",
                          all_bytes / 1e9, 4e-9 * static_cast<double>(kMaxBytes)));
    }
    numbers.push_back(draw<Number>(random, buffer.dtype, count, small));
    tensors.emplace_back(static_cast<size_t>(buffer.bytes));
    encode(buffer.dtype, numbers.back().data(), count, tensors.back().data());
  }
  TESSERA_ASSIGN_OR_RETURN(const auto begun, execute(program, tensors, only));
  const v1::DataType type = program.buffers[0].dtype;
  std::vector<Number> found(numbers[0].size());
  decode(type, tensors[0].data(), found.size(), found.data());
  Checked checked;
  checked.floating = isFloatingPoint(type);
  const intrinsic::Form form = intrinsic::formOf(software);
  const bool sums = form != Arithmetic::MAXIMUM && form != Arithmetic::MINIMUM;
  const double bound = checked.floating && sums ? boundOf(program) : 0;
  const auto wrong = [&](int64_t element, const std::string& what) {
    if (++checked.wrong == 1) checked.first_wrong = absl::StrCat("element ", element, what);
  };
  const auto wanted = [&](int64_t element) {
    ++checked.of;
    const bool there = begun[static_cast<size_t>(element)];
    if (!there && !only) wrong(element, " is not computed");
    checked.results += there;
    return there;
  };
  Reference<Number>(software, numbers).forEachResult(wanted, [&](const auto& sum) {
    const Number is = found[static_cast<size_t>(sum.element)];
    if constexpr (std::is_same_v<Number, double>) {
      const double error = std::fabs(is - sum.value);
      const double allowed = bound * sum.magnitudes;
      checked.largest_error = std::max(checked.largest_error, std::isnan(error) ? INFINITY : error);
      const double share = error == 0 ? 0 : error / allowed;
      checked.largest_error_ratio = std::max(checked.largest_error_ratio, std::isnan(share) ? INFINITY : share);
      if (!(error <= allowed)) {
        wrong(sum.element, absl::StrCat(" is ", is, ", not ", sum.value, "; the bound is ", allowed));
      }
    } else {
      const int64_t expected = held(sum.value, type, arithmetic.overflow());
      if (is != expected) wrong(sum.element, absl::StrCat(" is ", is, ", not ", expected));
    }
  });
  return checked;
}

}  // namespace

absl::StatusOr<Checked> check(const Program& program, uint64_t seed, int64_t most_points) {
  constexpr int64_t kMaxParts = 1 << 24;
  constexpr double kMaxTileFactor = 64;  // largest size of one tile, as a multiple of `most_points`
  double points = 0;
  const std::vector<Chosen> chosen = choose(program, static_cast<double>(most_points), points);
  if (points > kMaxTileFactor * static_cast<double>(most_points)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("one tile of its result takes ", points, " points; ", most_points, " are asked for"));
  }
  int64_t parts = 1;
  const Nest& software = program.choice.software;
  for (size_t l = 0; l < software.loops.size(); ++l) {
    if (software.isReduction(static_cast<int>(l))) parts = loopnest::saturatedProduct(parts, software.loops[l].extent);
  }
  if (parts > kMaxParts) {
    return absl::ResourceExhaustedError(absl::StrCat("a result sums ", parts, " products; at most ", kMaxParts));
  }
  std::function<bool(size_t, int64_t)> only;
  if (std::any_of(chosen.begin(), chosen.end(), [](Chosen c) { return c != Chosen::kAll; })) {
    only = [&](size_t loop, int64_t trip) {
      const bool last = trip + 1 == program.loops[loop].trips;
      return chosen[loop] == Chosen::kAll || trip == 0 || (chosen[loop] == Chosen::kEnds && last);
    };
  }
  return isFloatingPoint(program.buffers[0].dtype) ? checkAs<double>(program, seed, only)
                                                   : checkAs<int64_t>(program, seed, only);
}

}  // namespace tessera::compiler::simulator
