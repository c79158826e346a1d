#include "compiler/import/named_dimensions.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/model_error.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

NamedDimensions::NamedDimensions(std::vector<std::string> names, std::map<std::string, int64_t> asked)
    : names_(std::move(names)), asked_(std::move(asked)) {
  const std::vector<std::string_view> others(names_.begin(), names_.end());
  for (const std::string& name : names_)
    if (auto formula = DimensionFormula::parse(name, others)) formulas_.emplace(name, *std::move(formula));
}

bool NamedDimensions::isRange(const std::string& name) const {
  const auto asked = asked_.find(name);
  return asked != asked_.end() && asked->second < 0;
}

const DimensionFormula* NamedDimensions::formulaOf(const std::string& name) const {
  const auto formula = formulas_.find(name);
  return formula == formulas_.end() ? nullptr : &formula->second;
}

std::vector<std::string> NamedDimensions::namesIn(const DimensionFormula& formula) const {
  std::vector<std::string> read;
  for (size_t i = 0; i < names_.size(); ++i)
    if (formula.reads(i)) read.push_back(names_[i]);
  return read;
}

bool NamedDimensions::isDerivableFrom(const std::string& name, const DimensionSizes& sizes) const {
  const DimensionFormula* formula = formulaOf(name);
  if (!formula) return false;
  const std::vector<std::string> read = namesIn(*formula);
  return std::all_of(read.begin(), read.end(), [&](const std::string& each) { return sizes.contains(each); });
}

bool NamedDimensions::derivesFromFixedSizes(const std::string& name) const {
  const DimensionFormula* formula = formulaOf(name);
  if (!formula) return false;
  const std::vector<std::string> read = namesIn(*formula);
  return std::none_of(read.begin(), read.end(),
                      [&](const std::string& each) { return isRange(each) && asked_.at(each) != -1; });
}

absl::StatusOr<int64_t> NamedDimensions::derivedSize(const std::string& name, const DimensionSizes& sizes) const {
  const DimensionFormula& formula = formulas_.at(name);
  std::vector<DimensionFormula::Bounds> bounds;
  std::vector<int64_t> exact;
  std::vector<std::string> given;
  int64_t least = 0;  // a range contains at least 1
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto known = sizes.find(names_[i]);
    exact.push_back(known == sizes.end() ? 0 : known->second);
    // A range varies from 0 to its bound, except that a bound of 1 is a fixed size.
    const bool varies = isRange(names_[i]) && exact.back() != 1;
    bounds.push_back({varies ? 0 : exact.back(), exact.back()});
    if (!formula.reads(i)) continue;
    if (isRange(names_[i])) least = 1;
    given.push_back(absl::StrCat(printable(names_[i]), varies ? "<=" : "=", exact.back()));
  }
  // With all sizes known the formula has a value; otherwise the greatest one over the ranges is needed.
  const std::optional<int64_t> size = derivesFromFixedSizes(name) ? formula.value(exact) : formula.greatest(bounds);
  if (size && *size >= least) return *size;
  return fault(
      v1::Failure::INVALID_INPUT,
      absl::StrCat("dimension '", printable(name), "' has no size for ", absl::StrJoin(given, " ")),
      {.attribute = name,
       .found = size ? absl::StrCat(*size) : "a negative number, a fraction, or a number that is too large",
       .accepted = absl::StrCat("sizes for which it is ", least, " or more"),
       .remedy = absl::StrCat("give other sizes of ",
                              absl::StrJoin(namesIn(formula), ", ", [](std::string* out, const std::string& each) {
                                absl::StrAppend(out, printable(each));
                              }))});
}

absl::StatusOr<int64_t> NamedDimensions::bound(const std::string& name, const DimensionSizes& sizes) const {
  const int64_t size = sizes.at(name), own = isRange(name) ? -size : size;
  if (!isDerivableFrom(name, sizes)) return own;
  const std::vector<std::string> read = namesIn(formulas_.at(name));
  const bool ranges = std::any_of(read.begin(), read.end(), [&](const std::string& each) { return isRange(each); });
  if (!ranges && !isRange(name)) return own;  // a caller who gives every size may override the name
  TESSERA_ASSIGN_OR_RETURN(const int64_t greatest, derivedSize(name, sizes));
  if (size == greatest && ranges) return -size;
  return fault(
      v1::Failure::INVALID_INPUT,
      absl::StrCat("dimension '", printable(name), "' is given a size, but it is derived from other dimensions"),
      {.attribute = name,
       .found = absl::StrCat(own < 0 ? "up to " : "", size),
       .accepted = absl::StrCat(ranges ? "up to " : "", greatest),
       .remedy = "leave it out"});
}

}  // namespace tessera::compiler
