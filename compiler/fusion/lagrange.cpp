#include "compiler/fusion/lagrange.h"

#include <algorithm>
#include <cmath>

namespace tessera::compiler::fusion {
namespace {

using Vector = std::vector<double>;

/// log of a sum of positive terms with its first and second derivatives by the logarithms of the free tiles.
struct LogSum {
  explicit LogSum(size_t n) : gradient(n, 0), hessian(n * n, 0) {}
  double total = 0;
  Vector gradient, hessian;

  void finish() {
    const size_t n = gradient.size();
    for (double& g : gradient) g /= total;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) hessian[i * n + j] = hessian[i * n + j] / total - gradient[i] * gradient[j];
  }
  double value() const { return std::log(total); }
};

double realVolume(const Structure& structure, const Vector& tiles) {
  double volume = 0;
  for (const Traffic& traffic : structure.traffic) {
    double moved = static_cast<double>(structure.chain->tensors[traffic.tensor].element_bytes);
    for (size_t d = 0; d < structure.chain->tensors[traffic.tensor].subscripts.size(); ++d)
      moved *= structure.extentOf<double>(traffic.tensor, d, tiles);
    for (int loop : traffic.replaced_by)
      moved *= std::max(1.0, static_cast<double>(structure.chain->loops[loop].extent) / tiles[loop]);
    volume += moved;
  }
  return volume;
}

double realMemory(const Structure& structure, size_t member, const Vector& tiles) {
  double held = 0;
  for (int tensor : structure.resident[member]) {
    double bytes = static_cast<double>(structure.chain->tensors[tensor].element_bytes);
    for (size_t d = 0; d < structure.chain->tensors[tensor].subscripts.size(); ++d)
      bytes *= structure.extentOf<double>(tensor, d, tiles);
    held += bytes;
  }
  return held;
}

class Problem {
 public:
  Problem(const Structure& structure, double capacity, const Bounds& bounds)
      : structure_(structure), chain_(*structure.chain), capacity_(capacity), bounds_(bounds), tiles_(bounds.lower) {
    for (size_t loop = 0; loop < chain_.loops.size(); ++loop)
      if (bounds.upper[loop] > bounds.lower[loop] * (1 + 1e-9)) free_.push_back(static_cast<int>(loop));
  }

  size_t size() const { return free_.size(); }
  const Vector& tiles() const { return tiles_; }

  void moveTo(const Vector& x) {
    for (size_t i = 0; i < free_.size(); ++i) tiles_[free_[i]] = std::exp(x[i]);
  }
  double lower(size_t i) const { return std::log(bounds_.lower[free_[i]]); }
  double upper(size_t i) const { return std::log(bounds_.upper[free_[i]]); }

  LogSum volume() const {
    LogSum sum(size());
    for (const Traffic& traffic : structure_.traffic) add(sum, traffic.tensor, &traffic.replaced_by);
    sum.finish();
    return sum;
  }
  LogSum memory(size_t member) const {
    LogSum sum(size());
    for (int tensor : structure_.resident[member]) add(sum, tensor, nullptr);
    sum.total /= capacity_;
    for (double& g : sum.gradient) g /= capacity_;
    for (double& h : sum.hessian) h /= capacity_;
    sum.finish();
    return sum;
  }
  size_t members() const { return structure_.resident.size(); }

  /// t * log DV - sum log(-log(MU / capacity)) - barriers of the bounds; infinite outside.
  double barrier(const Vector& x, double t) {
    moveTo(x);
    double value = t * std::log(realVolume(structure_, tiles_));
    for (size_t m = 0; m < members(); ++m) {
      const double slack = -std::log(realMemory(structure_, m, tiles_) / capacity_);
      if (!(slack > 0)) return INFINITY;
      value -= std::log(slack);
    }
    for (size_t i = 0; i < size(); ++i) {
      if (x[i] <= lower(i) || x[i] >= upper(i)) return INFINITY;
      value -= std::log(x[i] - lower(i)) + std::log(upper(i) - x[i]);
    }
    return value;
  }

  /// Newton's direction of the barrier at x.
  Vector direction(const Vector& x, double t) {
    moveTo(x);
    const size_t n = size();
    LogSum objective = volume();
    Vector g(n), h(n * n);
    for (size_t i = 0; i < n; ++i) g[i] = t * objective.gradient[i];
    for (size_t i = 0; i < n * n; ++i) h[i] = t * objective.hessian[i];
    for (size_t m = 0; m < members(); ++m) {
      LogSum held = memory(m);
      const double slack = -held.value();
      for (size_t i = 0; i < n; ++i) {
        g[i] += held.gradient[i] / slack;
        for (size_t j = 0; j < n; ++j)
          h[i * n + j] += held.hessian[i * n + j] / slack + held.gradient[i] * held.gradient[j] / (slack * slack);
      }
    }
    for (size_t i = 0; i < n; ++i) {
      const double below = x[i] - lower(i), above = upper(i) - x[i];
      g[i] += 1 / above - 1 / below;
      h[i * n + i] += 1 / (above * above) + 1 / (below * below);
    }
    return solve(h, g);
  }

 private:
  void add(LogSum& sum, int tensor, const std::vector<int>* replaced_by) const {
    const size_t n = size();
    double term = static_cast<double>(chain_.tensors[tensor].element_bytes);
    Vector slope(n, 0), bend(n * n, 0);
    for (size_t d = 0; d < chain_.tensors[tensor].subscripts.size(); ++d) {
      const double extent = structure_.extentOf<double>(tensor, d, tiles_);
      term *= extent;
      Vector part(n, 0);
      for (const Term& subscript : chain_.tensors[tensor].subscripts[d]) {
        if (structure_.retained[tensor] >> subscript.loop & 1) continue;
        for (size_t i = 0; i < n; ++i)
          if (free_[i] == subscript.loop)
            part[i] += static_cast<double>(subscript.stride) * tiles_[subscript.loop] / extent;
      }
      for (size_t i = 0; i < n; ++i) {
        slope[i] += part[i];
        bend[i * n + i] += part[i];
        for (size_t j = 0; j < n; ++j) bend[i * n + j] -= part[i] * part[j];
      }
    }
    if (replaced_by)
      for (int loop : *replaced_by) {
        term *= std::max(1.0, static_cast<double>(chain_.loops[loop].extent) / tiles_[loop]);
        for (size_t i = 0; i < n; ++i)
          if (free_[i] == loop) slope[i] -= 1;
      }
    sum.total += term;
    for (size_t i = 0; i < n; ++i) {
      sum.gradient[i] += term * slope[i];
      for (size_t j = 0; j < n; ++j) sum.hessian[i * n + j] += term * (slope[i] * slope[j] + bend[i * n + j]);
    }
  }

  /// -h^-1 g by elimination; a diagonal that is not positive (footprints of windows are not convex) is lifted.
  static Vector solve(Vector h, Vector g) {
    const size_t n = g.size();
    for (size_t i = 0; i < n; ++i) h[i * n + i] = std::max(h[i * n + i], 1e-9) * (1 + 1e-12);
    for (size_t column = 0; column < n; ++column) {
      size_t pivot = column;
      for (size_t row = column; row < n; ++row)
        if (std::abs(h[row * n + column]) > std::abs(h[pivot * n + column])) pivot = row;
      if (std::abs(h[pivot * n + column]) < 1e-300) continue;
      for (size_t k = 0; k < n; ++k) std::swap(h[pivot * n + k], h[column * n + k]);
      std::swap(g[pivot], g[column]);
      for (size_t row = 0; row < n; ++row) {
        if (row == column) continue;
        const double factor = h[row * n + column] / h[column * n + column];
        for (size_t k = column; k < n; ++k) h[row * n + k] -= factor * h[column * n + k];
        g[row] -= factor * g[column];
      }
    }
    for (size_t i = 0; i < n; ++i) g[i] = h[i * n + i] != 0 ? -g[i] / h[i * n + i] : 0;
    return g;
  }

  const Structure& structure_;
  const Chain& chain_;
  double capacity_;
  const Bounds& bounds_;
  Vector tiles_;
  std::vector<int> free_;
};

}  // namespace

Bounds boundsOf(const Chain& chain) {
  Bounds bounds;
  for (const Loop& loop : chain.loops) {
    const auto extent = static_cast<double>(loop.extent);
    bounds.lower.push_back(loop.whole ? extent
                                      : std::min(extent, static_cast<double>(std::max(loop.min_tile, loop.multiple))));
    bounds.upper.push_back(extent);
  }
  return bounds;
}

std::optional<RealSolution> closedForm(const Structure& structure, double capacity, const Bounds& bounds) {
  const Chain& chain = *structure.chain;
  // A tile with which DV falls: c / x. Found by what DV loses when the tile doubles: linear in 1 / x or not at all.
  std::vector<int> falling;
  std::vector<double> slope;
  const double base = realVolume(structure, bounds.lower);
  for (size_t i = 0; i < chain.loops.size(); ++i) {
    if (bounds.upper[i] < 4 * bounds.lower[i]) {
      if (bounds.upper[i] > bounds.lower[i]) return std::nullopt;
      continue;
    }
    Vector twice = bounds.lower, fourfold = bounds.lower;
    twice[i] *= 2;
    fourfold[i] *= 4;
    const double at2 = realVolume(structure, twice), at4 = realVolume(structure, fourfold);
    if (std::abs(at2 - base) <= 1e-12 * base && std::abs(at4 - base) <= 1e-12 * base) continue;
    if (std::abs((base - at2) - 2 * (at2 - at4)) > 1e-9 * base) return std::nullopt;
    falling.push_back(static_cast<int>(i));
    slope.push_back(2 * (base - at2) * bounds.lower[i]);
  }
  if (falling.size() != 2 || std::abs(slope[0] - slope[1]) > 1e-9 * slope[0]) return std::nullopt;
  Vector both = bounds.lower;
  both[falling[0]] *= 2;
  both[falling[1]] *= 2;
  const double c0 = slope[0] / bounds.lower[falling[0]] / 2, c1 = slope[1] / bounds.lower[falling[1]] / 2;
  if (std::abs(base - c0 - c1 - realVolume(structure, both)) > 1e-9 * base) return std::nullopt;  // not separable

  double best = INFINITY;
  size_t binding = 0;
  for (size_t m = 0; m < structure.resident.size(); ++m) {
    auto held = [&](double x, double y) {
      Vector tiles = bounds.lower;
      tiles[falling[0]] = x;
      tiles[falling[1]] = y;
      return realMemory(structure, m, tiles);
    };
    // p x y + q x + r y + s from four points, checked at a fifth.
    const double s00 = held(0, 0), s10 = held(1, 0), s01 = held(0, 1), s11 = held(1, 1);
    const double q = s10 - s00, r = s01 - s00, p = s11 - s10 - s01 + s00;
    if (p <= 0 || std::abs(q - r) > 1e-9 * (q + r) || s00 >= capacity) return std::nullopt;
    if (std::abs(held(3, 5) - (15 * p + 3 * q + 5 * r + s00)) > 1e-9 * held(3, 5)) return std::nullopt;
    const double x = (-q + std::sqrt(q * q + p * (capacity - s00))) / p;
    if (x < best) {
      best = x;
      binding = m;
    }
  }
  for (int loop : falling)
    if (best <= bounds.lower[loop] || best >= bounds.upper[loop]) return std::nullopt;
  RealSolution solution;
  solution.tiles = bounds.lower;
  for (int loop : falling) solution.tiles[loop] = best;
  solution.volume_bytes = realVolume(structure, solution.tiles);
  solution.multipliers.assign(structure.resident.size(), 0);
  // d log DV / d log x over d log MU / d log x at the point: both tiles move together.
  Vector moved = solution.tiles;
  for (int loop : falling) moved[loop] *= 1 + 1e-6;
  solution.multipliers[binding] =
      -(realVolume(structure, moved) / solution.volume_bytes - 1) /
      (realMemory(structure, binding, moved) / realMemory(structure, binding, solution.tiles) - 1);
  solution.closed_form = true;
  return solution;
}

std::optional<RealSolution> minimizeVolume(const Structure& structure, double capacity, const Bounds& bounds) {
  for (size_t m = 0; m < structure.resident.size(); ++m)
    if (realMemory(structure, m, bounds.lower) > capacity) return std::nullopt;
  bool all = true;
  for (size_t m = 0; m < structure.resident.size(); ++m) all &= realMemory(structure, m, bounds.upper) <= capacity;
  RealSolution solution;
  solution.multipliers.assign(structure.resident.size(), 0);
  if (all) {  // everything fits: each tensor moves once
    solution.tiles = bounds.upper;
    solution.volume_bytes = realVolume(structure, bounds.upper);
    return solution;
  }
  if (auto closed = closedForm(structure, capacity, bounds)) return closed;
  Problem problem(structure, capacity, bounds);
  const size_t n = problem.size();
  Vector x(n);
  // Just inside of the lower bounds, halving the distance until the memory fits.
  for (double inside = 0.25;; inside /= 2) {
    for (size_t i = 0; i < n; ++i) x[i] = problem.lower(i) + inside * (problem.upper(i) - problem.lower(i));
    if (std::isfinite(problem.barrier(x, 1))) break;
    if (inside < 1e-9) {  // the smallest blocks fill the memory
      solution.tiles = bounds.lower;
      solution.volume_bytes = realVolume(structure, bounds.lower);
      return solution;
    }
  }
  double t = 4;
  for (; t < 1e6; t *= 16) {
    for (int step = 0; step < 40; ++step) {
      const double before = problem.barrier(x, t);
      const Vector direction = problem.direction(x, t);
      double length = 1, after = INFINITY;
      Vector next(n);
      for (; length > 1e-10; length /= 2) {
        for (size_t i = 0; i < n; ++i) next[i] = x[i] + length * direction[i];
        after = problem.barrier(next, t);
        if (after < before) break;
      }
      if (!(after < before)) break;
      x = next;
      if (before - after < 1e-7) break;
    }
  }
  problem.moveTo(x);
  solution.tiles = problem.tiles();
  solution.volume_bytes = realVolume(structure, solution.tiles);
  for (size_t m = 0; m < structure.resident.size(); ++m)
    solution.multipliers[m] = 1 / (t / 16 * -std::log(realMemory(structure, m, solution.tiles) / capacity));
  return solution;
}

}  // namespace tessera::compiler::fusion
