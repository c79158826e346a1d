#pragma once

#include <string>
#include <vector>

#include "tessera/v1/target.pb.h"

namespace tessera::compiler {

/// A field in which two descriptions differ. Entries of lists are compared by their name where they have one, so that
/// an added level is one difference: "memory[L3].capacity_bytes".
struct TargetDifference {
  std::string field;
  std::string left, right;  ///< as text protos have them; empty: not there
};

/// All fields that differ, sorted. Instructions count as the chip has them, those of its instruction sets included.
std::vector<TargetDifference> differencesOf(const v1::Target& left, const v1::Target& right);

}  // namespace tessera::compiler
