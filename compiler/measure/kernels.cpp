#include "compiler/measure/kernels.h"

#include "compiler/target/cpu_features.h"

#if defined(__x86_64__)
#define VECTOR_REGISTER "v"
#define ADD_TWICE "add %1, %0\n\tadd %1, %0"
#define ADD_TO_FOUR "add %4, %0\n\tadd %4, %1\n\tadd %4, %2\n\tadd %4, %3"
#else
#define VECTOR_REGISTER "w"
#define ADD_TWICE "add %0, %0, %1\n\tadd %0, %0, %1"
#define ADD_TO_FOUR "add %0, %0, %4\n\tadd %1, %1, %4\n\tadd %2, %2, %4\n\tadd %3, %3, %4"
#endif

namespace tessera::compiler {
namespace {

#if defined(__x86_64__)

#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
namespace wide {
constexpr int kLanes = 16;
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define SECOND_HALVES(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include "compiler/measure/kernels.inc"
#undef FIRST_HALVES
#undef SECOND_HALVES
}  // namespace wide
#pragma clang attribute pop

#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
namespace narrow {
constexpr int kLanes = 8;
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define SECOND_HALVES(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "compiler/measure/kernels.inc"
}  // namespace narrow
#pragma clang attribute pop

#else

namespace narrow {
constexpr int kLanes = 4;
#define FIRST_HALVES(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define SECOND_HALVES(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#include "compiler/measure/kernels.inc"
}  // namespace narrow

#endif

}  // namespace

const Kernels* kernelsFor(int vector_bits) {
#if defined(__x86_64__)
  const auto has = [](const char* feature) { return hostFeature(feature) == FeatureState::kPresent; };
  if (vector_bits >= 512 && has("avx512f")) return &wide::kKernels;
  return vector_bits >= 256 && has("avx2") && has("fma") ? &narrow::kKernels : nullptr;
#else
  return vector_bits >= 128 ? &narrow::kKernels : nullptr;
#endif
}

}  // namespace tessera::compiler
