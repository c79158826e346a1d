#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/v1/tensor.pb.h"

/// Elements in OpenCL C. Values are kept as in the simulator's evaluator: f16 and bf16 as float, rounded after each
/// operation; integers as signed integers of their width, whatever their sign; a bool as an int that is 0 or 1.
namespace tessera::compiler::opencl {

/// The type of a value: "float", "double", "char", "short", "int" or "long".
const char* valueType(v1::DataType type);
/// Bytes of a value.
int64_t valueBytes(v1::DataType type);
/// The unsigned type of the same width as an integer value; "uint" for a bool.
const char* unsignedValueType(v1::DataType type);
/// The type of the elements of a buffer: "float", "half", "ushort" for bf16, "uchar" for bool.
const char* storedType(v1::DataType type);

/// An expression for the value of element `position` of the buffer that `pointer` names.
std::string loadCode(v1::DataType type, const std::string& pointer, const std::string& position);
/// A statement that stores `value`.
std::string storeCode(v1::DataType type, const std::string& pointer, const std::string& position,
                      const std::string& value);

/// `value`, a float that an operation computed, rounded to the type in which it is kept. No effect on f32 and others.
std::string roundedCode(v1::DataType type, const std::string& value);

/// A literal for one little-endian element.
std::string literalCode(v1::DataType type, std::string_view bytes);

}  // namespace tessera::compiler::opencl
