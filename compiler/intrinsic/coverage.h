#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/v1/analysis.pb.h"

namespace tessera::compiler::intrinsic {

/// An operator of a model, and what a target's instructions can do with it.
struct CoveredOperator {
  int node = 0;             ///< GraphView.Node.id
  std::string name, op;     ///< the model's
  std::string nest;         ///< the one that is mapped, else the first
  size_t mappings = 0;      ///< of the nest, onto `instruction`; 0: none
  std::string instruction;  ///< the first that it maps to
  std::string obstacle;     ///< why it does not map
};

struct Coverage {
  std::vector<CoveredOperator> operators;  ///< nodes with loops of their own, in the model's order
  size_t nodes = 0;                        ///< of the model
  size_t nests = 0, mapped_nests = 0;      ///< of all nodes: a recurrence is one node of several
  size_t mapped() const;
};

/// Nodes that `explanation.before` has, by the loop nests they became. A node maps where one of its nests does, in the
/// order of its sources or another; element types are not asked for (the thesis's networks are in halves; a float model
/// is converted).
Coverage coverageOf(const v1::Explanation& explanation, const v1::Target& target);

/// Table 5.1 of the thesis.
struct ThesisCoverage {
  const char* model;  ///< beginning of a model's file name
  int operators, xla, amos;
};
std::optional<ThesisCoverage> thesisCoverage(const std::string& model_name);

}  // namespace tessera::compiler::intrinsic
