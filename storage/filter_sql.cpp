#include "storage/filter_sql.h"

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/filter.h"
#include "storage/filter_check.h"

namespace tessera::storage {
namespace {

using Op = CheckedComparison::Op;

const char* sqlOf(Op op) {
  switch (op) {
    case Op::kNotEqual:
      return " <> ?";
    case Op::kLess:
      return " < ?";
    case Op::kLessEqual:
      return " <= ?";
    case Op::kGreater:
      return " > ?";
    case Op::kGreaterEqual:
      return " >= ?";
    default:
      return " = ?";
  }
}

/// GLOB pattern for a value with wildcards; GLOB's other special characters are quoted.
std::string globOf(const std::vector<std::string>& pieces) {
  std::string pattern;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) pattern.push_back('*');
    for (const char c : pieces[i]) {
      if (c == '*' || c == '?' || c == '[') {
        absl::StrAppend(&pattern, "[", std::string(1, c), "]");
      } else {
        pattern.push_back(c);
      }
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
      // An empty filter selects everything.
      absl::StrAppend(&out_.sql, "true");
      return absl::OkStatus();
    }
    absl::StrAppend(&out_.sql, "(");
    for (size_t i = 0; i < children.size(); ++i) {
      if (i) absl::StrAppend(&out_.sql, separator);
      TESSERA_RETURN_IF_ERROR(compile(children[i]));
    }
    absl::StrAppend(&out_.sql, ")");
    return absl::OkStatus();
  }

  absl::Status compileComparison(const Comparison& comparison) {
    TESSERA_ASSIGN_OR_RETURN(CheckedComparison checked, checkComparison(comparison, entity_));
    const std::string& column = checked.field->column();
    if (checked.op == Op::kHasPart || checked.op == Op::kLacksPart) {
      add(absl::StrCat("instr(", column, checked.op == Op::kHasPart ? ", ?) > 0" : ", ?) = 0"),
          std::move(checked.value));
    } else if (checked.op == Op::kIsSet) {
      absl::StrAppend(&out_.sql, column, checked.field->type == FieldType::kText ? " <> ''" : " <> 0");
    } else if (checked.op == Op::kContains && checked.pieces.empty()) {
      add(absl::StrCat("instr(lower(", column, "), ?) > 0"), std::move(checked.value));
    } else if (checked.op == Op::kContains) {
      add(absl::StrCat("lower(", column, ") GLOB ?"), absl::StrCat("*", globOf(checked.pieces), "*"));
    } else if (!checked.pieces.empty()) {
      add(absl::StrCat(column, checked.op == Op::kEqual ? " GLOB ?" : " NOT GLOB ?"), globOf(checked.pieces));
    } else if (const std::optional<Value>& usual = checked.field->usual;
               usual && checked.op == Op::kEqual && checked.value != *usual) {
      // State the inequality too: SQLite uses a partial index only if the query implies its condition.
      const auto* number = std::get_if<int64_t>(&*usual);
      add(absl::StrCat("(", column, " = ? AND ", column, " <> ", number != nullptr ? absl::StrCat(*number) : "''", ")"),
          std::move(checked.value));
    } else {
      add(absl::StrCat(column, sqlOf(checked.op)), std::move(checked.value));
    }
    return absl::OkStatus();
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
  TESSERA_ASSIGN_OR_RETURN(Expression expression, parseFilter(filter));
  Compiler compiler(entity);
  TESSERA_RETURN_IF_ERROR(compiler.compile(expression));
  return compiler.take();
}

}  // namespace tessera::storage
