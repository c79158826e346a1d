#include "compiler/interpreter/compare.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::compiler::interpreter {
namespace {

/// The difference divided by its bound; 0 if the values are equal.
double shareOf(Element element, const Scalar& expected, const Scalar& found, double bound, double& error) {
  if (!element.isReal()) {
    error = std::fabs(static_cast<double>(expected.integer) - static_cast<double>(found.integer));
    if (expected.integer == found.integer) return 0;
    return bound > 0 ? error / bound : INFINITY;
  }
  const double x = expected.real, y = found.real;
  error = 0;
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  if (std::isfinite(x) && std::isfinite(y)) {
    error = std::fabs(x - y);
    return bound > 0 ? error / bound : INFINITY;
  }
  // One of them overflowed; the other one is within rounding error of overflow.
  const double finite = std::isfinite(x) ? x : y, other = std::isfinite(x) ? y : x;
  if (std::isinf(other) && std::isfinite(finite) && (other > 0) == (finite > 0) &&
      std::fabs(finite) + bound >= formatOf(element).largest) {
    return 0;
  }
  return INFINITY;
}

std::string textOf(const Scalar& value, Element element) {
  return element.isReal() ? absl::StrCat(value.real) : absl::StrCat(value.integer);
}

}  // namespace

Difference compare(const Array& expected, const Array& found) {
  Difference result;
  const Element element = expected.storage->element;
  double largest = 0;
  forEachPosition(expected, [&](int64_t at) {
    const Scalar value = expected.at(at);
    const double magnitude = std::fabs(element.isReal() ? value.real : static_cast<double>(value.integer));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  });
  std::vector<int64_t> others;
  others.reserve(found.elements());
  forEachPosition(found, [&](int64_t at) { others.push_back(at); });
  forEachPosition(expected, [&](int64_t at) {
    const Scalar x = expected.at(at), y = found.at(others[result.elements]);
    const int64_t position = result.elements++;
    if (x.error >= kUnknownError || y.error >= kUnknownError) {
      ++result.undecided;
      if (x.error < kUnknownError) ++result.newly_undecided;
      return;
    }
    const double bound = kDeviations * (x.error + y.error);
    // A bound this large relative to the array's values checks nothing.
    if (bound > largest / 10) ++result.undecided;
    double error = 0;
    const double share = shareOf(element, x, y, bound, error);
    result.largest_error = std::max(result.largest_error, error);
    if (share <= result.share) return;
    result.share = share;
    result.bound = bound;
    result.position = position;
    result.expected = x;
    result.found = y;
  });
  return result;
}

std::string describe(const Difference& difference, Element element) {
  if (difference.share <= 1 && !difference.isWithin()) {
    return absl::StrCat(difference.newly_undecided, " of ", difference.elements, " elements hang on rounding now");
  }
  const double error =
      element.isReal()
          ? std::fabs(difference.expected.real - difference.found.real)
          : std::fabs(static_cast<double>(difference.expected.integer) - static_cast<double>(difference.found.integer));
  return absl::StrCat("element ", difference.position, " is ", textOf(difference.found, element), " instead of ",
                      textOf(difference.expected, element), " (error ", error, ", bound ", difference.bound, ")");
}

}  // namespace tessera::compiler::interpreter
