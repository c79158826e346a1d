#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace tessera::compiler {

/// A discrete Fourier transform: the samples given and the results needed.
struct Transform {
  int64_t length = 1;     ///< number of points, N
  int64_t given = 1;      ///< samples of the input, at most N; the others are zero
  int64_t parts = 2;      ///< of a sample: 1 (real) or 2 (complex)
  int64_t bins = 1;       ///< number of leading results needed
  int64_t bin_parts = 2;  ///< of a result: 1 (its real part alone) or 2
  bool inverse = false;   ///< conjugate roots of unity, and 1 / N
};

/// How a transform is computed.
/// - Dense: one product with the matrix of all roots of unity.
/// - Stages: N = radices[0] * radices[1] * ...; each stage is a product with the small matrix of its radix (Cooley and
///   Tukey 1965, in the self-sorting order of Stockham).
/// - Chirp: a convolution with a chirp (Bluestein 1970), for lengths with a large prime factor. The convolution is
///   cyclic in `convolved` >= given + bins - 1 points, whose radices are given.
struct FourierPlan {
  enum class Method { kDense, kStages, kChirp };
  Method method = Method::kDense;
  std::vector<int64_t> radices = {};
  int64_t convolved = 0;
};

/// Returns the plan with the lowest estimated cost. Always finds one.
FourierPlan planTransform(const Transform& t);

/// Returns exp(2 pi i turn / full). The turn is reduced modulo `full` first, so that the angle is small and exact.
std::complex<double> rootOfUnity(int64_t turn, int64_t full);

/// Returns the forward transform of `x`, whose length is the product of `radices`, in double precision.
std::vector<std::complex<double>> exactTransform(const std::vector<std::complex<double>>& x,
                                                 const std::vector<int64_t>& radices);

}  // namespace tessera::compiler
