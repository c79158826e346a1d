#include "storage/filter_check.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "proto/support/status_macros.h"
#include "storage/columns.h"

namespace tessera::storage {
namespace {

using Op = CheckedComparison::Op;

/// Limit on wildcards per value: the cost of a match grows with their number, since each may retry every position.
constexpr size_t kMaxWildcards = 4;

struct TypeRules {
  FieldType type;
  std::string_view operators;  ///< separated by spaces
  std::string_view accepted;   ///< form of a value, for messages
};
constexpr TypeRules kTypeRules[] = {
    {FieldType::kText, "= != < <= > >= :", "a word or a quoted string"},
    {FieldType::kInteger, "= != < <= > >= :", "a whole number"},
    {FieldType::kReal, "= != < <= > >= :", "a number"},
    {FieldType::kTime,
     "= != < <= > >= :", "a time such as \"2026-01-31T12:00:00Z\", or microseconds since the Unix epoch"},
    {FieldType::kBoolean, "= != :", "true or false"},
    {FieldType::kEnum, "= != :", ""},
    {FieldType::kLabels, "= != :", "a word or a quoted string"},
};

const TypeRules& rulesOf(FieldType type) {
  for (const TypeRules& rules : kTypeRules) {
    if (rules.type == type) return rules;
  }
  return kTypeRules[0];
}

struct Operator {
  std::string_view text;
  Op op;
};
constexpr Operator kOperators[] = {{"=", Op::kEqual},      {"!=", Op::kNotEqual}, {"<", Op::kLess},
                                   {"<=", Op::kLessEqual}, {">", Op::kGreater},   {">=", Op::kGreaterEqual},
                                   {":", Op::kContains}};

std::string enumNames(const Field& field) {
  return absl::StrJoin(field.values, ", ",
                       [](std::string* out, const Field::EnumValue& value) { out->append(value.name); });
}

/// Parses the value of a non-text field, which is stored as a number.
absl::StatusOr<Value> number(const Field& field, const Comparison& comparison) {
  const std::string& text = comparison.value.text;
  int64_t whole = 0;
  double real = 0;
  switch (field.type) {
    case FieldType::kReal:
      if (absl::SimpleAtod(text, &real) && std::isfinite(real)) return Value(real);
      break;
    case FieldType::kBoolean:
      if (text == "true") return Value(int64_t{1});
      if (text == "false") return Value(int64_t{0});
      break;
    case FieldType::kEnum:
      for (const Field::EnumValue& value : field.values) {
        if (absl::EqualsIgnoreCase(value.name, text)) return Value(value.number);
      }
      break;
    case FieldType::kTime: {
      absl::Time time;
      std::string error;
      if (absl::ParseTime(absl::RFC3339_full, text, &time, &error) && time != absl::InfiniteFuture() &&
          time != absl::InfinitePast()) {
        return Value(absl::ToUnixMicros(time));
      }
      [[fallthrough]];
    }
    default:
      if (absl::SimpleAtoi(text, &whole)) return Value(whole);
  }
  return filterError(comparison.value.position, absl::StrCat("\"", text, "\""),
                     field.type == FieldType::kEnum ? enumNames(field) : std::string(rulesOf(field.type).accepted));
}

absl::StatusOr<CheckedComparison> checkText(CheckedComparison checked, const Comparison& comparison) {
  if (comparison.wildcards.size() > kMaxWildcards) {
    return filterError(comparison.value.position, absl::StrCat(comparison.wildcards.size(), " wildcards"),
                       absl::StrCat("at most ", kMaxWildcards, " in one value"));
  }
  const bool contains = checked.op == Op::kContains;
  if (!comparison.wildcards.empty() && !contains && checked.op != Op::kEqual && checked.op != Op::kNotEqual) {
    return filterError(comparison.value.position, absl::StrCat("a wildcard after \"", comparison.op.text, "\""),
                       "wildcards after = != and :; a star itself is written \"\\*\"");
  }
  std::string text = comparison.value.text;
  if (!contains && comparison.wildcards.empty()) text = indexedPart(text);
  if (contains) text = absl::AsciiStrToLower(text);
  size_t start = 0;
  for (size_t wildcard : comparison.wildcards) {
    checked.pieces.push_back(text.substr(start, wildcard - start));
    start = wildcard + 1;
  }
  if (!comparison.wildcards.empty()) checked.pieces.push_back(text.substr(start));
  checked.value = std::move(text);
  return checked;
}

/// Compares a label: its text is, or is not, a substring of the column.
absl::StatusOr<CheckedComparison> checkLabel(CheckedComparison checked, const Comparison& comparison) {
  const std::string key = comparison.field.text.substr(checked.field->name.size() + 1);
  const bool any = comparison.op.text == ":" && comparison.value.text == "*";
  if (!any && !comparison.wildcards.empty()) {
    return filterError(comparison.value.position, "a wildcard",
                       absl::StrCat("the label's whole value, or \"", checked.field->name, ".", key, ":*\" for any"));
  }
  checked.value = any ? labelPart(key) : labelPart(key, comparison.value.text);
  checked.op = comparison.op.text == "!=" ? Op::kLacksPart : Op::kHasPart;
  return checked;
}

}  // namespace

absl::StatusOr<CheckedComparison> checkComparison(const Comparison& comparison, const Entity& entity) {
  const Field* field = entity.find(comparison.field.text);
  if (!field) {
    return filterError(comparison.field.position, absl::StrCat("the unknown field \"", comparison.field.text, "\""),
                       entity.fieldNames());
  }
  const TypeRules& rules = rulesOf(field->type);
  const std::string& op = comparison.op.text;
  if (!absl::StrContains(absl::StrCat(" ", std::string(rules.operators), " "), absl::StrCat(" ", op, " "))) {
    return filterError(comparison.op.position, absl::StrCat("\"", op, "\""),
                       absl::StrCat(std::string(rules.operators), " for the field ", field->name));
  }
  CheckedComparison checked;
  checked.field = field;
  for (const Operator& known : kOperators) {
    if (known.text == op) checked.op = known.op;
  }
  if (field->type == FieldType::kLabels) return checkLabel(std::move(checked), comparison);
  if (op == ":" && comparison.value.text == "*" && !comparison.wildcards.empty()) {
    checked.op = Op::kIsSet;
    return checked;
  }
  if (field->type == FieldType::kText) return checkText(std::move(checked), comparison);
  TESSERA_ASSIGN_OR_RETURN(checked.value, number(*field, comparison));
  if (checked.op == Op::kContains) checked.op = Op::kEqual;
  return checked;
}

}  // namespace tessera::storage
