#include "compiler/backends/opencl/reduction.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "compiler/target/element_text.h"

namespace tessera::compiler::opencl {
namespace {

using simulator::SpatialNest;
using simulator::SpatialOperation;

std::string wholeLiteral(v1::DataType type, uint64_t value) {
  std::string bytes(sizeof value, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return literalCode(type, bytes);
}

/// The identity of an operation that is associative and commutative, as a literal; "" for other operations. Sums of
/// floating point count as associative: a tree has smaller errors than a sum in order.
std::string identityOf(std::string_view name, v1::DataType type) {
  if (isFloatingPoint(type)) {
    const bool is_double = type == v1::DATA_TYPE_F64;
    if (name == "addf") return is_double ? "-0.0" : "-0.0f";  // 0 + -0 is not -0
    if (name == "mulf") return is_double ? "1.0" : "1.0f";
    if (name == "maximumf" || name == "maxnumf") return "-INFINITY";
    if (name == "minimumf" || name == "minnumf") return "INFINITY";
    return "";
  }
  const uint64_t sign = uint64_t{1} << (simulator::widthOf(type) - 1);
  if (name == "ori" || name == "xori" || name == "maxui") return wholeLiteral(type, 0);
  if (name == "andi" || name == "minui") return wholeLiteral(type, ~uint64_t{0});
  if (type == v1::DATA_TYPE_BOOL) return "";
  if (name == "addi") return wholeLiteral(type, 0);
  if (name == "muli") return wholeLiteral(type, 1);
  if (name == "maxsi") return wholeLiteral(type, sign);
  if (name == "minsi") return wholeLiteral(type, sign - 1);
  return "";
}

}  // namespace

std::optional<Reduction> reductionOf(const SpatialNest& nest) {
  if (nest.outputs != 1 || !keepsOutputs(nest)) return std::nullopt;
  const auto accesses = static_cast<int>(nest.accesses.size());
  const auto isOld = [&](int value) {
    return value < accesses && (value == 0 || isOwnElement(nest, static_cast<size_t>(value), 0));
  };
  const auto operationAt = [&](int value) {
    return value < accesses ? nullptr : &nest.body[static_cast<size_t>(value - accesses)];
  };
  // Sums of a narrow type may be computed in a wider one and rounded at each point.
  int combined = nest.yields[0];
  const SpatialOperation* last = operationAt(combined);
  const bool rounds = last != nullptr && last->name == "truncf";
  if (rounds) {
    combined = last->operands[0];
    last = operationAt(combined);
  }
  if (last == nullptr || last->operands.size() != 2 || (rounds && last->dtype != v1::DATA_TYPE_F32))
    return std::nullopt;
  Reduction reduction{.nest = nest,
                      .operation = last->name,
                      .type = last->dtype,
                      .rounds = rounds,
                      .identity = identityOf(last->name, last->dtype),
                      .summed = {}};
  if (reduction.identity.empty()) return std::nullopt;
  const auto isOldOperand = [&](int value) {
    if (!rounds) return isOld(value);
    const SpatialOperation* widening = operationAt(value);
    return widening != nullptr && widening->name == "extf" && isOld(widening->operands[0]);
  };
  const bool first = isOldOperand(last->operands[0]), second = isOldOperand(last->operands[1]);
  if (first == second) return std::nullopt;
  const int old = last->operands[first ? 0 : 1];
  // The old value and the combined one have no other use.
  for (size_t b = 0; b < nest.body.size(); ++b) {
    const int value = accesses + static_cast<int>(b);
    for (const int operand : nest.body[b].operands) {
      const bool expected = value == combined ? operand == old || !isOld(operand) : rounds && value == old;
      if (isOld(operand) && !expected) return std::nullopt;
      if (rounds && operand == old && value != combined) return std::nullopt;
      if (operand == combined && !(rounds && value == nest.yields[0])) return std::nullopt;
    }
  }
  const std::vector<bool> parallel = simulator::parallelLoopsOf(nest);
  for (size_t l = 0; l < nest.loops.size(); ++l)
    if (!parallel[l] && nest.loops[l].extent > 1) reduction.summed.push_back(static_cast<int>(l));
  reduction.points = pointsOf(nest, reduction.summed);
  reduction.nest.accesses[0].dtype = reduction.type;
  reduction.nest.body[static_cast<size_t>(combined - accesses)].operands[first ? 0 : 1] = 0;
  reduction.nest.yields[0] = combined;
  return reduction;
}

int nearestLoopOf(const Reduction& reduction) {
  const SpatialNest& nest = reduction.nest;
  int nearest = -1;
  double most = 0;
  for (size_t a = 1; a < nest.accesses.size(); ++a) {
    double elements = 1;
    int loop = -1;
    int64_t least = 0;
    for (size_t l = 0; l < nest.loops.size(); ++l) {
      const int64_t stride = std::abs(nest.accesses[a].position.coefficientOf(static_cast<int>(l)));
      if (stride == 0 || nest.loops[l].extent == 1) continue;
      elements *= static_cast<double>(nest.loops[l].extent);
      if (loop >= 0 && stride >= least) continue;
      loop = static_cast<int>(l);
      least = stride;
    }
    if (loop < 0 || elements <= most) continue;
    most = elements;
    nearest = loop;
  }
  return nearest;
}

}  // namespace tessera::compiler::opencl
