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

/// All fields that differ, sorted. What a chip has counts, not what its description says: instructions of its sets,
/// prices of its family.
std::vector<TargetDifference> differencesOf(const v1::Target& left, const v1::Target& right);

/// One of v1::Prices as a chip has it.
struct PriceText {
  std::string field, value;  ///< "steps.phase_cycles", "2700"
  bool own = false;          ///< the description says it, not the family
};

/// All of them, sorted.
std::vector<PriceText> pricesOf(const v1::Target& target);

}  // namespace tessera::compiler
