#include "compiler/intrinsic/nest.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/target/affine.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::intrinsic {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;

/// `affine` over the loops of `nest`; INVALID_ARGUMENT for an unknown name.
absl::StatusOr<Subscript> subscriptOf(const Affine& affine, const Nest& nest) {
  Subscript subscript;
  subscript.constant = affine.constant;
  for (const auto& [name, coefficient] : affine.terms) {
    const int loop = nest.loopNamed(name);
    if (loop < 0) return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no loop of ", nest.name));
    subscript.terms.push_back({loop, coefficient});
  }
  return subscript;
}

Affine affineOf(const Subscript& subscript, const Nest& nest) {
  Affine affine;
  affine.constant = subscript.constant;
  for (const Subscript::Term& term : subscript.terms) {
    affine.terms.emplace_back(nest.loops[term.loop].name, term.coefficient);
  }
  return affine;
}

std::string accessText(const Nest& nest, const Access& access) {
  return absl::StrCat(access.name, "[",
                      absl::StrJoin(access.subscripts, ", ",
                                    [&](std::string* out, const Subscript& subscript) {
                                      *out += compiler::print(affineOf(subscript, nest));
                                    }),
                      "]");
}

/// Appends "NAME[a, b]" to `nest`; new loops are added to its list.
absl::Status addAccess(const std::string& text, Nest& nest) {
  const std::string trimmed(absl::StripAsciiWhitespace(text));
  const size_t open = trimmed.find('[');
  if (open == std::string::npos || open == 0 || trimmed.back() != ']') {
    return absl::InvalidArgumentError(absl::StrCat("'", trimmed, "' is no access; accepted: NAME[subscript, ...]"));
  }
  Access access;
  access.name = trimmed.substr(0, open);
  const std::string inside = trimmed.substr(open + 1, trimmed.size() - open - 2);
  for (const auto word : absl::StrSplit(inside, ',', absl::SkipWhitespace())) {
    TESSERA_ASSIGN_OR_RETURN(const Affine affine, parseAffine(std::string_view(word.data(), word.size())));
    for (const auto& [name, coefficient] : affine.terms) {
      // Loops that first occur in a source do not index the destination: they are reductions.
      if (nest.loopNamed(name) < 0) nest.loops.push_back({name, 1, !nest.accesses.empty()});
    }
    TESSERA_ASSIGN_OR_RETURN(const Subscript subscript, subscriptOf(affine, nest));
    access.subscripts.push_back(subscript);
  }
  nest.accesses.push_back(std::move(access));
  return absl::OkStatus();
}

}  // namespace

int64_t Subscript::coefficientOf(int loop) const {
  const auto found = std::find_if(terms.begin(), terms.end(), [&](const Term& term) { return term.loop == loop; });
  return found == terms.end() ? 0 : found->coefficient;
}

int64_t Subscript::at(const std::vector<int64_t>& point) const {
  int64_t value = constant;
  for (const Term& term : terms) value += term.coefficient * point[term.loop];
  return value;
}

bool Access::uses(int loop) const {
  return std::any_of(subscripts.begin(), subscripts.end(),
                     [&](const Subscript& subscript) { return subscript.coefficientOf(loop) != 0; });
}

int Nest::loopNamed(const std::string& wanted) const {
  const auto found = std::find_if(loops.begin(), loops.end(), [&](const Loop& loop) { return loop.name == wanted; });
  return found == loops.end() ? -1 : static_cast<int>(found - loops.begin());
}

int64_t saturatedProduct(int64_t left, int64_t right) {
  int64_t product = 0;
  return __builtin_mul_overflow(left, right, &product) ? INT64_MAX : product;
}

std::vector<int64_t> shapeOf(const Nest& nest, const Access& access) {
  std::vector<int64_t> shape;
  for (const Subscript& subscript : access.subscripts) {
    int64_t low = subscript.constant, high = subscript.constant;
    for (const Subscript::Term& term : subscript.terms) {
      const int64_t reach = term.coefficient * (nest.loops[term.loop].extent - 1);
      // The extremes of a linear function are at the ends of each loop.
      (reach < 0 ? low : high) += reach;
    }
    shape.push_back(low < 0 ? -1 : high + 1);
  }
  return shape;
}

absl::StatusOr<Nest> parseNest(const std::string& name, const std::string& text, const std::vector<int64_t>& extents) {
  Nest nest;
  nest.name = name;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' has no '+=' or '='"));
  }
  const bool adds = text[equals - 1] == '+';
  TESSERA_RETURN_IF_ERROR(addAccess(text.substr(0, equals - adds), nest));
  // A '*' between accesses follows a ']'; others belong to subscripts.
  std::string rest = text.substr(equals + 1);
  size_t end = rest.find(']');
  while (end != std::string::npos) {
    TESSERA_RETURN_IF_ERROR(addAccess(rest.substr(0, end + 1), nest));
    rest = std::string(absl::StripAsciiWhitespace(rest.substr(end + 1)));
    if (rest.empty()) break;
    if (rest[0] != '*') return absl::InvalidArgumentError(absl::StrCat("found '", rest, "', accepted is '*'"));
    rest = rest.substr(1);
    end = rest.find(']');
  }
  if (!rest.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("'", std::string(absl::StripAsciiWhitespace(rest)), "' is no access"));
  nest.form = !adds ? Arithmetic::MULTIPLY : nest.accesses.size() == 2 ? Arithmetic::ADD : Arithmetic::MULTIPLY_ADD;
  if (extents.size() != nest.loops.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", nest.loops.size(), " loops and ", extents.size(), " extents"));
  }
  for (size_t i = 0; i < extents.size(); ++i) nest.loops[i].extent = extents[i];
  return nest;
}

std::string print(const Nest& nest) {
  if (nest.accesses.empty()) return nest.name;
  std::string text = accessText(nest, nest.accesses[0]);
  const bool extremum = nest.form == Arithmetic::MAXIMUM || nest.form == Arithmetic::MINIMUM;
  absl::StrAppend(&text, nest.form == Arithmetic::MULTIPLY || extremum ? " = " : " += ");
  if (extremum) absl::StrAppend(&text, nest.form == Arithmetic::MAXIMUM ? "max " : "min ");
  for (size_t i = 1; i < nest.accesses.size(); ++i) {
    absl::StrAppend(&text, i == 1 ? "" : " * ", accessText(nest, nest.accesses[i]));
  }
  return text;
}

namespace {

/// Appends an operand of an instruction or of an operator's nest, whose loops `nest` must contain already.
template <typename Operand>
absl::Status addAccess(Nest& nest, const Operand& operand) {
  Access access{operand.name(), operand.dtype(), {}};
  for (const std::string& text : operand.subscripts()) {
    TESSERA_ASSIGN_OR_RETURN(const Affine affine, parseAffine(text));
    TESSERA_ASSIGN_OR_RETURN(const Subscript subscript, subscriptOf(affine, nest));
    access.subscripts.push_back(subscript);
  }
  nest.accesses.push_back(std::move(access));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Nest> nestOf(const v1::Intrinsic& intrinsic) {
  Nest nest;
  nest.name = intrinsic.name();
  if (intrinsic.has_arithmetic()) nest.form = intrinsic.arithmetic().form();
  for (const auto& iteration : intrinsic.iterations()) {
    nest.loops.push_back({iteration.name(), iteration.extent(), iteration.reduction()});
  }
  for (const auto& operand : intrinsic.operands()) {
    TESSERA_RETURN_IF_ERROR(addAccess(nest, operand));
  }
  for (const std::string& text : intrinsic.bounds()) {
    TESSERA_ASSIGN_OR_RETURN(const Affine bound, parseBound(text));
    TESSERA_ASSIGN_OR_RETURN(const Subscript subscript, subscriptOf(bound, nest));
    nest.bounds.push_back(subscript);
  }
  return nest;
}

absl::StatusOr<Nest> nestOf(const v1::OperatorNest& described) {
  if (!described.obstacle().empty()) return absl::FailedPreconditionError(described.obstacle());
  Nest nest;
  nest.name = absl::StrCat("#", described.node());
  nest.form = described.form();
  for (const auto& loop : described.loops()) nest.loops.push_back({loop.name(), loop.extent(), loop.reduction()});
  for (const auto& entry : described.accesses()) {
    TESSERA_RETURN_IF_ERROR(addAccess(nest, entry));
  }
  return nest;
}

}  // namespace tessera::compiler::intrinsic
