#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/spatial/spatial_nest.h"

/// Types, numbers and operations of nests in C++17.
namespace tessera::compiler::hls {

/// "float", "int8_t", "half_t". UNIMPLEMENTED for types that designs do not have.
absl::StatusOr<std::string> cppType(v1::DataType type);

/// One element as a literal of its C++ type; `bytes` are little-endian.
absl::StatusOr<std::string> cppLiteral(const std::string& bytes, v1::DataType type);

/// Operation `number` of a nest's body as an expression of the texts of its operands; loads and indices are the
/// caller's. UNIMPLEMENTED naming the operation.
absl::StatusOr<std::string> cppExpression(const simulator::SpatialNest& nest, size_t number,
                                          const std::vector<std::string>& operands);

/// The value with which op(value, x) = x, as a literal. `operation` is one of a Combination.
absl::StatusOr<std::string> neutralLiteral(const std::string& operation, v1::DataType type);

/// A subscript as an expression, with names[l] for loop l.
std::string cppSubscript(const loopnest::Subscript& subscript, const std::vector<std::string>& names);

/// A name for each loop of a nest that is an identifier, and no keyword once a suffix such as "_i" follows.
std::vector<std::string> cppLoopNames(const simulator::SpatialNest& nest);

/// "3 * k + 7"; terms with coefficient 0 are left out.
std::string cppSum(const std::vector<int64_t>& coefficients, const std::vector<std::string>& names, int64_t constant);

/// Functions that expressions call; part of every source file.
const char* cppPrelude();

}  // namespace tessera::compiler::hls
