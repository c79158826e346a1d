#include "compiler/backends/opencl/body_code.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/opencl/element_code.h"
#include "compiler/backends/opencl/operation_code.h"

namespace tessera::compiler::opencl {
namespace {

using loopnest::Term;
using simulator::SpatialNest;
using simulator::SpatialOperation;

std::string termsCode(const std::vector<Term>& terms, int64_t constant, std::span<const std::string> names, bool wide) {
  std::string text;
  const char* const suffix = wide ? "L" : "";
  for (const Term& term : terms) {
    const std::string& name = names[static_cast<size_t>(term.loop)];
    const int64_t factor = term.coefficient < 0 ? -term.coefficient : term.coefficient;
    const std::string product = factor == 1 && !wide ? name : absl::StrCat(factor, suffix, " * ", name);
    if (text.empty()) {
      text = term.coefficient < 0 ? absl::StrCat("-", factor == 1 && !wide ? name : product) : product;
    } else {
      absl::StrAppend(&text, term.coefficient < 0 ? " - " : " + ", product);
    }
  }
  if (text.empty()) return absl::StrCat(constant, suffix);
  if (constant != 0) absl::StrAppend(&text, constant < 0 ? " - " : " + ", constant < 0 ? -constant : constant, suffix);
  return text;
}

}  // namespace

std::string subscriptCode(const loopnest::Subscript& subscript, std::span<const std::string> names, bool wide) {
  std::string text;
  if (!subscript.terms.empty() || subscript.constant != 0 || subscript.digits.empty())
    text = termsCode(subscript.terms, subscript.constant, names, wide);
  for (const loopnest::Digit& digit : subscript.digits) {
    std::string part = absl::StrCat("(", termsCode(digit.terms, digit.constant, names, wide), ")");
    // Quotients round down; the language's round towards zero.
    const bool negative =
        digit.constant < 0 || std::ranges::any_of(digit.terms, [](const Term& term) { return term.coefficient < 0; });
    const auto apply = [&](const char* function, const char* sign, int64_t number) {
      part =
          negative ? absl::StrCat(function, "(", part, ", ", number, ")") : absl::StrCat(part, " ", sign, " ", number);
    };
    if (digit.divisor != 1) apply("t_down", "/", digit.divisor);
    if (digit.modulus != 0) apply("t_modulus", "%", digit.modulus);
    if (digit.coefficient != 1) part = absl::StrCat(digit.coefficient, " * (", part, ")");
    text = text.empty() ? part : absl::StrCat(text, " + ", part);
  }
  return text;
}

BodyCode bodyCode(const SpatialNest& nest, const BodyNames& names, std::span<const int64_t> elements,
                  const std::string& indent) {
  BodyCode code;
  std::vector<Operand> values;
  for (size_t a = 0; a < nest.accesses.size(); ++a) values.push_back({nest.accesses[a].dtype, names.values[a]});
  for (const SpatialOperation& operation : nest.body) {
    const std::string name = absl::StrCat(names.prefix, values.size());
    std::vector<Operand> operands;
    for (const int operand : operation.operands) operands.push_back(values[static_cast<size_t>(operand)]);
    if (operation.name == "constant") {
      values.push_back({operation.dtype, literalCode(operation.dtype, operation.constant)});
      continue;
    }
    const char* const type = valueType(operation.dtype);
    if (operation.name == "index") {
      values.push_back(
          {operation.dtype, absl::StrCat("(", type, ")", names.loops[static_cast<size_t>(operation.loop)])});
      continue;
    }
    if (operation.name == "load") {
      const auto& access = operation.access;
      const std::string position = absl::StrCat(name, "p");
      std::vector<std::string> terms = {absl::StrCat(access.offset, "L")};
      for (size_t d = 0; d < operands.size(); ++d)
        terms.push_back(absl::StrCat(access.strides[d], "L * ", operands[d].text));
      absl::StrAppend(&code.statements, indent, "const long ", position, " = ", absl::StrJoin(terms, " + "), ";\n");
      absl::StrAppend(&code.statements, indent, type, " ", name, " = 0;\n");
      absl::StrAppend(&code.statements, indent, "if (", position, " >= 0 && ", position, " < ",
                      elements[static_cast<size_t>(access.buffer)], "L) ", name, " = ",
                      loadCode(access.dtype, names.pointers[static_cast<size_t>(access.buffer)], position),
                      "; else faults[step] = 1;\n");
      code.checks_indices = true;
    } else {
      absl::StrAppend(&code.statements, indent, "const ", type, " ", name, " = ",
                      operationCode(operation.name, operation.dtype, operands), ";\n");
    }
    values.push_back({operation.dtype, name});
  }
  for (const int yield : nest.yields) code.yields.push_back(values[static_cast<size_t>(yield)].text);
  return code;
}

}  // namespace tessera::compiler::opencl
