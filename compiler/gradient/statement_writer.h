#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/gradient/adjoints.h"
#include "compiler/import/expression/bounds.h"

namespace tessera::compiler::gradient {

/// Statements of a new program, and the tensors known so far.
class StatementWriter {
 public:
  StatementWriter(expression::Constants constants, expression::Shapes shapes, Types types);

  /// Returns `hint`; a number follows if a tensor or a param has that name.
  std::string freshName(const std::string& hint);
  /// Declares a tensor that no statement computes.
  void declare(const std::string& name, std::vector<int64_t> shape, v1::DataType type);
  /// Appends a statement whose value is summed over the reduced loops. It states the extents that do not follow from
  /// its subscripts, and no others. Loops of the result come first. Returns the name: `name`, or that of an earlier
  /// statement with the same right side if `shares`.
  absl::StatusOr<std::string> add(const std::string& name, const std::vector<expression::Loop>& loops,
                                  expression::NodePtr value,
                                  expression::Accumulation accumulation = expression::Accumulation::kNone,
                                  bool shares = false);
  /// Gives the result of a statement, which no statement reads, another name.
  void rename(const std::string& from, const std::string& to);

  const expression::Constants& constants() const { return constants_; }
  const expression::Shapes& shapes() const { return shapes_; }
  const Types& types() const { return types_; }
  const std::vector<expression::Statement>& statements() const { return statements_; }
  std::vector<expression::Statement> take() { return std::move(statements_); }

 private:
  absl::Status stateBounds(expression::Statement& statement, const std::vector<expression::Loop>& loops) const;

  expression::Constants constants_;
  expression::Shapes shapes_;
  Types types_;
  std::set<std::string> names_;
  std::vector<expression::Statement> statements_;
  std::map<std::string, std::string> shared_;  ///< names of statements that may be shared, by their texts without them
};

/// The number of elements of a tensor of this shape.
double elementsOf(const std::vector<int64_t>& shape);

}  // namespace tessera::compiler::gradient
