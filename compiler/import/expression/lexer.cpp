#include "compiler/import/expression/lexer.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/model_error.h"

namespace tessera::compiler::expression {
namespace {

// Longer symbols come first, because the first match is taken.
constexpr std::string_view kSymbols[] = {"<=", ">=", "==", "!=", "&&", "||", "+=", "*=", "(", ")", "[", "]", ",", ";",
                                         ":",  "?",  "=",  "<",  ">",  "+",  "-",  "*",  "/", "%", "!", "&", "|"};

bool startsName(char c) { return absl::ascii_isalpha(c) || c == '_'; }
bool continuesName(char c) { return absl::ascii_isalnum(c) || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<Token>> run() {
    std::vector<Token> tokens;
    while (skipBlanks(), next_ < text_.size()) {
      // Tokens keep the position where they start, for messages.
      const Position at = at_;
      const size_t start = next_;
      if (startsName(peek())) {
        while (continuesName(peek())) advance();
        tokens.push_back({TokenKind::kName, std::string(text_.substr(start, next_ - start)), at});
      } else if (absl::ascii_isdigit(peek()) || (peek() == '.' && absl::ascii_isdigit(peek(1)))) {
        number();
        tokens.push_back({TokenKind::kNumber, std::string(text_.substr(start, next_ - start)), at});
      } else {
        const std::string_view symbol = symbolHere();
        if (symbol.empty()) {
          return errorAt(at, "this character has no meaning here", std::string(text_.substr(start, 1)));
        }
        for (size_t i = 0; i < symbol.size(); ++i) advance();
        tokens.push_back({TokenKind::kSymbol, std::string(symbol), at});
      }
    }
    tokens.push_back({TokenKind::kEnd, "", at_});
    return tokens;
  }

 private:
  char peek(size_t ahead = 0) const { return next_ + ahead < text_.size() ? text_[next_ + ahead] : '\0'; }

  void advance() {
    if (text_[next_++] == '\n') {
      ++at_.line;
      at_.column = 1;
    } else {
      ++at_.column;
    }
  }

  void skipBlanks() {
    while (next_ < text_.size()) {
      if (absl::ascii_isspace(peek())) {
        advance();
      } else if (peek() == '#' || (peek() == '/' && peek(1) == '/')) {
        while (next_ < text_.size() && peek() != '\n') advance();
      } else {
        return;
      }
    }
  }

  // Reads a number: 12, 1.5, .5, 1e-3
  void number() {
    while (absl::ascii_isdigit(peek()) || peek() == '.') advance();
    if (peek() != 'e' && peek() != 'E') return;
    const size_t sign = peek(1) == '-' || peek(1) == '+' ? 1 : 0;
    // An "e" without digits is the start of a name.
    if (!absl::ascii_isdigit(peek(1 + sign))) return;
    for (size_t i = 0; i <= sign; ++i) advance();
    while (absl::ascii_isdigit(peek())) advance();
  }

  std::string_view symbolHere() const {
    for (std::string_view symbol : kSymbols) {
      if (text_.substr(next_).starts_with(symbol)) return symbol;
    }
    return "";
  }

  std::string_view text_;
  size_t next_ = 0;
  Position at_;
};

}  // namespace

absl::Status errorAt(Position at, const std::string& message, const std::string& found, const std::string& accepted) {
  const std::string place = absl::StrCat("line ", at.line, ", column ", at.column);
  return fault(v1::Failure::INVALID_MODEL,
               absl::StrCat(place, ": ", message, found.empty() ? "" : ": '", found, found.empty() ? "" : "'"),
               {.attribute = place, .found = found, .accepted = accepted});
}

absl::StatusOr<std::vector<Token>> tokenize(std::string_view text) { return Lexer(text).run(); }

}  // namespace tessera::compiler::expression
