#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/expression/syntax.h"

namespace tessera::compiler::expression {

enum class TokenKind { kName, kNumber, kSymbol, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  Position at;
};

/// Splits a text into tokens; `//` and `#` begin comments. The last token is kEnd.
absl::StatusOr<std::vector<Token>> tokenize(std::string_view text);

}  // namespace tessera::compiler::expression
