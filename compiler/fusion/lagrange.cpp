#include "compiler/fusion/lagrange.h"

#include <algorithm>
#include <cmath>

#include "proto/messages/element_size.h"

namespace tessera::compiler::fusion {
namespace {

using Vector = std::vector<double>;

/// The logarithm of a sum of positive terms with first and second derivatives by the logarithms of the free tiles.
struct LogSum {
  explicit LogSum(size_t n) : gradient(n, 0), hessian(n * n, 0) {}
  double total = 0;
  Vector gradient, hessian;

  /// Turns sums of derivatives into derivatives of the logarithm: (log s)' = s' / s, (log s)'' = s'' / s - (s' / s)^2.
  void finish() {
    const size_t n = gradient.size();
    for (double& g : gradient) g /= total;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) hessian[i * n + j] = hessian[i * n + j] / total - gradient[i] * gradient[j];
  }
  double value() const { return std::log(total); }
};

/// DV for real block sizes: L / T runs instead of its ceiling.
double realVolume(const Structure& structure, const Vector& tiles) {
  double volume = 0;
  for (const Traffic& traffic : structure.traffic) {
    double moved = static_cast<double>(elementBytes(structure.chain->accesses[traffic.tensor].dtype));
    for (size_t d = 0; d < structure.chain->accesses[traffic.tensor].subscripts.size(); ++d)
      moved *= structure.extentOf<double>(traffic.tensor, d, tiles);
    for (int loop : traffic.replaced_by)
      moved *= std::max(1.0, static_cast<double>(structure.chain->loops[loop].extent) / tiles[loop]);
    volume += moved;
  }
  return volume;
}

/// The bytes that a member holds for real block sizes.
double realMemory(const Structure& structure, size_t member, const Vector& tiles) {
  double held = 0;
  for (int tensor : structure.resident[member]) {
    double bytes = static_cast<double>(elementBytes(structure.chain->accesses[tensor].dtype));
    for (size_t d = 0; d < structure.chain->accesses[tensor].subscripts.size(); ++d)
      bytes *= structure.extentOf<double>(tensor, d, tiles);
    held += bytes;
  }
  return held;
}

/// bytes * product of a block's extents * runs of the loops that replace it, as a function of the free tiles.
class Product {
 public:
  Product(const Structure& structure, int tensor, const std::vector<int>& replaced_by, const Vector& tiles,
          const std::vector<int>& position)
      : factor_(static_cast<double>(elementBytes(structure.chain->accesses[tensor].dtype))) {
    const Chain& chain = *structure.chain;
    for (const Subscript& subscript : chain.accesses[tensor].subscripts) {
      Extent extent;
      for (const Term& term : subscript.terms) {
        const auto stride = static_cast<double>(term.coefficient);
        // A retained loop counts with its whole extent, a fixed loop with its tile; only free loops stay variables.
        if (structure.retained[tensor] >> term.loop & 1) {
          extent.fixed += stride * static_cast<double>(chain.loops[term.loop].extent - 1);
        } else if (position[term.loop] < 0) {
          extent.fixed += stride * (tiles[term.loop] - 1);
        } else {
          extent.fixed -= stride;
          extent.moving.emplace_back(position[term.loop], stride);
        }
      }
      if (extent.moving.empty()) {
        factor_ *= extent.fixed;
      } else {
        extents_.push_back(std::move(extent));
      }
    }
    for (const int loop : replaced_by) {
      const auto extent = static_cast<double>(chain.loops[loop].extent);
      if (position[loop] < 0) {
        factor_ *= std::max(1.0, extent / tiles[loop]);
      } else {
        runs_.emplace_back(position[loop], extent);
      }
    }
  }

  double at(const Vector& free) const {
    double value = factor_;
    for (const Extent& extent : extents_) value *= extent.at(free);
    for (const auto& [i, extent] : runs_) value *= std::max(1.0, extent / free[i]);
    return value;
  }

  /// Adds its value and derivatives by the logarithms of the free tiles. `slope` is scratch space of one zero per tile.
  void addTo(LogSum& sum, const Vector& free, Vector& slope) const {
    const size_t n = free.size();
    const double value = at(free);
    sum.total += value;
    for (const Extent& extent : extents_) {
      const double whole = extent.at(free);
      for (const auto& [i, stride] : extent.moving) {
        const double part = stride * free[i] / whole;
        slope[i] += part;
        sum.hessian[i * n + i] += value * part;
        for (const auto& [j, other] : extent.moving) sum.hessian[i * n + j] -= value * part * other * free[j] / whole;
      }
    }
    for (const auto& [i, extent] : runs_) slope[i] -= 1;
    for (size_t i = 0; i < n; ++i) {
      if (slope[i] == 0) continue;
      sum.gradient[i] += value * slope[i];
      for (size_t j = 0; j < n; ++j) sum.hessian[i * n + j] += value * slope[i] * slope[j];
    }
    std::ranges::fill(slope, 0);
  }

 private:
  struct Extent {
    double fixed = 1;
    std::vector<std::pair<int, double>> moving;  ///< free tiles and their strides
    double at(const Vector& free) const {
      double size = fixed;
      for (const auto& [i, stride] : moving) size += stride * free[i];
      return size;
    }
  };
  double factor_;
  std::vector<Extent> extents_;
  std::vector<std::pair<int, double>> runs_;  ///< free tiles and the extents of their loops
};

double sumAt(const std::vector<Product>& products, const Vector& free) {
  double sum = 0;
  for (const Product& product : products) sum += product.at(free);
  return sum;
}

class Problem {
 public:
  Problem(const Structure& structure, double capacity, const Bounds& bounds)
      : capacity_(capacity), tiles_(bounds.lower) {
    std::vector<int> position(structure.chain->loops.size(), -1);
    // Loops whose bounds coincide are constants; the others are the free variables.
    for (size_t loop = 0; loop < position.size(); ++loop) {
      if (bounds.upper[loop] <= bounds.lower[loop] * (1 + 1e-9)) continue;
      position[loop] = static_cast<int>(loops_.size());
      loops_.push_back(static_cast<int>(loop));
      lower_.push_back(std::log(bounds.lower[loop]));
      upper_.push_back(std::log(bounds.upper[loop]));
    }
    for (const Traffic& traffic : structure.traffic)
      volume_.emplace_back(structure, traffic.tensor, traffic.replaced_by, tiles_, position);
    for (const std::vector<int>& resident : structure.resident) {
      std::vector<Product>& held = memory_.emplace_back();
      for (int tensor : resident) held.emplace_back(structure, tensor, std::vector<int>{}, tiles_, position);
    }
    free_.resize(size());
    slope_.assign(size(), 0);
  }

  size_t size() const { return loops_.size(); }
  double lower(size_t i) const { return lower_[i]; }
  double upper(size_t i) const { return upper_[i]; }

  Vector tilesAt(const Vector& x) const {
    Vector tiles = tiles_;
    for (size_t i = 0; i < size(); ++i) tiles[loops_[i]] = std::exp(x[i]);
    return tiles;
  }

  /// t * log DV - sum log(-log(MU / capacity)) - barriers of the bounds; infinite outside the bounds.
  double barrier(const Vector& x, double t) {
    for (size_t i = 0; i < size(); ++i)
      // Positive only inside the bounds and below the capacity; the logarithms exist only there.
      if (x[i] <= lower(i) || x[i] >= upper(i)) return INFINITY;
    moveTo(x);
    double value = t * std::log(sumAt(volume_, free_));
    for (const std::vector<Product>& held : memory_) {
      const double slack = -std::log(sumAt(held, free_) / capacity_);
      if (!(slack > 0)) return INFINITY;
      value -= std::log(slack);
    }
    for (size_t i = 0; i < size(); ++i) value -= std::log((x[i] - lower(i)) * (upper(i) - x[i]));
    return value;
  }

  /// Returns Newton's direction of the barrier at x.
  Vector direction(const Vector& x, double t) {
    moveTo(x);
    // Gradient and Hessian of the barrier: the objective, each memory bound, each bound of a tile.
    const size_t n = size();
    const LogSum objective = logOf(volume_, 1);
    Vector g(n), h(n * n);
    for (size_t i = 0; i < n; ++i) g[i] = t * objective.gradient[i];
    for (size_t i = 0; i < n * n; ++i) h[i] = t * objective.hessian[i];
    for (const std::vector<Product>& products : memory_) {
      const LogSum held = logOf(products, capacity_);
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
    return solve(std::move(h), std::move(g));
  }

 private:
  void moveTo(const Vector& x) {
    for (size_t i = 0; i < size(); ++i) free_[i] = std::exp(x[i]);
  }

  /// Returns the logarithm of sum / unit at the current point.
  LogSum logOf(const std::vector<Product>& products, double unit) {
    LogSum sum(size());
    for (const Product& product : products) product.addTo(sum, free_, slope_);
    sum.finish();
    sum.total /= unit;
    return sum;
  }

  /// Solves -h^-1 g by elimination. Footprints of windows are not convex, so a diagonal element that is not positive is
  /// raised.
  /// Gauss-Jordan elimination with row pivoting.
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

  double capacity_;
  Vector tiles_;  ///< of all loops; free ones are at their lower bound
  std::vector<int> loops_;
  Vector lower_, upper_;  ///< logarithms
  std::vector<Product> volume_;
  std::vector<std::vector<Product>> memory_;  ///< by member
  Vector free_, slope_;
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
  // Finds the tiles with which DV falls as c / x, from the change of DV when the tile doubles: linear in 1 / x or none.
  std::vector<int> falling;
  std::vector<double> slope;
  const double base = realVolume(structure, bounds.lower);
  for (size_t i = 0; i < chain.loops.size(); ++i) {
    // A loop with little room is a constant; with some room it is neither constant nor long enough to test the form.
    if (bounds.upper[i] < 4 * bounds.lower[i]) {
      if (bounds.upper[i] > bounds.lower[i]) return std::nullopt;
      continue;
    }
    Vector twice = bounds.lower, fourfold = bounds.lower;
    twice[i] *= 2;
    fourfold[i] *= 4;
    const double at2 = realVolume(structure, twice), at4 = realVolume(structure, fourfold);
    if (std::abs(at2 - base) <= 1e-12 * base && std::abs(at4 - base) <= 1e-12 * base) continue;
    // c / x halves when x doubles, so the second decrease must be half of the first.
    if (std::abs((base - at2) - 2 * (at2 - at4)) > 1e-9 * base) return std::nullopt;
    falling.push_back(static_cast<int>(i));
    slope.push_back(2 * (base - at2) * bounds.lower[i]);
  }
  // The closed form needs two such loops with equal constants; then x = y by symmetry.
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
    // Fits p x y + q x + r y + s to four points and checks it at a fifth.
    const double s00 = held(0, 0), s10 = held(1, 0), s01 = held(0, 1), s11 = held(1, 1);
    const double q = s10 - s00, r = s01 - s00, p = s11 - s10 - s01 + s00;
    if (p <= 0 || std::abs(q - r) > 1e-9 * (q + r) || s00 >= capacity) return std::nullopt;
    if (std::abs(held(3, 5) - (15 * p + 3 * q + 5 * r + s00)) > 1e-9 * held(3, 5)) return std::nullopt;
    const double x = (-q + std::sqrt(q * q + p * (capacity - s00))) / p;
    // The member with the smallest solution is the binding one.
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
  // d log DV / d log x over d log MU / d log x at the solution, where both tiles move together.
  Vector moved = solution.tiles;
  for (int loop : falling) moved[loop] *= 1 + 1e-6;
  solution.multipliers[binding] =
      -(realVolume(structure, moved) / solution.volume_bytes - 1) /
      (realMemory(structure, binding, moved) / realMemory(structure, binding, solution.tiles) - 1);
  solution.closed_form = true;
  return solution;
}

std::optional<RealSolution> minimizeVolume(const Structure& structure, double capacity, const Bounds& bounds) {
  // Even the smallest blocks exceed the capacity.
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
  // The start must be strictly inside: moves away from the lower bounds, halving the distance until the memory fits.
  for (double inside = 0.25;; inside /= 2) {
    for (size_t i = 0; i < n; ++i) x[i] = problem.lower(i) + inside * (problem.upper(i) - problem.lower(i));
    if (std::isfinite(problem.barrier(x, 1))) break;
    if (inside < 1e-9) {  // the smallest blocks fill the memory
      solution.tiles = bounds.lower;
      solution.volume_bytes = realVolume(structure, bounds.lower);
      return solution;
    }
  }
  // Follows the central path: each round sharpens the barrier 16 times and starts from the last minimum.
  double t = 4;
  for (; t < 1e6; t *= 16) {
    double before = problem.barrier(x, t);
    for (int step = 0; step < 40; ++step) {
      const Vector direction = problem.direction(x, t);
      double length = 1, after = INFINITY;
      Vector next(n);
      // Backtracking line search: halves the step until the barrier decreases.
      for (; length > 1e-10; length /= 2) {
        for (size_t i = 0; i < n; ++i) next[i] = x[i] + length * direction[i];
        after = problem.barrier(next, t);
        if (after < before) break;
      }
      if (!(after < before)) break;
      x = next;
      if (before - after < 1e-7) break;
      before = after;
    }
  }
  solution.tiles = problem.tilesAt(x);
  solution.volume_bytes = realVolume(structure, solution.tiles);
  // At the minimum of the barrier the multiplier of a bound is 1 / (t * slack).
  for (size_t m = 0; m < structure.resident.size(); ++m)
    solution.multipliers[m] = 1 / (t / 16 * -std::log(realMemory(structure, m, solution.tiles) / capacity));
  return solution;
}

}  // namespace tessera::compiler::fusion
