#pragma once

#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// A field in which two descriptions differ. List entries with names are matched by name, so that an added level is one
/// difference: "memory[L3].capacity_bytes".
struct TargetDifference {
  std::string field;
  std::string left, right;  ///< as text protos print them; empty: absent
};

/// All fields that differ, sorted. Compares the completed chips, including instructions of their sets and cost
/// parameters of their families.
std::vector<TargetDifference> differencesOf(const v1::Target& left, const v1::Target& right);

/// One of the chip's cost parameters (v1::CostParameters).
struct CostParameterText {
  std::string field, value;  ///< "overheads.phase_cycles", "2700"
  bool own = false;          ///< set by the description, not by the family
};

/// All of them, sorted.
std::vector<CostParameterText> costParametersOf(const v1::Target& target);

}  // namespace tessera::compiler
