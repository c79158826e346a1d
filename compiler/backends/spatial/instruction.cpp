#include "compiler/backends/spatial/instruction.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/element.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::simulator {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;
using loopnest::Nest;

constexpr int64_t kMaxPoints = 1 << 22;

bool isExtremum(intrinsic::Form form) { return form == Arithmetic::MAXIMUM || form == Arithmetic::MINIMUM; }

/// Number is double if the destination is floating point, otherwise int64_t.
template <typename Number>
class Numeric : public Instruction {
 public:
  Numeric(const Arithmetic& arithmetic, const Nest& nest) : arithmetic_(arithmetic), form_(intrinsic::formOf(nest)) {
    std::vector<std::vector<int64_t>> shapes;
    for (const loopnest::Access& access : nest.accesses) {
      types_.push_back(access.dtype);
      shapes.push_back(shapeOf(nest, access));
      size_t elements = 1;
      for (int64_t extent : shapes.back()) elements *= static_cast<size_t>(extent);
      numbers_.emplace_back(elements);
    }
    std::vector<int64_t> extents;
    for (const loopnest::Loop& loop : nest.loops) extents.push_back(loop.extent);
    std::vector<std::vector<uint32_t>> terms(numbers_[0].size());  // per element of the destination, in program order
    intrinsic::forEachPoint(extents, [&](const std::vector<int64_t>& point) {
      if (std::any_of(nest.bounds.begin(), nest.bounds.end(), [&](const auto& b) { return b.at(point) >= 0; })) return;
      size_t target = 0;
      for (size_t operand = 0; operand < nest.accesses.size(); ++operand) {
        std::vector<int64_t> index;
        for (const auto& subscript : nest.accesses[operand].subscripts) index.push_back(subscript.at(point));
        const auto place = static_cast<uint32_t>(intrinsic::rowMajor(index, shapes[operand]));
        if (operand == 0) {
          target = place;
        } else {
          terms[target].push_back(place);
        }
      }
    });
    for (size_t target = 0; target < terms.size(); ++target) {
      if (terms[target].empty()) continue;
      sums_.push_back({target, places_.size(), places_.size() + terms[target].size()});
      places_.insert(places_.end(), terms[target].begin(), terms[target].end());
    }
    middle_ = arithmetic.intermediate() == v1::DATA_TYPE_UNSPECIFIED ? types_[0] : arithmetic.intermediate();
  }

  void operator()(const std::vector<uint8_t*>& blocks) override {
    for (size_t operand = 0; operand < blocks.size(); ++operand) {
      decode(types_[operand], blocks[operand], numbers_[operand].size(), numbers_[operand].data());
    }
    const size_t sources = numbers_.size() - 1;
    for (const Sum& sum : sums_) {
      Number found = sources == 2 ? sumOf<2>(sum) : sources == 1 ? sumOf<1>(sum) : sumOf<0>(sum);
      numbers_[0][sum.target] = written(numbers_[0][sum.target], found);
    }
    encode(types_[0], numbers_[0].data(), numbers_[0].size(), blocks[0]);
  }

 private:
  /// The terms of one element of the destination: places_[begin] to places_[end - 1], one place for each source.
  struct Sum {
    size_t target = 0, begin = 0, end = 0;
  };

  /// The call's own sum or extremum. kSources: the number of sources, 0 for any number.
  template <size_t kSources>
  Number sumOf(const Sum& sum) const {
    const size_t sources = kSources == 0 ? numbers_.size() - 1 : kSources;
    const Number* first = numbers_[1].data();
    Number found = 0;
    for (size_t at = sum.begin; at < sum.end; at += sources) {
      Number term = first[places_[at]];
      for (size_t source = 1; source < sources; ++source)
        term = times(term, numbers_[source + 1][places_[at + source]]);
      found = at == sum.begin ? afterProduct(term) : joined(found, term);
    }
    return found;
  }

  /// A product of two halves or floats is exact in double.
  Number times(Number left, Number right) const {
    if constexpr (std::is_same_v<Number, double>) {
      const double product = left * right;
      return arithmetic_.rounding() == Arithmetic::EACH_STEP ? rounded(product, middle_) : product;
    } else {
      return static_cast<int64_t>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
    }
  }

  Number afterProduct(Number term) const {
    if constexpr (std::is_same_v<Number, double>) {
      return arithmetic_.rounding() == Arithmetic::ONCE ? term : rounded(term, middle_);
    } else {
      return term;
    }
  }

  Number joined(Number sum, Number term) const {
    if (form_ == Arithmetic::MAXIMUM) return std::max(sum, term);
    if (form_ == Arithmetic::MINIMUM) return std::min(sum, term);
    if constexpr (std::is_same_v<Number, double>) {
      return arithmetic_.rounding() == Arithmetic::ONCE ? sum + term : rounded(sum + term, middle_);
    } else {
      return static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(term));
    }
  }

  /// The new value of the destination; `found`: the call's own sum or extremum.
  Number written(Number before, Number found) const {
    if constexpr (std::is_same_v<Number, double>) {
      if (form_ == Arithmetic::MULTIPLY) return rounded(found, types_[0]);
      return isExtremum(form_) ? joined(before, found) : rounded(before + found, types_[0]);
    } else {
      found = held(found, middle_, arithmetic_.intermediate_overflow());
      if (form_ != Arithmetic::MULTIPLY) found = joined(before, found);
      return held(found, types_[0], arithmetic_.overflow());
    }
  }

  const Arithmetic arithmetic_;
  const intrinsic::Form form_;
  v1::DataType middle_;
  std::vector<v1::DataType> types_;
  std::vector<uint32_t> places_;
  std::vector<Sum> sums_;
  std::vector<std::vector<Number>> numbers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Instruction>> instructionOf(const v1::Intrinsic& intrinsic, const Nest& nest) {
  int64_t points = 1;
  for (const loopnest::Loop& loop : nest.loops) points = loopnest::saturatedProduct(points, loop.extent);
  if (points > kMaxPoints || nest.accesses.size() < 2) {
    return absl::FailedPreconditionError(absl::StrCat(intrinsic.name(), " has ", points, " points and ",
                                                      nest.accesses.size() - 1, " sources; 1 source or more and up to ",
                                                      kMaxPoints, " points are run"));
  }
  // The destination's type decides the arithmetic.
  if (isFloatingPoint(nest.accesses[0].dtype)) return std::make_unique<Numeric<double>>(intrinsic.arithmetic(), nest);
  for (const loopnest::Access& access : nest.accesses) {
    if (!isFloatingPoint(access.dtype)) continue;
    return absl::FailedPreconditionError(absl::StrCat(intrinsic.name(), " sums ", access.name, " of ",
                                                      elementText(access.dtype), " in ",
                                                      elementText(nest.accesses[0].dtype), ", which is no conversion"));
  }
  return std::make_unique<Numeric<int64_t>>(intrinsic.arithmetic(), nest);
}

double neutralReal(intrinsic::Form form) {
  constexpr double kBeyondAll = std::numeric_limits<double>::infinity();
  return form == Arithmetic::MAXIMUM ? -kBeyondAll : form == Arithmetic::MINIMUM ? kBeyondAll : 0;
}

int64_t neutralInteger(intrinsic::Form form, v1::DataType type) {
  return form == Arithmetic::MAXIMUM ? least(type) : form == Arithmetic::MINIMUM ? largest(type) : 0;
}

}  // namespace tessera::compiler::simulator
