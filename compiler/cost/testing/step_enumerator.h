#pragma once

#include <vector>

#include "compiler/cost/bound_tree.h"

/// The oracle of the analysis of dataflows: executes a tree step by step with a set of elements in every buffer. It
/// shares the bound tree with the analysis and no formula.
namespace tessera::compiler::cost {

struct EnumeratedTraffic {
  double read = 0, fill = 0, update = 0, drain = 0;
  bool operator==(const EnumeratedTraffic&) const = default;
};

/// [level][tensor]. Time grows with the number of steps times the elements of a slice: small problems only.
std::vector<std::vector<EnumeratedTraffic>> enumerateSteps(const BoundTree& tree, size_t levels);

}  // namespace tessera::compiler::cost
