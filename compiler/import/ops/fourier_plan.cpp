#include "compiler/import/ops/fourier_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>

namespace tessera::compiler {
namespace {

/// Costs are in multiply-adds per point of the transform, on vectors of 16 elements.
constexpr int64_t kLanes = 16;
constexpr double kPass = 24;     ///< one pass over points that fit in a private cache
constexpr double kFarPass = 80;  ///< one pass over points that do not
constexpr int64_t kNearPoints = 1 << 17;
constexpr int64_t kLargestRadix = 128;
constexpr int64_t kConvolutions = 64;        ///< number of lengths to try
constexpr int64_t kDenseElements = 1 << 16;  ///< of a dense matrix: 256 KiB in single precision

int64_t roundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

struct Stages {
  double cost = std::numeric_limits<double>::infinity();
  std::vector<int64_t> radices = {};
};

/// Finds the cheapest order of radices. The stage that divides `left` points by a radix has already computed `length /
/// left` output indices, and vectors run along these; in the first stage they run along the stage's results.
class StageSearch {
 public:
  explicit StageSearch(const Transform& t) : t_(t), pass_(t.length <= kNearPoints ? kPass : kFarPass) {}

  const Stages& best(int64_t left) {
    // Remembered, as many orders share their rest.
    auto [entry, added] = known_.try_emplace(left);
    Stages& found = entry->second;  // references to elements of a map stay valid
    if (!added) return found;
    if (left == 1) return found = {0, {}};
    for (int64_t radix = 2; radix <= std::min(left, kLargestRadix); ++radix) {
      // Only divisors: each stage leaves whole subsequences.
      if (left % radix != 0) continue;
      const Stages& rest = best(left / radix);
      const double cost = rest.cost + stage(radix, t_.length / left);
      if (cost >= found.cost) continue;
      found = {cost, {radix}};
      found.radices.insert(found.radices.end(), rest.radices.begin(), rest.radices.end());
    }
    return found;
  }

 private:
  double stage(int64_t radix, int64_t done) const {
    // The first stage is followed by a separate pass for the twiddle factors.
    if (done == 1) return static_cast<double>(t_.parts * roundUp(2 * radix, kLanes)) + 2 * pass_;
    const bool last = done * radix == t_.length;
    // The last stage computes only the wanted bins.
    const double wanted = last ? static_cast<double>(t_.bins * t_.bin_parts) / static_cast<double>(t_.length) : 2;
    return 2 * wanted * static_cast<double>(radix * roundUp(done, kLanes)) / static_cast<double>(done) + pass_;
  }

  Transform t_;
  double pass_;
  std::map<int64_t, Stages> known_ = {};
};

}  // namespace

FourierPlan planTransform(const Transform& t) {
  FourierPlan plan;
  const auto points = static_cast<double>(t.length);
  // The whole matrix is read for each row, or for a few rows.
  const __int128 elements = static_cast<__int128>(t.given * t.parts) * (t.bins * t.bin_parts);
  double least = std::numeric_limits<double>::infinity();
  // A dense matrix is one product, best for short lengths.
  if (elements <= kDenseElements) least = static_cast<double>(elements) / points + kPass;
  // Stages need several factors; a prime length has only itself.
  if (const Stages stages = StageSearch(t).best(t.length); stages.cost < least && stages.radices.size() > 1) {
    least = stages.cost;
    plan = {FourierPlan::Method::kStages, stages.radices};
  }
  if (plan.method == FourierPlan::Method::kStages) return plan;
  // Lengths of the convolution: the shortest multiples of whole vectors, and the next power of two, which has small
  // radices.
  const int64_t shortest = roundUp(t.given + t.bins - 1, kLanes * kLanes);
  // Otherwise a convolution of another length with many factors (Bluestein).
  auto consider = [&](int64_t length) {
    const Stages stages = StageSearch({.length = length, .bins = length}).best(length);
    const double cost = (2 * stages.cost + 3 * kPass) * static_cast<double>(length) / points;
    if (cost >= least) return;
    least = cost;
    plan = {FourierPlan::Method::kChirp, stages.radices, length};
  };
  for (int64_t i = 0; i < kConvolutions; ++i) consider(shortest + i * kLanes);
  consider(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(shortest))));
  return plan;
}

std::complex<double> rootOfUnity(int64_t turn, int64_t full) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(turn % full) / static_cast<double>(full);
  return {std::cos(angle), std::sin(angle)};
}

std::vector<std::complex<double>> exactTransform(const std::vector<std::complex<double>>& x,
                                                 const std::vector<int64_t>& radices) {
  const auto length = static_cast<int64_t>(x.size());
  std::vector<std::complex<double>> from = x, to(x.size()), roots(x.size());
  for (int64_t i = 0; i < length; ++i) roots[i] = std::conj(rootOfUnity(i, length));
  // left * done is the length at any stage.
  int64_t left = length;
  int64_t done = 1;
  for (const int64_t radix : radices) {
    const int64_t rest = left / radix;
    for (int64_t m = 0; m < rest; ++m) {
      for (int64_t bin = 0; bin < radix; ++bin) {
        for (int64_t k = 0; k < done; ++k) {
          std::complex<double> sum = 0;
          for (int64_t a = 0; a < radix; ++a) {
            sum += from[(a * rest + m) * done + k] * roots[(a * rest + m) * bin % left * done];
          }
          to[(m * radix + bin) * done + k] = sum;
        }
      }
    }
    std::swap(from, to);
    left = rest;
    done *= radix;
  }
  return from;
}

}  // namespace tessera::compiler
