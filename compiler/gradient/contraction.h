#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/gradient/adjoints.h"
#include "compiler/gradient/index_space.h"
#include "compiler/gradient/preimage.h"
#include "compiler/gradient/statement_writer.h"

/// The gradient by one read as a contraction over the free iterations (equation 4.8).
namespace tessera::compiler::gradient {

/// An access that is computed whenever its expression is: under no condition of its own.
struct PlainRead {
  std::string tensor;
  std::vector<IndexSum> subscripts = {};
};

/// A term in the names of the gradient's loops.
struct ContractionTerm {
  Adjoint adjoint = {};
  std::vector<PlainRead> product_reads = {}, condition_reads = {};
};

/// The gradient dT[z...] of a tensor by one read. Each term is a product, summed over the free loops where the guards
/// and the term's conditions hold.
struct Contraction {
  IndexSpace space;                     ///< loops z and free loops, quotients and remainders of them
  std::vector<IndexSum> results = {};   ///< the loops z, one for each dimension of T
  std::vector<int> free_loops = {};     ///< atoms of `space`
  std::vector<IndexBound> guards = {};  ///< index conditions that hold for all terms
  std::vector<ContractionTerm> terms = {};
  bool empty = false;  ///< the read reaches no element
};

/// Reads of one tensor with equal subscripts, under the same index conditions.
struct ReadGroup {
  const expression::Node* read = nullptr;
  std::vector<const Adjoint*> terms = {};
};

/// Solves for the iterations that read an element of the group's tensor. `loops` are the statement's.
absl::StatusOr<Contraction> contractionOf(const ReadGroup& group, const std::vector<expression::Loop>& loops,
                                          const StatementWriter& writer);

/// Appends the contraction as one statement, with its guards as conditions.
absl::Status writeGuarded(const Contraction& contraction, const std::string& name, StatementWriter& writer);

/// "low <= sum <= high" as a condition, without the sides that always hold.
expression::NodePtr conditionOf(const IndexSpace& space, const IndexBound& bound);

/// left && right; either may be null.
expression::NodePtr both(expression::NodePtr left, expression::NodePtr right);

}  // namespace tessera::compiler::gradient
