#include "compiler/gradient/preimage.h"

#include <algorithm>
#include <numeric>

#include "compiler/gradient/smith_form.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

/// Bounds that every iteration keeps: extents of loops, remainders of quotients.
std::vector<IndexBound> ownBounds(const IndexSpace& statement) {
  std::vector<IndexBound> bounds;
  for (size_t a = 0; a < statement.atoms().size(); ++a) {
    const IndexSpace::Atom& atom = statement.atoms()[a];
    IndexBound bound{IndexSpace::sumOf(static_cast<int>(a)), atom.range.low, atom.range.high};
    if (atom.kind == IndexSpace::AtomKind::kQuotient) {
      bound = {atom.dividend, 0, atom.divisor - 1};
      bound.sum.terms[static_cast<int>(a)] = -atom.divisor;
    }
    bounds.push_back(std::move(bound));
  }
  return bounds;
}

class Solver {
 public:
  Solver(const IndexSpace& statement, std::vector<IndexBound> bounds, IndexSpace& gradient)
      : statement_(statement), bounds_(ownBounds(statement)), gradient_(gradient) {
    for (IndexBound& bound : bounds) bounds_.push_back(std::move(bound));
  }

  absl::StatusOr<Preimage> run(const std::vector<IndexEquation>& equations) {
    TESSERA_RETURN_IF_ERROR(solve(equations));
    TESSERA_RETURN_IF_ERROR(chooseFreeLoops());
    for (size_t a = 0; a < unknowns(); ++a) result_.atoms.push_back(gradient_.tightened(inGradient(column(a))));
    for (const IndexBound& bound : bounds_) guard(substituted(bound.sum), bound.low, bound.high);
    TESSERA_RETURN_IF_ERROR(gradient_.status());
    return std::move(result_);
  }

 private:
  size_t unknowns() const { return statement_.atoms().size(); }

  /// matrix * unknowns = value - constant. With left * matrix * right = diagonal, unknowns = right * solution, and
  /// diagonal * solution = left * (value - constant).
  absl::Status solve(const std::vector<IndexEquation>& equations) {
    IntegerMatrix matrix;
    for (const IndexEquation& equation : equations) {
      matrix.emplace_back(unknowns(), 0);
      for (const auto& [atom, factor] : equation.sum.terms) matrix.back()[static_cast<size_t>(atom)] = factor;
    }
    TESSERA_ASSIGN_OR_RETURN(const SmithForm form, smithForm(std::move(matrix), unknowns()));
    rank_ = form.diagonal.size();
    for (size_t row = 0; row < equations.size(); ++row) {
      IndexSum side;
      for (size_t e = 0; e < equations.size(); ++e) {
        const IndexSum constant{.terms = {}, .constant = equations[e].sum.constant};
        side = gradient_.plus(side, gradient_.plus(equations[e].value, constant, -1), form.left[row][e]);
      }
      if (row >= rank_) {
        guard(side, 0, 0);  // an equation without unknowns: A[i, i] has elements on the diagonal only
      } else {
        // The divisibility condition: A[2 * i] reads even elements only.
        guard(gradient_.remainder(side, form.diagonal[row]), 0, 0);
        solution_.push_back(gradient_.quotient(side, form.diagonal[row]));
      }
    }
    right_ = form.right;
    // The rows of the bounds follow those of the unknowns, and undergo the same changes of basis.
    for (const IndexBound& bound : bounds_) {
      std::vector<int64_t> row(unknowns(), 0);
      for (const auto& [atom, factor] : bound.sum.terms)
        for (size_t c = 0; c < unknowns(); ++c) {
          int64_t product = 0;
          if (__builtin_mul_overflow(factor, right_[static_cast<size_t>(atom)][c], &product) ||
              __builtin_add_overflow(row[c], product, &row[c]))
            return absl::OutOfRangeError("the numbers of the subscripts are too large to solve");
        }
      right_.push_back(std::move(row));
    }
    return absl::OkStatus();
  }

  const std::vector<int64_t>& column(size_t row) const { return right_[row]; }

  /// The part of a row of `right_` that is solved by now.
  IndexSum inGradient(const std::vector<int64_t>& row) {
    IndexSum sum;
    for (size_t c = 0; c < solution_.size(); ++c)
      if (row[c] != 0) sum = gradient_.plus(sum, solution_[c], row[c]);
    return sum;
  }

  IndexSum substituted(const IndexSum& sum) {
    IndexSum result{.terms = {}, .constant = sum.constant};
    for (const auto& [atom, factor] : sum.terms)
      result = gradient_.plus(result, result_.atoms[static_cast<size_t>(atom)], factor);
    return gradient_.tightened(result);
  }

  /// Iterations of a free loop that the bound limits, given its row; 0 if it limits none.
  static int64_t stepsOf(const IndexBound& bound, const std::vector<int64_t>& row, size_t first) {
    int64_t divisor = 0;
    for (size_t c = first; c < row.size(); ++c) divisor = std::gcd(divisor, row[c]);
    return divisor == 0 ? 0 : std::max<int64_t>(0, bound.high - bound.low) / divisor + 1;
  }

  /// Gives each dimension of the null space a loop: the bound with the fewest iterations first.
  absl::Status chooseFreeLoops() {
    for (size_t free = rank_; free < unknowns(); ++free) {
      size_t best = bounds_.size();
      int64_t best_steps = 0;
      for (size_t b = 0; b < bounds_.size(); ++b) {
        const int64_t steps = stepsOf(bounds_[b], right_[unknowns() + b], free);
        if (steps == 0 || (best < bounds_.size() && steps >= best_steps)) continue;
        best = b;
        best_steps = steps;
      }
      if (best == bounds_.size()) return absl::InternalError("a loop has no bound");
      const IndexBound& bound = bounds_[best];
      TESSERA_ASSIGN_OR_RETURN(const int64_t factor, reduceRow(right_, unknowns() + best, free));
      // low <= factor * free + rest <= high: free starts at the quotient of (low - rest), rounded up.
      IndexSum rest = inGradient(right_[unknowns() + best]);
      rest.constant += bound.sum.constant - bound.low;
      IndexSum value = gradient_.plus({}, gradient_.quotient(gradient_.tightened(rest), factor), -1);
      if (best_steps > 1) {
        const IndexSum loop = gradient_.addLoop(nameFor(bound), best_steps);
        result_.free_loops.push_back(loop.terms.begin()->first);
        value = gradient_.plus(value, loop);
      }
      solution_.push_back(std::move(value));
    }
    return absl::OkStatus();
  }

  /// The loop that the bound is about, or that the quotient divides.
  std::string nameFor(const IndexBound& bound) const {
    for (const auto& [atom, factor] : bound.sum.terms)
      if (const auto& each = statement_.atom(atom); each.kind == IndexSpace::AtomKind::kLoop) return each.name;
    return "t";
  }

  void guard(const IndexSum& sum, int64_t low, int64_t high) {
    const Range range = gradient_.rangeOf(sum);
    if (range.low >= low && range.high <= high) return;
    if (range.high < low || range.low > high) result_.empty = true;
    const IndexBound made{sum, std::max(low, range.low), std::min(high, range.high)};
    const bool known = std::ranges::any_of(result_.guards, [&](const IndexBound& other) {
      return other.sum == made.sum && other.low == made.low && other.high == made.high;
    });
    if (!known) result_.guards.push_back(made);
  }

  const IndexSpace& statement_;
  std::vector<IndexBound> bounds_;
  IndexSpace& gradient_;
  IntegerMatrix right_;  ///< a row for each unknown, then one for each bound, over the solution's entries
  size_t rank_ = 0;
  std::vector<IndexSum> solution_;
  Preimage result_;
};

}  // namespace

absl::StatusOr<Preimage> preimageOf(const IndexSpace& statement, const std::vector<IndexEquation>& equations,
                                    std::vector<IndexBound> bounds, IndexSpace& gradient) {
  return Solver(statement, std::move(bounds), gradient).run(equations);
}

}  // namespace tessera::compiler::gradient
