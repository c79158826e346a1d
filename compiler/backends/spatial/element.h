#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/target.pb.h"

/// Elements as stored in memory, and as numbers: doubles for floating-point types, 64 bits for integers.
namespace tessera::compiler::simulator {

/// The nearest number of a floating-point type, ties to even; infinity beyond its largest number.
double rounded(double value, v1::DataType type);
/// Half of the distance from 1 to the next number of a floating-point type.
double unitRoundoff(v1::DataType type);

/// `value` converted to an integer type by the overflow rule (unspecified: wraps); unchanged for floating-point types.
int64_t held(int64_t value, v1::DataType type, v1::Intrinsic::Arithmetic::Overflow overflow);
/// The smallest and the largest number of an integer type (unsigned 64-bit: limited to int64_t).
int64_t least(v1::DataType type);
int64_t largest(v1::DataType type);

/// Consecutive elements. Numbers must already be rounded or wrapped to the type.
void decode(v1::DataType type, const uint8_t* from, size_t count, double* numbers);
void decode(v1::DataType type, const uint8_t* from, size_t count, int64_t* numbers);
void encode(v1::DataType type, const double* numbers, size_t count, uint8_t* to);
void encode(v1::DataType type, const int64_t* numbers, size_t count, uint8_t* to);

}  // namespace tessera::compiler::simulator
