#include "compiler/gradient/statement_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/expression/make_node.h"
#include "compiler/import/expression/print.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Loop;
using expression::Statement;

/// Whether the extents that follow from the statement are those of the loops.
absl::StatusOr<bool> follows(const Statement& statement, const std::vector<Loop>& loops,
                             const expression::Shapes& shapes, const expression::Constants& constants) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<Loop> inferred, expression::inferLoops(statement, shapes, constants));
  return std::ranges::all_of(inferred, [&](const Loop& each) {
    const auto wanted = std::ranges::find(loops, each.variable, &Loop::variable);
    return wanted != loops.end() && wanted->extent == each.extent;
  });
}

}  // namespace

StatementWriter::StatementWriter(expression::Constants constants, expression::Shapes shapes, Types types)
    : constants_(std::move(constants)), shapes_(std::move(shapes)), types_(std::move(types)) {
  for (const auto& [name, value] : constants_) names_.insert(name);
  for (const auto& [name, shape] : shapes_) names_.insert(name);
}

std::string StatementWriter::freshName(const std::string& hint) {
  std::string name = hint;
  for (int number = 2; !names_.insert(name).second; ++number) name = absl::StrCat(hint, "_", number);
  return name;
}

void StatementWriter::declare(const std::string& name, std::vector<int64_t> shape, v1::DataType type) {
  names_.insert(name);
  shapes_[name] = std::move(shape);
  types_[name] = type;
}

absl::StatusOr<std::string> StatementWriter::add(const std::string& name, const std::vector<Loop>& loops,
                                                 expression::NodePtr value, expression::Accumulation accumulation,
                                                 bool shares) {
  Statement statement;
  statement.name = name;
  statement.value = std::move(value);
  statement.accumulation = accumulation;
  std::vector<int64_t> shape;
  for (const Loop& loop : loops) {
    if (loop.reduction) continue;
    statement.indices.push_back(loop.variable);
    shape.push_back(loop.extent);
  }
  TESSERA_RETURN_IF_ERROR(stateBounds(statement, loops));
  if (shares) {
    statement.name.clear();
    const auto [known, fresh] =
        shared_.emplace(absl::StrCat(absl::StrJoin(shape, "x"), " ", expression::print(statement)), name);
    if (!fresh) {
      names_.erase(name);
      return known->second;
    }
    statement.name = name;
  }
  const v1::DataType type = typeOf(*statement.value, types_);
  declare(name, std::move(shape), type == v1::DATA_TYPE_UNSPECIFIED ? v1::DATA_TYPE_F32 : type);
  statements_.push_back(std::move(statement));
  return name;
}

absl::Status StatementWriter::stateBounds(Statement& statement, const std::vector<Loop>& loops) const {
  if (const auto plain = follows(statement, loops, shapes_, constants_); plain.ok() && *plain) return absl::OkStatus();
  for (const Loop& loop : loops) statement.bounds.push_back({loop.variable, {}, expression::integerNode(loop.extent)});
  TESSERA_ASSIGN_OR_RETURN(const bool holds, follows(statement, loops, shapes_, constants_));
  if (!holds) return absl::InternalError(absl::StrCat("no extents fit ", expression::print(statement)));
  // Leaves out the bounds that follow from the subscripts or from the other bounds.
  for (size_t b = 0; b < statement.bounds.size();) {
    expression::Bound bound = std::move(statement.bounds[b]);
    statement.bounds.erase(statement.bounds.begin() + static_cast<std::ptrdiff_t>(b));
    if (const auto without = follows(statement, loops, shapes_, constants_); without.ok() && *without) continue;
    statement.bounds.insert(statement.bounds.begin() + static_cast<std::ptrdiff_t>(b), std::move(bound));
    ++b;
  }
  return absl::OkStatus();
}

void StatementWriter::rename(const std::string& from, const std::string& to) {
  for (Statement& statement : statements_)
    if (statement.name == from) statement.name = to;
  declare(to, shapes_.at(from), types_.at(from));
  shapes_.erase(from);
  types_.erase(from);
  names_.erase(from);
}

double elementsOf(const std::vector<int64_t>& shape) {
  double elements = 1;
  for (const int64_t extent : shape) elements *= static_cast<double>(extent);
  return elements;
}

}  // namespace tessera::compiler::gradient
