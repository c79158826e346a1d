#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/v1/target.pb.h"

/// What units of a chip perform without a described instruction, and how fast (v1::ComputeUnit::Rate).
namespace tessera::compiler {

/// Kind of an operation of a loop body: "elementwise" (one pass of an ALU), "transcendental", or "gather" (a load from
/// a computed address). Empty for an unknown name. Names are those of MLIR's dialects arith and math without the
/// dialect, and "load"; a predicate after a point is ignored ("cmpf.olt").
std::string_view kindOf(std::string_view operation);

/// Whether a rate may have this name: an operation that kindOf() knows, or a kind. The kinds are those of kindOf(), and
/// "reduction" (an operation that accumulates over a reduction loop), "copy" and "transpose" (elements that are moved
/// in the same order, or in another one).
bool isRateName(std::string_view name);
/// The kinds, for messages: "elementwise, transcendental, ...".
std::string rateKinds();

/// The unit's rate for an operation or a kind, on elements of a type; null if it states none, so that it cannot perform
/// the operation. Precedence: the operation's name before its kind, then the type before every type.
const v1::ComputeUnit::Rate* rateOf(const v1::ComputeUnit& unit, std::string_view operation, v1::DataType dtype);

/// Units with rates, in the order of elementwise f32 operations per cycle of all their instances, fastest first.
std::vector<const v1::ComputeUnit*> vectorUnitsOf(const v1::Target& target);

}  // namespace tessera::compiler
