#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler::intrinsic {

/// An operator of a model, and how a target's instructions can compute it.
struct CoveredOperator {
  int node = 0;             ///< GraphView.Node.id
  std::string name, op;     ///< as in the model
  std::string nest;         ///< the first nest that maps; if none does, the last one without an obstacle
  size_t mappings = 0;      ///< of the nest to `instruction`; 0: none
  std::string instruction;  ///< the first instruction to which it maps
  std::string obstacle;     ///< the reason why it does not map
};

struct Coverage {
  std::vector<CoveredOperator> operators;  ///< nodes with loops, in the model's order
  size_t nodes = 0;                        ///< of the model
  size_t nests = 0, mapped_nests = 0;      ///< of all nodes: a recurrence is one node with several nests
  size_t mapped() const;
};

/// Coverage of the nodes in `explanation.before`, by the loop nests they became. A node is mapped if one of its nests
/// is, with the sources in any order; element types are ignored (the thesis's networks use halves; a float model would
/// be converted).
Coverage coverageOf(const v1::Explanation& explanation, const v1::Target& target);

/// Table 5.1 of the thesis.
struct ThesisCoverage {
  const char* model;  ///< beginning of a model's file name
  int operators, xla, amos;
};
std::optional<ThesisCoverage> thesisCoverage(const std::string& model_name);

}  // namespace tessera::compiler::intrinsic
