#include "storage/filter_sql.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "storage/filter.h"

namespace tessera::storage {
namespace {

/// Each wildcard may make a match try every position anew.
constexpr size_t kMaxWildcards = 4;

struct TypeRules {
  FieldType type;
  std::string_view operators;  ///< separated by spaces
  std::string_view accepted;   ///< what a value looks like
};
constexpr TypeRules kTypeRules[] = {
    {FieldType::kText, "= != < <= > >= :", "a word or a quoted string"},
    {FieldType::kInteger, "= != < <= > >= :", "a whole number"},
    {FieldType::kReal, "= != < <= > >= :", "a number"},
    {FieldType::kTime,
     "= != < <= > >= :", "a time such as \"2026-01-31T12:00:00Z\", or microseconds since the Unix epoch"},
    {FieldType::kBoolean, "= != :", "true or false"},
    {FieldType::kEnum, "= != :", ""},
};

const TypeRules& rulesOf(FieldType type) {
  for (const TypeRules& rules : kTypeRules) {
    if (rules.type == type) return rules;
  }
  return kTypeRules[0];
}

std::string enumNames(const Field& field) {
  return absl::StrJoin(field.values, ", ",
                       [](std::string* out, const Field::EnumValue& value) { out->append(value.name); });
}

/// SQLite's GLOB pattern for a value with wildcards: its other special characters stand for themselves.
std::string globOf(const Comparison& comparison) {
  std::string pattern;
  size_t next = 0;
  for (size_t i = 0; i < comparison.value.text.size(); ++i) {
    const char c = comparison.value.text[i];
    const bool wildcard = next < comparison.wildcards.size() && comparison.wildcards[next] == i;
    if (wildcard) ++next;
    if (!wildcard && (c == '*' || c == '?' || c == '[')) {
      absl::StrAppend(&pattern, "[", std::string(1, c), "]");
    } else {
      pattern.push_back(c);
    }
  }
  return pattern;
}

class Compiler {
 public:
  explicit Compiler(const Entity& entity) : entity_(entity) {}

  absl::Status compile(const Expression& expression) {
    switch (expression.kind) {
      case Expression::Kind::kComparison:
        return compileComparison(expression.comparison);
      case Expression::Kind::kNot:
        absl::StrAppend(&out_.sql, "NOT ");
        return compileAll(expression.children, "");
      case Expression::Kind::kAnd:
        return compileAll(expression.children, " AND ");
      case Expression::Kind::kOr:
        return compileAll(expression.children, " OR ");
    }
    return absl::OkStatus();
  }

  Condition take() { return std::move(out_); }

 private:
  absl::Status compileAll(const std::vector<Expression>& children, const char* separator) {
    if (children.empty()) {
      absl::StrAppend(&out_.sql, "1");
      return absl::OkStatus();
    }
    absl::StrAppend(&out_.sql, "(");
    for (size_t i = 0; i < children.size(); ++i) {
      if (i) absl::StrAppend(&out_.sql, separator);
      if (absl::Status status = compile(children[i]); !status.ok()) return status;
    }
    absl::StrAppend(&out_.sql, ")");
    return absl::OkStatus();
  }

  absl::Status compileComparison(const Comparison& comparison) {
    const Field* field = entity_.find(comparison.field.text);
    if (!field) {
      return filterError(comparison.field.position, absl::StrCat("the unknown field \"", comparison.field.text, "\""),
                         entity_.fieldNames());
    }
    const TypeRules& rules = rulesOf(field->type);
    const std::string& op = comparison.op.text;
    if (!absl::StrContains(absl::StrCat(" ", std::string(rules.operators), " "), absl::StrCat(" ", op, " "))) {
      return filterError(comparison.op.position, absl::StrCat("\"", op, "\""),
                         absl::StrCat(std::string(rules.operators), " for the field ", field->name));
    }
    const bool lone_star = comparison.value.text == "*" && !comparison.wildcards.empty();
    if (op == ":" && lone_star) {  // "is set"
      absl::StrAppend(&out_.sql, field->column(), field->type == FieldType::kText ? " <> ''" : " <> 0");
      return absl::OkStatus();
    }
    if (field->type == FieldType::kText) return compileText(*field, comparison);
    absl::StatusOr<Value> value = number(*field, comparison);
    if (!value.ok()) return value.status();
    add(absl::StrCat(field->column(), " ", op == ":" ? "=" : op, " ?"), *std::move(value));
    return absl::OkStatus();
  }

  absl::Status compileText(const Field& field, const Comparison& comparison) {
    const std::string& op = comparison.op.text;
    const bool pattern = !comparison.wildcards.empty();
    if (comparison.wildcards.size() > kMaxWildcards) {
      return filterError(comparison.value.position, absl::StrCat(comparison.wildcards.size(), " wildcards"),
                         absl::StrCat("at most ", kMaxWildcards, " in one value"));
    }
    if (op == ":" && !pattern) {
      add(absl::StrCat("instr(lower(", field.column(), "), ?) > 0"), absl::AsciiStrToLower(comparison.value.text));
    } else if (op == ":") {
      add(absl::StrCat("lower(", field.column(), ") GLOB ?"),
          absl::StrCat("*", absl::AsciiStrToLower(globOf(comparison)), "*"));
    } else if (!pattern) {
      add(absl::StrCat(field.column(), " ", op, " ?"), comparison.value.text);
    } else if (op == "=" || op == "!=") {
      add(absl::StrCat(field.column(), op == "=" ? " GLOB ?" : " NOT GLOB ?"), globOf(comparison));
    } else {
      return filterError(comparison.value.position, absl::StrCat("a wildcard after \"", op, "\""),
                         "wildcards after = != and :; a star itself is written \"\\*\"");
    }
    return absl::OkStatus();
  }

  /// Everything that is not text is a number in its column.
  static absl::StatusOr<Value> number(const Field& field, const Comparison& comparison) {
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
          return Value(int64_t{absl::ToUnixMicros(time)});
        }
        [[fallthrough]];
      }
      default:
        if (absl::SimpleAtoi(text, &whole)) return Value(whole);
    }
    return filterError(comparison.value.position, absl::StrCat("\"", text, "\""),
                       field.type == FieldType::kEnum ? enumNames(field) : std::string(rulesOf(field.type).accepted));
  }

  void add(const std::string& sql, Value value) {
    absl::StrAppend(&out_.sql, sql);
    out_.values.push_back(std::move(value));
  }

  const Entity& entity_;
  Condition out_;
};

}  // namespace

absl::StatusOr<Condition> compileFilter(std::string_view filter, const Entity& entity) {
  absl::StatusOr<Expression> expression = parseFilter(filter);
  if (!expression.ok()) return expression.status();
  Compiler compiler(entity);
  if (absl::Status status = compiler.compile(*expression); !status.ok()) return status;
  return compiler.take();
}

}  // namespace tessera::storage
