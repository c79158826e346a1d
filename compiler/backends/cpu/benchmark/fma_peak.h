#pragma once

#include <immintrin.h>

/// Independent multiply-adds in registers: the peak rate of one core. Returns the number of floating-point operations
/// done.
__attribute__((target("avx512f"))) inline double fma512(long iterations) {
  __m512 sum[20];
  for (auto& s : sum) s = _mm512_set1_ps(1.0F);
  const __m512 a = _mm512_set1_ps(0.999999F), b = _mm512_set1_ps(1e-7F);
  for (long i = 0; i < iterations; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < 20; ++j) sum[j] = _mm512_fmadd_ps(sum[j], a, b);
  __m512 total = sum[0];
  for (int j = 1; j < 20; ++j) total = _mm512_add_ps(total, sum[j]);
  volatile float keep = _mm512_reduce_add_ps(total);
  (void)keep;
  return 20.0 * 32 * static_cast<double>(iterations);
}
