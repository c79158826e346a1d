#include "compiler/graph/winograd/winograd_algorithm.h"

#include <cmath>

namespace tessera::compiler {
namespace {

/// Returns the matrices for m + 1 finite points and infinity: evaluation of the polynomials of filter and results at
/// the points, and interpolation, transposed (Blahut, "Fast Algorithms for Signal Processing", chapter 5).
WinogradAlgorithm atPoints(const char* name, llvm::ArrayRef<double> points, double input_cycles, double output_cycles) {
  WinogradAlgorithm algorithm;
  algorithm.name = name;
  algorithm.results = static_cast<int64_t>(points.size()) - 1;
  algorithm.input_cycles = input_cycles;
  algorithm.output_cycles = output_cycles;
  const size_t finite = points.size(), side = finite + 1;
  for (size_t j = 0; j < side; ++j) {
    // Row j of B^T: the coefficients of the product of x - p over the other finite points.
    std::vector<double> product = {1};
    double norm = 1;
    for (size_t other = 0; other < finite; ++other) {
      if (other == j) continue;
      product.insert(product.begin(), 0);
      for (size_t d = 0; d + 1 < product.size(); ++d) product[d] -= points[other] * product[d + 1];
      if (j < finite) norm *= points[j] - points[other];
    }
    product.resize(side, 0);
    for (double coefficient : product) algorithm.input.push_back(static_cast<float>(coefficient));
    for (int power = 0; power < 3; ++power) {
      const double value = j < finite ? std::pow(points[j], power) / norm : (power == 2 ? 1 : 0);
      algorithm.filter.push_back(static_cast<float>(value));
    }
  }
  for (int64_t power = 0; power < algorithm.results; ++power) {
    for (double point : points) algorithm.output.push_back(static_cast<float>(std::pow(point, power)));
    algorithm.output.push_back(power + 1 == algorithm.results ? 1 : 0);
  }
  return algorithm;
}

}  // namespace

llvm::ArrayRef<WinogradAlgorithm> winogradAlgorithms() {
  static const std::vector<WinogradAlgorithm> algorithms = {
      atPoints("winograd-2x2", {0, 1, -1}, 32, 22),
      atPoints("winograd-4x4", {0, 0.625, -0.625, 1.5, -1.5}, 130, 90),
  };
  return algorithms;
}

}  // namespace tessera::compiler
