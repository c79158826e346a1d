#pragma once

#include <cstdint>
#include <vector>

#include "tessera/v1/target.pb.h"

/// Elements as memories hold them, and as numbers: doubles of floating-point types, 64 bits of integers.
namespace tessera::compiler::simulator {

/// The nearest number of a floating-point type, ties to even; infinite beyond its largest.
double rounded(double value, v1::DataType type);
/// Half of the distance from 1 to the next number of a floating-point type.
double unitRoundoff(v1::DataType type);

/// `value` in an integer type by the rule; in f32 and other floating-point types as it is. Unspecified: wrapped around.
int64_t held(int64_t value, v1::DataType type, v1::Intrinsic::Arithmetic::Overflow overflow);
/// The least and the largest number of an integer type (of 64 bits unsigned: as far as int64_t goes).
int64_t least(v1::DataType type);
int64_t largest(v1::DataType type);

/// Elements one behind the other. Numbers are in the type already: rounded, held.
void decode(v1::DataType type, const uint8_t* from, size_t count, double* numbers);
void decode(v1::DataType type, const uint8_t* from, size_t count, int64_t* numbers);
void encode(v1::DataType type, const double* numbers, size_t count, uint8_t* to);
void encode(v1::DataType type, const int64_t* numbers, size_t count, uint8_t* to);

}  // namespace tessera::compiler::simulator
