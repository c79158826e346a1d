#include "compiler/ir/multi_range_bounds.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;

constexpr size_t kMaxProducts = 32;
constexpr int64_t kMaxTimes = int64_t{1} << 40;

/// Converts to a sum; nothing for values that may be negative, or for a range too long for a table.
std::optional<ExtentFunction> asSum(const ExtentFunction& series) {
  if (!series.sum.empty()) return series;
  if (series.at.empty() || std::any_of(series.at.begin(), series.at.end(), [](int64_t value) { return value < 0; }))
    return std::nullopt;
  RangeTerm product;
  if (series.dimension >= 0) {
    product.factors[series.dimension] = series.at;
  } else if (series.at[0] > kMaxTimes) {
    return std::nullopt;
  } else {
    product.times = series.at[0];
  }
  return ExtentFunction{-1, {}, {std::move(product)}};
}

std::optional<RangeTerm> multiplied(const RangeTerm& a, const RangeTerm& b) {
  RangeTerm result = a;
  // Limits all factors, so that later products fit the 128 bits of sumAt().
  if (a.times != 0 && b.times > kMaxTimes / a.times) return std::nullopt;
  if (b.parts > kMaxTimes / a.parts) return std::nullopt;
  result.times *= b.times;
  result.parts *= b.parts;
  const int64_t common = std::max<int64_t>(std::gcd(result.times, result.parts), 1);
  result.times /= common;
  result.parts /= common;
  // Factors of one dimension multiply size by size; several dimensions stay apart.
  for (const auto& [dimension, factor] : b.factors) {
    const auto [known, fresh] = result.factors.try_emplace(dimension, factor);
    for (size_t n = 0; !fresh && n < factor.size(); ++n) {
      if (factor[n] != 0 && known->second[n] > kMaxTimes / factor[n]) return std::nullopt;
      known->second[n] *= factor[n];
    }
  }
  return result;
}

/// Returns an upper bound of the quotient, exact if every factor divides. Nothing if the divisor can be 0 while the
/// dividend is not.
std::optional<RangeTerm> divided(const RangeTerm& a, const RangeTerm& by, bool& is_exact) {
  if (by.times == 0) return std::nullopt;
  // Dividing by times / parts multiplies by parts / times.
  RangeTerm inverse;
  inverse.times = by.parts;
  inverse.parts = by.times;
  std::optional<RangeTerm> result = multiplied(a, inverse);
  if (!result) return std::nullopt;
  for (const auto& [dimension, factor] : by.factors) {
    const auto found = result->factors.try_emplace(dimension, std::vector<int64_t>(factor.size(), 1)).first;
    std::vector<int64_t>& own = found->second;
    for (size_t n = 0; n < factor.size(); ++n) {
      if (factor[n] == 0 && own[n] != 0) return std::nullopt;
      // The dividend is 0 there as well, and stays 0.
      if (factor[n] == 0) continue;
      is_exact &= own[n] % factor[n] == 0;
      own[n] = (own[n] + factor[n] - 1) / factor[n];
    }
  }
  return result;
}

std::optional<ExtentFunction> sumOf(const ExtentFunction& a, const ExtentFunction& b) {
  ExtentFunction result = a;
  result.is_exact &= b.is_exact;
  for (const RangeTerm& product : b.sum)
    // Products that are 0 add nothing.
    if (product.times != 0) result.sum.push_back(product);
  return result.sum.size() > kMaxProducts ? std::nullopt : std::optional(std::move(result));
}

}  // namespace

std::optional<ExtentFunction> upperBoundOf(const ExtentFunction& a, const ExtentFunction& b) {
  std::optional<ExtentFunction> x = asSum(a), y = asSum(b);
  if (!x || !y) return std::nullopt;
  const bool is_nothing = x->sum.size() == 1 && x->sum[0].times == 0;
  // A sum of both is at least the greater one, as nothing is negative.
  std::optional<ExtentFunction> both = x->sum == y->sum ? x : is_nothing ? y : sumOf(*x, *y);
  if (both) both->is_exact = false;
  return both;
}

std::optional<ExtentFunction> boundOverRanges(mlir::Operation* op, const ExtentFunction& a, const ExtentFunction& b) {
  // Subtracting a non-negative value does not increase the bound.
  if (mlir::isa<arith::SubIOp>(op)) {
    std::optional<ExtentFunction> x = asSum(a);
    if (!x || !asSum(b)) return std::nullopt;
    x->is_exact = false;
    return x;
  }
  const std::optional<ExtentFunction> x = asSum(a), y = asSum(b);
  if (!x || !y) return std::nullopt;
  if (mlir::isa<arith::AddIOp>(op)) return sumOf(*x, *y);
  if (mlir::isa<arith::MaxSIOp>(op)) return upperBoundOf(a, b);
  if (mlir::isa<arith::MinSIOp>(op)) {
    // Prefers the side that follows a range: the other one is a constant clamp.
    const auto follows = [](const ExtentFunction& series) {
      return std::any_of(series.sum.begin(), series.sum.end(), [](const auto& each) { return !each.factors.empty(); });
    };
    ExtentFunction lesser = follows(*x) ? *x : *y;
    lesser.is_exact = false;
    return lesser;
  }
  ExtentFunction result{-1, {}, {}, x->is_exact && y->is_exact};
  if (mlir::isa<arith::MulIOp>(op)) {
    for (const RangeTerm& p : x->sum) {
      for (const RangeTerm& q : y->sum) {
        auto product = multiplied(p, q);
        if (!product) return std::nullopt;
        result.sum.push_back(*std::move(product));
      }
    }
  } else if (mlir::isa<arith::DivSIOp>(op) && y->sum.size() == 1 && y->is_exact) {
    for (const RangeTerm& p : x->sum) {
      auto quotient = divided(p, y->sum[0], result.is_exact);
      if (!quotient) return std::nullopt;
      result.is_exact &= quotient->parts == 1;
      result.sum.push_back(*std::move(quotient));
    }
  }
  return result.sum.empty() || result.sum.size() > kMaxProducts ? std::nullopt : std::optional(std::move(result));
}

int64_t sumAt(const ExtentFunction& series, const std::map<int, int64_t>& counts) {
  __int128 sum = 0;
  constexpr __int128 kMost = int64_t{1} << 60;
  for (const RangeTerm& product : series.sum) {
    __int128 value = product.times;
    for (const auto& [dimension, factor] : product.factors)
      // Saturates far below the limit of 64 bits; such sizes do not fit memory anyway.
      value = std::min(value * factor[static_cast<size_t>(counts.at(dimension))], kMost);
    // Rounds up: a bound must not be too small.
    sum = std::min(sum + (value + product.parts - 1) / product.parts, kMost);
  }
  return static_cast<int64_t>(sum);
}

}  // namespace tessera::compiler
