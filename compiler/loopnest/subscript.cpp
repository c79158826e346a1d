#include "compiler/loopnest/subscript.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::loopnest {
namespace {

int64_t floorDivided(int64_t value, int64_t divisor) {
  return value / divisor - (value % divisor != 0 && value < 0 ? 1 : 0);
}

/// Extents and numbers are untrusted: ranges end at the limits of the type.
int64_t saturated(__int128 value) {
  return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : static_cast<int64_t>(value);
}

int64_t product(int64_t left, int64_t right) { return saturated(static_cast<__int128>(left) * right); }
int64_t sum(int64_t left, int64_t right) { return saturated(static_cast<__int128>(left) + right); }

int64_t sumAt(const std::vector<Term>& terms, int64_t constant, std::span<const int64_t> point) {
  int64_t value = constant;
  for (const Term& term : terms) value += term.coefficient * point[static_cast<size_t>(term.loop)];
  return value;
}

/// The extremes of an affine function lie at the ends of each loop.
Range affineRange(const std::vector<Term>& terms, int64_t constant, std::span<const int64_t> extents) {
  Range range{constant, constant};
  for (const Term& term : terms) {
    const int64_t reach = product(term.coefficient, extents[static_cast<size_t>(term.loop)] - 1);
    int64_t& end = reach < 0 ? range.low : range.high;
    end = sum(end, reach);
  }
  return range;
}

std::string joined(const std::vector<Term>& terms, int64_t constant, std::span<const std::string> names) {
  return print(Subscript{terms, constant, {}}, names);
}

/// A digit without its coefficient: "(n * 49 + q) / 16 % 4".
std::string digitText(const Digit& digit, std::span<const std::string> names) {
  std::string text = joined(digit.terms, digit.constant, names);
  if (digit.terms.size() != 1 || digit.constant != 0 || digit.terms[0].coefficient != 1)
    text = absl::StrCat("(", text, ")");
  if (digit.divisor != 1) absl::StrAppend(&text, " / ", digit.divisor);
  if (digit.modulus != 0) absl::StrAppend(&text, " % ", digit.modulus);
  return text;
}

}  // namespace

int64_t Subscript::coefficientOf(int loop) const {
  const auto found = std::ranges::find(terms, loop, &Term::loop);
  return found == terms.end() ? 0 : found->coefficient;
}

bool Subscript::uses(int loop) const {
  return coefficientOf(loop) != 0 || std::ranges::any_of(digits, [&](const Digit& digit) {
           return std::ranges::find(digit.terms, loop, &Term::loop) != digit.terms.end();
         });
}

int64_t Subscript::at(std::span<const int64_t> point) const {
  int64_t value = sumAt(terms, constant, point);
  for (const Digit& digit : digits) {
    int64_t part = floorDivided(sumAt(digit.terms, digit.constant, point), digit.divisor);
    if (digit.modulus != 0) part -= floorDivided(part, digit.modulus) * digit.modulus;
    value += digit.coefficient * part;
  }
  return value;
}

Range rangeOf(const Subscript& subscript, std::span<const int64_t> extents) {
  Range range = affineRange(subscript.terms, subscript.constant, extents);
  for (const Digit& digit : subscript.digits) {
    Range part = affineRange(digit.terms, digit.constant, extents);
    part = {floorDivided(part.low, digit.divisor), floorDivided(part.high, digit.divisor)};
    if (digit.modulus != 0) {
      // Within one period the remainder rises with the quotient.
      const int64_t period = floorDivided(part.low, digit.modulus);
      const bool one_period = period == floorDivided(part.high, digit.modulus);
      part = one_period ? Range{part.low - period * digit.modulus, part.high - period * digit.modulus}
                        : Range{0, digit.modulus - 1};
    }
    const int64_t low = product(digit.coefficient, part.low), high = product(digit.coefficient, part.high);
    range.low = sum(range.low, std::min(low, high));
    range.high = sum(range.high, std::max(low, high));
  }
  return range;
}

std::string print(const Subscript& subscript, std::span<const std::string> names) {
  std::string text;
  const auto append = [&](int64_t number, const std::string& factor) {
    const int64_t magnitude = number < 0 ? -number : number;
    absl::StrAppend(&text, text.empty() ? (number < 0 ? "-" : "") : (number < 0 ? " - " : " + "));
    if (factor.empty()) {
      absl::StrAppend(&text, magnitude);
    } else {
      absl::StrAppend(&text, magnitude == 1 ? "" : absl::StrCat(magnitude, " * "), factor);
    }
  };
  for (const Term& term : subscript.terms) append(term.coefficient, names[static_cast<size_t>(term.loop)]);
  for (const Digit& digit : subscript.digits) {
    const bool factor = digit.coefficient != 1 && digit.coefficient != -1;
    const std::string inside = digitText(digit, names);
    append(digit.coefficient, factor ? absl::StrCat("(", inside, ")") : inside);
  }
  if (subscript.constant != 0 || text.empty()) append(subscript.constant, "");
  return text;
}

}  // namespace tessera::compiler::loopnest
