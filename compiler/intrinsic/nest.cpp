#include "compiler/intrinsic/nest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/loopnest/body.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::intrinsic {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;
using loopnest::Body;
using loopnest::Combine;

/// Appends an operand of an instruction or of an operator's nest; its loops must be in `loops`.
template <typename Operand>
absl::Status addAccess(const Operand& operand, const std::vector<std::string>& loops, Nest& nest) {
  Access access{.name = operand.name(), .subscripts = {}, .dtype = operand.dtype()};
  std::vector<std::string> names = loops;
  for (const std::string& text : operand.subscripts()) {
    TESSERA_ASSIGN_OR_RETURN(Subscript subscript, loopnest::parseSubscript(text, names));
    access.subscripts.push_back(std::move(subscript));
  }
  if (names.size() > loops.size())
    return absl::InvalidArgumentError(absl::StrCat("'", names[loops.size()], "' is no loop of ", nest.name));
  nest.accesses.push_back(std::move(access));
  return absl::OkStatus();
}

/// Appends the loops and accesses of a description, and its only statement.
template <typename Loops, typename Operands>
absl::Status fill(const Loops& loops, const Operands& operands, Form form, Nest& nest) {
  std::vector<std::string> names;
  for (const auto& loop : loops) {
    nest.loops.push_back({.name = loop.name(), .extent = loop.extent()});
    names.push_back(loop.name());
  }
  for (const auto& operand : operands) TESSERA_RETURN_IF_ERROR(addAccess(operand, names, nest));
  if (nest.accesses.empty()) return absl::InvalidArgumentError(absl::StrCat(nest.name, " has no operands"));
  loopnest::Statement statement;
  statement.name = nest.name;
  for (int loop = 0; loop < static_cast<int>(nest.loops.size()); ++loop) statement.loops.push_back(loop);
  for (int input = 1; input < static_cast<int>(nest.accesses.size()); ++input) statement.inputs.push_back(input);
  const bool reduces = std::ranges::any_of(statement.loops, [&](int loop) { return !nest.uses(0, loop); });
  statement.body = bodyOf(form, statement.inputs.size(), reduces);
  nest.statements.push_back(std::move(statement));
  return absl::OkStatus();
}

}  // namespace

Form formOf(const Nest& nest) {
  if (nest.statements.size() != 1 || !loopnest::isProduct(nest.statements[0])) return Arithmetic::FORM_UNSPECIFIED;
  const loopnest::Statement& statement = nest.statements[0];
  const bool one = statement.inputs.size() == 1;
  switch (statement.body.combine) {
    case Combine::kAssign:
      return Arithmetic::MULTIPLY;
    case Combine::kSum:
      return !statement.body.keeps ? Arithmetic::MULTIPLY : one ? Arithmetic::ADD : Arithmetic::MULTIPLY_ADD;
    case Combine::kMaximum:
      return one && statement.body.keeps ? Arithmetic::MAXIMUM : Arithmetic::FORM_UNSPECIFIED;
    case Combine::kMinimum:
      return one && statement.body.keeps ? Arithmetic::MINIMUM : Arithmetic::FORM_UNSPECIFIED;
    default:
      return Arithmetic::FORM_UNSPECIFIED;
  }
}

Body bodyOf(Form form, size_t sources, bool reduces) {
  const bool fresh = form == Arithmetic::MULTIPLY;
  return {.combine = form == Arithmetic::MAXIMUM   ? Combine::kMaximum
                     : form == Arithmetic::MINIMUM ? Combine::kMinimum
                     : fresh && !reduces           ? Combine::kAssign
                                                   : Combine::kSum,
          .keeps = !fresh,
          .operations = loopnest::productOf(sources)};
}

absl::Status checkMappable(const Nest& nest) {
  if (!nest.isAffine()) {
    return absl::InvalidArgumentError(
        absl::StrCat(print(nest), ": a subscript has a quotient or remainder; instructions map to affine subscripts"));
  }
  if (formOf(nest) == Arithmetic::FORM_UNSPECIFIED) {
    return absl::InvalidArgumentError(absl::StrCat(
        print(nest), ": instructions map to one statement that sums products, or takes a sum, maximum or minimum"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Nest> nestOf(const v1::Intrinsic& intrinsic) {
  Nest nest;
  nest.name = intrinsic.name();
  const Form form = intrinsic.has_arithmetic() ? intrinsic.arithmetic().form() : Arithmetic::MULTIPLY_ADD;
  TESSERA_RETURN_IF_ERROR(fill(intrinsic.iterations(), intrinsic.operands(), form, nest));
  std::vector<std::string> names;
  for (const Loop& loop : nest.loops) names.push_back(loop.name);
  for (const std::string& text : intrinsic.bounds()) {
    TESSERA_ASSIGN_OR_RETURN(Subscript bound, loopnest::parseBound(text, names));
    if (names.size() > nest.loops.size())
      return absl::InvalidArgumentError(absl::StrCat("'", names.back(), "' is no loop of ", nest.name));
    nest.bounds.push_back(std::move(bound));
  }
  TESSERA_RETURN_IF_ERROR(validate(nest));
  return nest;
}

absl::StatusOr<Nest> nestOf(const v1::OperatorNest& described) {
  if (!described.obstacle().empty()) return absl::FailedPreconditionError(described.obstacle());
  Nest nest;
  nest.name = absl::StrCat("#", described.node());
  TESSERA_RETURN_IF_ERROR(fill(described.loops(), described.accesses(), described.form(), nest));
  TESSERA_RETURN_IF_ERROR(validate(nest));
  return nest;
}

}  // namespace tessera::compiler::intrinsic
