#include "storage/filter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr std::string_view kOperators[] = {"!=", "<=", ">=", "=", "<", ">", ":"};  // longest first
constexpr std::string_view kSpaces = " \t\r\n";
/// Characters that end an unquoted value. Colons, dots and dashes do not, so timestamps and names need no quotes.
constexpr std::string_view kValueEnd = " \t\r\n()\"'<>=!,";

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/// Recursive descent over AIP-160's grammar:
///   expression = sequence {"AND" sequence};  sequence = factor {factor};
///   factor = term {"OR" term};  term = ["NOT" | "-"] (comparison | "(" expression ")")
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<Expression> parse() {
    Expression all;
    skipSpaces();
    if (atEnd()) return all;
    absl::StatusOr<Expression> expression = parseExpression(0);
    if (expression.ok() && !atEnd()) return unexpected("the end of the filter, AND, OR or another comparison");
    return expression;
  }

 private:
  bool atEnd() const { return at_ >= text_.size(); }
  char peek() const { return atEnd() ? '\0' : text_[at_]; }
  void skipSpaces() { at_ = std::min(text_.find_first_not_of(kSpaces, at_), text_.size()); }

  /// The word at the current position, without consuming it.
  std::string_view word() const {
    size_t end = at_;
    const bool label = text_.substr(at_).starts_with("labels.");  // label keys may contain dashes
    while (end < text_.size() && (isNameChar(text_[end]) || (label && text_[end] == '-'))) ++end;
    return text_.substr(at_, end - at_);
  }
  bool takeWord(std::string_view expected) {
    if (word() != expected) return false;
    at_ += expected.size();
    skipSpaces();
    return true;
  }

  absl::Status unexpected(std::string_view accepted) const {
    if (atEnd()) return filterError(at_ + 1, "the end of the filter", accepted);
    const std::string_view found = word().empty() ? text_.substr(at_, 1) : word();
    return filterError(at_ + 1, absl::StrCat("\"", std::string(found.substr(0, 40)), "\""), accepted);
  }

  absl::StatusOr<Expression> parseExpression(int depth) {
    if (depth > kMaxFilterDepth) {
      return filterError(at_ + 1, "one more level", absl::StrCat("at most ", kMaxFilterDepth, " levels of nesting"));
    }
    std::vector<Expression> children;
    do {
      absl::StatusOr<Expression> factor = parseFactor(depth);
      if (!factor.ok()) return factor;
      children.push_back(*std::move(factor));
    } while (takeWord("AND") || startsTerm());
    return joined(Expression::Kind::kAnd, std::move(children));
  }

  /// Adjacent terms form a conjunction.
  bool startsTerm() const {
    return !atEnd() && (peek() == '(' || peek() == '-' || isNameChar(peek())) && word() != "OR";
  }

  absl::StatusOr<Expression> parseFactor(int depth) {
    std::vector<Expression> children;
    do {
      absl::StatusOr<Expression> term = parseTerm(depth);
      if (!term.ok()) return term;
      children.push_back(*std::move(term));
    } while (takeWord("OR"));
    return joined(Expression::Kind::kOr, std::move(children));
  }

  absl::StatusOr<Expression> parseTerm(int depth) {
    bool negated = takeWord("NOT");
    if (!negated && peek() == '-') {
      negated = true;
      ++at_;
    }
    absl::StatusOr<Expression> inner = peek() == '(' ? parseGroup(depth) : parseComparison();
    if (!inner.ok() || !negated) return inner;
    Expression expression;
    expression.kind = Expression::Kind::kNot;
    expression.children.push_back(*std::move(inner));
    return expression;
  }

  absl::StatusOr<Expression> parseGroup(int depth) {
    ++at_;
    skipSpaces();
    absl::StatusOr<Expression> inner = parseExpression(depth + 1);
    if (!inner.ok()) return inner;
    if (peek() != ')') return unexpected("\")\"");
    ++at_;
    skipSpaces();
    return inner;
  }

  absl::StatusOr<Expression> parseComparison() {
    if (++comparisons_ > kMaxFilterComparisons) {
      return filterError(at_ + 1, "one more comparison", absl::StrCat("at most ", kMaxFilterComparisons));
    }
    Expression expression;
    expression.kind = Expression::Kind::kComparison;
    Comparison& comparison = expression.comparison;
    const std::string_view field = word();
    if (field.empty() || field == "AND" || field == "OR" || field == "NOT") {
      return unexpected("a field's name, NOT, \"-\" or \"(\"");
    }
    comparison.field = {std::string(field), at_ + 1};
    at_ += field.size();
    skipSpaces();
    for (std::string_view op : kOperators) {
      if (!text_.substr(at_).starts_with(op)) continue;
      comparison.op = {std::string(op), at_ + 1};
      at_ += op.size();
      break;
    }
    if (comparison.op.text.empty()) return unexpected("one of = != < <= > >= : after a field");
    skipSpaces();
    TESSERA_RETURN_IF_ERROR(parseValue(comparison));
    skipSpaces();
    return expression;
  }

  absl::Status parseValue(Comparison& comparison) {
    comparison.value.position = at_ + 1;
    if (peek() == '"' || peek() == '\'') return parseQuoted(comparison);
    const size_t end = std::min(text_.find_first_of(kValueEnd, at_), text_.size());
    if (end == at_) return unexpected("a value: a word, a number or a quoted string");
    for (; at_ < end; ++at_) addChar(comparison, text_[at_], text_[at_] == '*');
    return absl::OkStatus();
  }

  absl::Status parseQuoted(Comparison& comparison) {
    const char quote = text_[at_++];
    while (!atEnd() && peek() != quote) {
      const bool escaped = peek() == '\\';
      if (escaped && ++at_ == text_.size()) break;
      if (escaped && std::string_view("\\\"'*").find(peek()) == std::string_view::npos) {
        return filterError(at_, absl::StrCat("\"\\", std::string(1, peek()), "\""), "the escapes \\\\ \\\" \\' \\*");
      }
      addChar(comparison, peek(), peek() == '*' && !escaped);
      ++at_;
    }
    if (atEnd()) return unexpected(absl::StrCat("the closing ", std::string(1, quote)));
    ++at_;
    return absl::OkStatus();
  }

  static void addChar(Comparison& comparison, char c, bool wildcard) {
    if (wildcard) comparison.wildcards.push_back(comparison.value.text.size());
    comparison.value.text.push_back(c);
  }

  static Expression joined(Expression::Kind kind, std::vector<Expression> children) {
    if (children.size() == 1) return std::move(children.front());
    Expression expression;
    expression.kind = kind;
    expression.children = std::move(children);
    return expression;
  }

  std::string_view text_;
  size_t at_ = 0;
  int comparisons_ = 0;
};

}  // namespace

absl::StatusOr<Expression> parseFilter(std::string_view filter) {
  if (filter.size() > kMaxFilterBytes) {
    return filterError(kMaxFilterBytes + 1, absl::StrCat(filter.size(), " bytes"),
                       absl::StrCat("a filter of at most ", kMaxFilterBytes, " bytes"));
  }
  return Parser(filter).parse();
}

absl::Status filterError(size_t position, std::string_view found, std::string_view accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_attribute("filter");
  failure.set_found(std::string(found));
  failure.set_accepted(std::string(accepted));
  failure.set_message(absl::StrCat("filter, character ", position, ": found ", std::string(found),
                                   "; accepted: ", std::string(accepted)));
  return failureStatus(failure);
}

}  // namespace tessera::storage
