#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/v1/tensor.pb.h"

/// The scalar operations of bodies (v1::SpatialKernel.Operation): names and types.
namespace tessera::compiler::simulator {

/// Number of bits of an integer type in arithmetic; bool has one.
int widthOf(v1::DataType type);

/// Types agree if they are equal, or integers of one width: MLIR's integers have no sign.
bool sameInArithmetic(v1::DataType left, v1::DataType right);

/// Types of an operation's operands and result.
enum class Signature : uint8_t {
  kReal,         ///< floating-point operands of the result's type
  kWhole,        ///< integer operands of the result's type
  kCompareReal,  ///< two floating-point operands of one type; a bool
  kCompareWhole,
  kSelect,        ///< a bool and two values of the result's type
  kRealToReal,    ///< conversions by kinds
  kWholeToWhole,  ///< any widths
  kWiden,         ///< to more bits, or as many
  kNarrow,        ///< to fewer bits, or as many
  kWholeToReal,
  kRealToWhole,
  kBits,  ///< a reinterpretation: as many bits
  kConstant,
  kIndex,
  kLoad,
};

/// How a unit's rates name the work (v1::ComputeUnit.Rate); kNone takes no time.
enum class Work : uint8_t { kNone, kElementwise, kTranscendental, kGather };

struct ScalarOperation {
  std::string_view name;  ///< of a comparison: without its predicate
  int operands = 0;
  Signature signature = Signature::kReal;
  Work work = Work::kElementwise;
};

/// The operation of that name ("cmpf.olt" finds cmpf), or null. A comparison has a known predicate.
const ScalarOperation* scalarOperation(std::string_view name);

/// The number of a comparison's predicate in MLIR's order, -1 without one. cmpf: false, oeq, ogt, oge, olt, ole, one,
/// ord, ueq, ugt, uge, ult, ule, une, uno, true. cmpi: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge.
int predicateOf(std::string_view name);

}  // namespace tessera::compiler::simulator
