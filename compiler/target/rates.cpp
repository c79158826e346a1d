#include "compiler/target/rates.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "compiler/target/hierarchy.h"

namespace tessera::compiler {
namespace {

constexpr std::string_view kElementwise = "elementwise", kTranscendental = "transcendental", kGather = "gather";
constexpr std::string_view kKinds[] = {kElementwise, kTranscendental, "reduction", "copy", "transpose", kGather};

constexpr std::string_view kElementwiseOperations[] = {
    // arith
    "addf", "subf", "mulf", "divf", "remf", "negf", "maximumf", "minimumf", "maxnumf", "minnumf", "cmpf", "select",
    "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi", "andi", "ori",
    "xori", "shli", "shrsi", "shrui", "maxsi", "minsi", "maxui", "minui", "cmpi", "extf", "truncf", "extsi", "extui",
    "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast", "index_cast", "index_castui",
    // math
    "absf", "absi", "ceil", "floor", "round", "roundeven", "trunc", "copysign", "fma", "clampf", "ctlz", "cttz",
    "ctpop", "isnan", "isinf", "isfinite", "isnormal"};

// Functions of math that take a polynomial, a table or an iteration.
constexpr std::string_view kTranscendentalOperations[] = {"exp",  "exp2",  "expm1", "log",   "log2",  "log10", "log1p",
                                                          "sqrt", "rsqrt", "cbrt",  "powf",  "fpowi", "ipowi", "sin",
                                                          "cos",  "tan",   "asin",  "acos",  "atan",  "atan2", "sinh",
                                                          "cosh", "tanh",  "asinh", "acosh", "atanh", "erf",   "erfc"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string_view withoutPredicate(std::string_view operation) { return operation.substr(0, operation.find('.')); }

}  // namespace

std::string_view kindOf(std::string_view operation) {
  operation = withoutPredicate(operation);
  if (contains(kElementwiseOperations, operation)) return kElementwise;
  if (contains(kTranscendentalOperations, operation)) return kTranscendental;
  return operation == "load" ? kGather : std::string_view();
}

bool isRateName(std::string_view name) {
  return contains(kKinds, name) || (!kindOf(name).empty() && withoutPredicate(name) == name);
}

std::string rateKinds() {
  return absl::StrJoin(kKinds, ", ", [](std::string* out, std::string_view kind) { *out += kind; });
}

const v1::ComputeUnit::Rate* rateOf(const v1::ComputeUnit& unit, std::string_view operation, v1::DataType dtype) {
  operation = withoutPredicate(operation);
  // The most specific rate wins: of the operation before that of its kind, of the data type before that of all types.
  for (const std::string_view name : {operation, kindOf(operation)}) {
    if (name.empty()) continue;
    for (const v1::DataType type : {dtype, v1::DATA_TYPE_UNSPECIFIED}) {
      for (const v1::ComputeUnit::Rate& rate : unit.rates()) {
        if (rate.operation() == name && rate.dtype() == type) return &rate;
      }
    }
  }
  return nullptr;
}

std::vector<const v1::ComputeUnit*> vectorUnitsOf(const v1::Target& target) {
  const Hierarchy chip(target);
  std::vector<const v1::ComputeUnit*> units;
  for (const v1::ComputeUnit& unit : target.units()) {
    if (!unit.rates().empty()) units.push_back(&unit);
  }
  const auto order = [&](const v1::ComputeUnit* unit) {
    const v1::ComputeUnit::Rate* rate = rateOf(*unit, kElementwise, v1::DATA_TYPE_F32);
    const int position = chip.unitNamed(unit->name());
    const auto instances = static_cast<double>(chip.units()[static_cast<size_t>(position)].instances);
    return std::pair(rate ? -rate->elements_per_cycle() * instances : 0, position);
  };
  std::ranges::sort(units, std::ranges::less(), order);
  return units;
}

}  // namespace tessera::compiler
