#include "compiler/intrinsic/standard_operators.h"

namespace tessera::compiler::intrinsic {

const std::vector<StandardOperator>& standardOperators() {
  // clang-format off
  static const std::vector<StandardOperator> operators = {
      {"GMV", "matrix by vector", "O[i] += A[i, k] * B[k]", {1024, 1024}, 1},
      {"GMM", "matrix by matrix", "O[i, j] += A[i, k] * B[k, j]", {1024, 1024, 1024}, 1},
      {"C1D", "convolution, one dimension", "O[n, k, p] += I[n, c, p + r] * W[k, c, r]", {16, 64, 128, 64, 3}, 6},
      {"C2D", "convolution", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {16, 64, 56, 56, 64, 3, 3}, 35},
      {"C3D", "convolution, three dimensions",
       "O[n, k, d, p, q] += I[n, c, d + t, p + r, q + s] * W[k, c, t, r, s]", {16, 64, 8, 28, 28, 64, 3, 3, 3}, 180},
      // Gathers from an image with zeros between its elements; the window is walked backwards.
      {"T2D", "transposed convolution", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[c, k, 3 - r, 3 - s]",
       {16, 64, 56, 56, 64, 4, 4}, 7},
      {"GRP", "grouped convolution", "O[n, g, k, p, q] += I[n, g, c, p + r, q + s] * W[g, k, c, r, s]",
       {16, 4, 16, 56, 56, 16, 3, 3}, 35},
      {"DIL", "dilated convolution", "O[n, k, p, q] += I[n, c, p + 2 * r, q + 2 * s] * W[k, c, r, s]",
       {16, 64, 56, 56, 64, 3, 3}, 35},
      {"DEP", "depthwise convolution", "O[n, c, m, p, q] += I[n, c, p + r, q + s] * W[c, m, r, s]",
       {16, 64, 2, 56, 56, 3, 3}, 11},
      {"CAP", "capsule convolution", "O[n, k, p, q, v] += I[n, c, p + r, q + s] * W[k, c, r, s, v]",
       {16, 32, 28, 28, 8, 32, 3, 3}, 105},
      {"BCV", "convolution, weights for each image", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[n, k, c, r, s]",
       {16, 64, 56, 56, 64, 3, 3}, 11},
      {"GFC", "grouped fully connected layer", "O[n, g, k] += I[n, g, c] * W[g, k, c]", {16, 8, 128, 128}, 1},
      {"MEN", "means of rows: a matrix by a constant vector", "O[i] += A[i, k] * B[k]", {64, 1024}, 1},
      {"VAR", "variances of rows: squared deviations by a constant vector", "O[i] += D[i, k] * B[k]", {64, 1024}, 1},
      {"SCN", "scans of rows: a matrix by a triangle of ones", "O[i, j] += A[i, k] * L[k, j]", {1024, 512, 512}, 1},
  };
  // clang-format on
  return operators;
}

const StandardOperator* findStandardOperator(const std::string& name) {
  for (const StandardOperator& standard : standardOperators()) {
    if (standard.name == name) return &standard;
  }
  return nullptr;
}

Nest nestOf(const StandardOperator& standard) {
  // value() aborts on a broken definition: standard_operators_test parses all of them.
  return loopnest::parse(standard.name, standard.definition, standard.extents).value();
}

size_t thesisCountOfC3D(const std::string& instruction) {
  return instruction == "axpy" ? 15 : instruction == "gemv" ? 7 : instruction == "conv" ? 31 : 0;
}

}  // namespace tessera::compiler::intrinsic
