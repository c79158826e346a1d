// Discrete Fourier transforms as products with small constant matrices. With radices near 16, n points take O(n log n)
// multiply-adds in products as wide as vectors.
#include "compiler/import/ops/fourier.h"

#include "compiler/import/ops/matmul.h"

namespace tessera::compiler {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::ValueRange;
using mlir::utils::IteratorType;

/// Largest table of roots of unity that a run reads; larger ones are the product of two smaller tables.
constexpr int64_t kTable = 1 << 14;
/// Most elements of stage matrices that include the twiddle factors; larger stages apply them in a separate pass.
constexpr int64_t kTurningMatrices = 1 << 16;

/// Returns the contribution of one part of a number to one part of its product with `root`: (a + i b) (c + i d) = (a c
/// - b d) + i (a d + b c).
double partOfProduct(std::complex<double> root, int64_t from, int64_t to) {
  if (from == to) return root.real();
  return from == 1 ? -root.imag() : root.imag();
}

std::complex<double> rootOf(const Transform& t, int64_t turn, int64_t full) {
  const std::complex<double> root = rootOfUnity(turn, full);
  return t.inverse ? root : std::conj(root);
}

double scaleOf(const Transform& t) { return t.inverse ? 1 / static_cast<double>(t.length) : 1; }

/// Returns the transform as a matrix: (sample, part) x (bin, part).
ConstantPtr denseMatrix(const Transform& t, v1::DataType dtype) {
  std::vector<double> values;
  for (int64_t sample = 0; sample < t.given; ++sample) {
    for (int64_t part = 0; part < t.parts; ++part) {
      for (int64_t bin = 0; bin < t.bins; ++bin) {
        const std::complex<double> root = rootOf(t, sample * bin, t.length) * scaleOf(t);
        for (int64_t to = 0; to < t.bin_parts; ++to) values.push_back(partOfProduct(root, part, to));
      }
    }
  }
  return realConstant(dtype, {t.given * t.parts, t.bins * t.bin_parts}, values);
}

/// Rows of complex numbers between stages: rows x left x 2 x done. `done` output indices are computed, each for `left`
/// subsequences of the samples.
class Stages {
 public:
  Stages(Emitter& e, const Transform& t, std::vector<int64_t> radices)
      : e_(e), t_(t), radices_(std::move(radices)), left_(t.length) {}

  /// x: rows x given x parts, or rows x parts x given (`planar`). Returns rows x bin_parts x bins.
  Tensor run(const Tensor& x, bool planar) {
    rows_ = x.shape[0];
    // The first stage reads samples, all later ones the stage before.
    Tensor y = first(x, planar);
    for (size_t i = 1; i < radices_.size(); ++i) y = next(y, radices_[i]);
    // The last stage may have computed more bins than asked for.
    const int64_t computed = y.elements() / (rows_ * t_.bin_parts);
    y = e_.reshape(y, {rows_, t_.bin_parts, computed});
    return e_.slice(y, {0, 0, 0}, {rows_, t_.bin_parts, t_.bins}, {1, 1, 1});
  }

 private:
  AffineMap map(unsigned dims, llvm::ArrayRef<unsigned> results) const {
    llvm::SmallVector<AffineExpr> exprs;
    for (unsigned d : results) exprs.push_back(e_.b.getAffineDimExpr(d));
    return AffineMap::get(dims, 0, exprs, e_.b.getContext());
  }

  /// Emits a product with the loops of the result and then `reductions` more.
  Tensor contract(const Shape& shape, unsigned reductions, llvm::ArrayRef<Access> operands) {
    const auto rank = static_cast<unsigned>(shape.size());
    llvm::SmallVector<IteratorType> loops(rank, IteratorType::parallel);
    loops.append(reductions, IteratorType::reduction);
    llvm::SmallVector<unsigned> result;
    for (unsigned d = 0; d < rank; ++d) result.push_back(d);
    const Tensor init = e_.zeros(operands[0].tensor.dtype, shape);
    return e_.generic(init.dtype, shape, operands, map(rank + reductions, result), loops, &init,
                      [](const Scalars& s, ValueRange v) { return s.fma(v[0], v[1], v[2]); });
  }

  /// Samples are (a, m) with m in the low digit: for each m, a transform along a.
  /// rows x m x (part, bin) = sum over (a, part) of rows x a x m x part times (a, part) x (part, bin)
  Tensor first(const Tensor& x, bool planar) {
    const int64_t radix = radices_[0], rest = left_ / radix, parts = t_.parts;
    // Samples beyond the given ones are zeros, so their rows of the matrix are left out.
    const int64_t used = (t_.given + rest - 1) / rest;  // the other samples are zeros
    const int64_t last = planar ? 2 : 1;
    llvm::SmallVector<int64_t> none(3, 0), high(3, 0);
    high[last] = used * rest - t_.given;
    Tensor samples = e_.pad(x, none, high, e_.scalars(x.dtype).constant(0));
    std::vector<double> values;
    for (int64_t a = 0; a < used; ++a) {
      for (int64_t part = 0; part < parts; ++part) {
        for (int64_t to = 0; to < 2; ++to) {
          for (int64_t bin = 0; bin < radix; ++bin) {
            // One column for each part of each bin.
            values.push_back(partOfProduct(rootOf(t_, a * bin, radix), part, to));
          }
        }
      }
    }
    Tensor y;
    const Shape shape = {rows_, rest, 2 * radix};
    // Real samples have one part, complex ones two, which are summed as well.
    if (parts == 1) {
      samples = e_.reshape(samples, {rows_, used, rest});
      const Tensor matrix = Emitter::wrap(realConstant(x.dtype, {used, 2 * radix}, values));
      y = contract(shape, 1, {{samples, map(4, {0, 3, 1})}, {matrix, map(4, {3, 2})}});
    } else {
      samples = e_.reshape(samples, planar ? Shape{rows_, 2, used, rest} : Shape{rows_, used, rest, 2});
      const Tensor matrix = Emitter::wrap(realConstant(x.dtype, {used, 2, 2 * radix}, values));
      y = contract(shape, 2,
                   {{samples, planar ? map(5, {0, 4, 3, 1}) : map(5, {0, 3, 1, 4})}, {matrix, map(5, {3, 4, 2})}});
    }
    left_ = rest;
    // Twiddle factors are a pass of their own after the first stage.
    return turned(e_.reshape(y, {rows_, rest, 2, radix, 1}), radix);
  }

  /// rows x m x (part, bin) x k = sum over (a, part) of (m x) (part, bin) x (a, part) times rows x a x m x part x k
  Tensor next(const Tensor& x, int64_t radix) {
    const int64_t rest = left_ / radix, done = t_.length / left_;
    // Twiddle factors join the matrix if one matrix for each m is not too large.
    const bool last = rest == 1, turning = !last && 4 * radix * radix * rest <= kTurningMatrices;
    // The last stage computes only the first bins.
    const int64_t bins = last ? (t_.bins + done - 1) / done : radix, bin_parts = last ? t_.bin_parts : 2;
    std::vector<double> values;
    for (int64_t m = 0; m < (turning ? rest : 1); ++m) {
      for (int64_t to = 0; to < bin_parts; ++to) {
        for (int64_t bin = 0; bin < bins; ++bin) {
          for (int64_t a = 0; a < radix; ++a) {
            // The last matrix includes the scale of an inverse transform, which then costs nothing.
            const std::complex<double> root = rootOf(t_, (a * rest + m) * bin, left_) * (last ? scaleOf(t_) : 1.0);
            for (int64_t part = 0; part < 2; ++part) values.push_back(partOfProduct(root, part, to));
          }
        }
      }
    }
    left_ = rest;
    const int64_t height = bin_parts * bins;
    if (last) {
      const Tensor matrix = Emitter::wrap(realConstant(x.dtype, {height, radix * 2}, values));
      return contract({rows_, height, done}, 1,
                      {{matrix, map(4, {1, 3})}, {e_.reshape(x, {rows_, radix * 2, done}), map(4, {0, 3, 2})}});
    }
    Shape shape = {height, radix, 2};
    if (turning) shape.insert(shape.begin(), rest);
    const Tensor matrix = Emitter::wrap(realConstant(x.dtype, shape, values));
    const Tensor y = contract({rows_, rest, height, done}, 2,
                              {{matrix, turning ? map(6, {1, 2, 4, 5}) : map(6, {2, 4, 5})},
                               {e_.reshape(x, {rows_, radix, rest, 2, done}), map(6, {0, 4, 1, 5, 3})}});
    const Tensor separate = e_.reshape(y, {rows_, rest, 2, radix, done});
    return turning ? separate : turned(separate, radix);
  }

  /// Multiplies rows x m x 2 x bin x k by the root of unity m * bin / (left * radix).
  Tensor turned(const Tensor& x, int64_t radix) {
    const int64_t full = left_ * radix, done = x.shape[4];
    // m = coarse * fine_count + fine: two tables, the first with one element unless a single table would be large.
    int64_t fine = left_;
    for (int64_t d = 1; 4 * left_ * radix > kTable && d < left_; ++d) {
      if (left_ % d == 0 && 2 * d + left_ / d < 2 * fine + left_ / fine) fine = d;
    }
    const int64_t coarse = left_ / fine;
    std::vector<double> from[2], high[2];
    for (int64_t m = 0; m < fine; ++m) {
      for (int64_t to = 0; to < 2; ++to) {
        for (int64_t bin = 0; bin < radix; ++bin) {
          for (int64_t part = 0; part < 2; ++part) {
            from[part].push_back(partOfProduct(rootOf(t_, m * bin, full), part, to));
          }
        }
      }
    }
    for (int64_t m = 0; m < coarse; ++m) {
      for (int64_t bin = 0; bin < radix; ++bin) {
        const std::complex<double> root = rootOf(t_, m * fine * bin, full);
        high[0].push_back(root.real());
        high[1].push_back(root.imag());
      }
    }
    const Shape shape = {rows_, coarse, fine, 2, radix, done};
    const Tensor y = e_.reshape(x, shape);
    llvm::SmallVector<Access> operands;
    for (int64_t part = 0; part < 2; ++part) operands.push_back({e_.take(y, 3, part), map(6, {0, 1, 2, 4, 5})});
    for (const auto& table : from) {
      operands.push_back({Emitter::wrap(realConstant(x.dtype, {fine, 2, radix}, table)), map(6, {2, 3, 4})});
    }
    for (const auto& table : high) {
      if (coarse == 1) break;
      operands.push_back({Emitter::wrap(realConstant(x.dtype, {coarse, radix}, table)), map(6, {1, 4})});
    }
    llvm::SmallVector<IteratorType> loops(6, IteratorType::parallel);
    return e_.reshape(e_.generic(x.dtype, shape, operands, e_.b.getMultiDimIdentityMap(6), loops, nullptr,
                                 [](const Scalars& s, ValueRange v) {
                                   mlir::Value real = v[0], imaginary = v[1];
                                   if (v.size() == 6) {
                                     real = s.sub(s.mul(v[0], v[4]), s.mul(v[1], v[5]));
                                     imaginary = s.add(s.mul(v[0], v[5]), s.mul(v[1], v[4]));
                                   }
                                   return s.add(s.mul(real, v[2]), s.mul(imaginary, v[3]));
                                 }),
                      {rows_, left_, 2, radix * done});
  }

  Emitter& e_;
  Transform t_;
  std::vector<int64_t> radices_;
  int64_t rows_ = 1;
  int64_t left_;  ///< length of each remaining subsequence
};

/// Multiplies x by constants c[0..n): rows x 2 x n, where each part is a sum of x's parts times a table. x: rows x n x
/// parts, or rows x parts x n (`planar`).
Tensor timesConstants(Emitter& e, const Tensor& x, bool planar, const std::vector<std::complex<double>>& c,
                      int64_t to_parts = 2) {
  const auto n = static_cast<int64_t>(c.size());
  const int64_t at = planar ? 1 : 2, parts = x.shape[at];
  std::vector<Tensor> operands;
  for (int64_t part = 0; part < parts; ++part) {
    operands.push_back(e.reshape(e.take(x, at, part), {x.shape[0], 1, n}));
    std::vector<double> table;
    for (int64_t to = 0; to < to_parts; ++to) {
      for (const std::complex<double>& value : c) table.push_back(partOfProduct(value, part, to));
    }
    operands.push_back(Emitter::wrap(realConstant(x.dtype, {to_parts, n}, table)));
  }
  return e.elementwise(x.dtype, operands, [](const Scalars& s, ValueRange v) {
    mlir::Value sum = s.mul(v[0], v[1]);
    return v.size() == 2 ? sum : s.add(sum, s.mul(v[2], v[3]));
  });
}

/// With w = exp(-pi i / N) forward: X[k] = w^(k^2) * sum over n of (x[n] w^(n^2)) conj(w)^((k - n)^2).
Tensor chirpTransform(Emitter& e, const Tensor& x, const Transform& t, const FourierPlan& plan) {
  auto chirp = [&](int64_t n) { return rootOf(t, n * n, 2 * t.length); };
  std::vector<std::complex<double>> before(t.given), after(t.bins), filter(plan.convolved);
  for (int64_t n = 0; n < t.given; ++n) before[n] = chirp(n);
  for (int64_t k = 0; k < t.bins; ++k) after[k] = chirp(k) * scaleOf(t);
  for (int64_t k = 0; k < t.bins; ++k) filter[k] = std::conj(chirp(k));
  for (int64_t n = 1; n < t.given; ++n) filter[plan.convolved - n] = std::conj(chirp(n));
  const Transform there = {.length = plan.convolved, .given = t.given, .bins = plan.convolved};
  const Transform back = {.length = plan.convolved, .given = plan.convolved, .bins = t.bins, .inverse = true};
  Tensor y = timesConstants(e, x, false, before);
  y = Stages(e, there, plan.radices).run(y, true);
  y = timesConstants(e, y, true, exactTransform(filter, plan.radices));
  y = Stages(e, back, plan.radices).run(y, true);
  return timesConstants(e, y, true, after, t.bin_parts);
}

}  // namespace

Tensor fourierTransform(Emitter& e, const Tensor& x, const Transform& t) {
  const FourierPlan plan = planTransform(t);
  const int64_t rows = x.shape[0];
  if (plan.method == FourierPlan::Method::kDense) {
    const Tensor matrix = Emitter::wrap(denseMatrix(t, x.dtype));
    const Tensor y = product(e, e.reshape(x, {rows, t.given * t.parts}), matrix, false, false);
    return e.reshape(y, {rows, t.bins, t.bin_parts});
  }
  const Tensor planar = plan.method == FourierPlan::Method::kStages ? Stages(e, t, plan.radices).run(x, false)
                                                                    : chirpTransform(e, x, t, plan);
  return e.transpose(planar, {0, 2, 1});
}

int64_t largestRow(const Transform& t) { return 2 * std::max(planTransform(t).convolved, t.length); }

Tensor weightedOneSide(Emitter& e, const Tensor& x, int64_t length) {
  const int64_t bins = x.shape[x.rank() - 2];
  std::vector<double> weights(bins, 2);
  weights[0] = 1;
  if (2 * (bins - 1) == length) weights.back() = 1;
  const Tensor weight = Emitter::wrap(realConstant(x.dtype, {bins, 1}, weights));
  return e.elementwise(x.dtype, {x, weight}, [](const Scalars& s, ValueRange v) { return s.mul(v[0], v[1]); });
}

}  // namespace tessera::compiler
