#pragma once

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/backends/hls/program.h"
#include "compiler/target/element_text.h"

/// Operators that designs are tested with: those of the thesis's table 4.2, pooling, elementwise and softmax.
namespace tessera::compiler::hls::testing {

struct Case {
  std::string name, text;
  std::vector<int64_t> extents;
  v1::DataType type = v1::DATA_TYPE_F32;
};

inline absl::StatusOr<v1::SpatialKernel> kernelOfCase(const Case& each) {
  absl::StatusOr<loopnest::Nest> nest = loopnest::parse(each.name, each.text, each.extents);
  if (!nest.ok()) return nest.status();
  const v1::DataType result = isFloatingPoint(each.type) ? each.type : v1::DATA_TYPE_I32;
  for (loopnest::Access& access : nest->accesses) access.dtype = each.type;
  for (const loopnest::Statement& statement : nest->statements) {
    const std::string& written = nest->accesses[static_cast<size_t>(statement.output)].name;
    for (loopnest::Access& access : nest->accesses)
      if (access.name == written) access.dtype = result;
  }
  return kernelOf(*nest);
}

/// Every operator with small random extents, some of them 1 and primes, in f32 and int8.
inline std::vector<Case> cases(std::mt19937& random) {
  struct Operator {
    const char *name = nullptr, *text = nullptr;
    size_t loops = 0;
    bool real_only = false;
  };
  static const Operator operators[] = {
      {"gmv", "O[i] += A[i, k] * B[k]", 2},
      {"gmm", "O[i, j] += A[i, k] * B[k, j]", 3},
      {"bil", "O[i, j] += A[i, k] * B[j, k, l] * C[i, l]", 4},
      {"c1d", "O[n, k, p] += I[n, c, 2 * p + r] * W[k, c, r]", 5},
      {"t1d", "O[n, k, p] += I[n, c, p + r] * W[c, k, 6 - r]", 5},
      {"c2d", "O[n, k, p, q] += I[n, c, 2 * p + r, 2 * q + s] * W[k, c, r, s]", 7},
      {"t2d", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[c, k, 6 - r, 6 - s]", 7},
      {"c3d", "O[n, k, d, p, q] += I[n, c, d + t, p + r, q + s] * W[k, c, t, r, s]", 9},
      {"t3d", "O[n, k, d, p, q] += I[n, c, d + t, p + r, q + s] * W[c, k, 6 - t, 6 - r, 6 - s]", 9},
      {"grp", "O[n, g, k, p, q] += I[n, g, c, p + r, q + s] * W[g, k, c, r, s]", 8},
      {"dep", "O[n, c, m, p, q] += I[n, c, p + r, q + s] * W[c, m, r, s]", 7},
      {"dil", "O[n, k, p, q] += I[n, c, p + 2 * r, q + 3 * s] * W[k, c, r, s]", 7},
      {"largest", "O[n, c, p, q] = max(I[n, c, 2 * p + r, 2 * q + s])", 6},
      {"mean", "O[n, c, p, q] += I[n, c, p + r, q + s]", 6},
      {"relu", "O[i, j] = max(A[i, j] + B[j], 0)", 2},
      {"shuffle", "O[n, g, k] = A[(n * 3 + g) / 2, k % 2 + 1]", 3},
      {"softmax", "M[i] = max(A[i, j]); E[i, j] = exp(A[i, j] - M[i]); S[i] += E[i, j]; O[i, j] = E[i, j] / S[i]", 2,
       true},
  };
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7};
  std::vector<Case> all;
  for (const Operator& each : operators) {
    for (const v1::DataType type : {v1::DATA_TYPE_F32, v1::DATA_TYPE_I8}) {
      if (each.real_only && type == v1::DATA_TYPE_I8) continue;
      for (int turn = 0; turn < 3; ++turn) {
        Case made{absl::StrCat(each.name, "_", elementText(type), "_", turn), each.text, {}, type};
        const size_t many = each.loops > 4 ? 5 : 6;
        for (size_t l = 0; l < each.loops; ++l)
          made.extents.push_back(sizes[random() % many] * (each.loops < 4 ? 3 : 1));
        all.push_back(std::move(made));
      }
    }
  }
  return all;
}

}  // namespace tessera::compiler::hls::testing
