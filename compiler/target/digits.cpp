#include "compiler/target/digits.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tessera::compiler {

absl::StatusOr<Digit> parseDigit(const std::string& text) {
  constexpr int64_t kMost = 1 << 20;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  Digit digit;
  digit.iteration = words[0];
  bool read = !words[0].empty() && words.size() % 2 == 1 && words.size() <= 5;
  for (size_t i = 1; read && i < words.size(); i += 2) {
    int64_t number = 0;
    read = absl::SimpleAtoi(words[i + 1], &number) && number >= 1 && number <= kMost;
    if (words[i] == "/" && i == 1) {
      digit.divisor = number;
    } else if (words[i] == "%" && i + 2 == words.size()) {
      digit.values = number;
    } else {
      read = false;
    }
  }
  if (read) return digit;
  return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(text.substr(0, 32)),
                                                 "' is no digit; accepted: \"i\", \"i / 8\", \"i % 8\", "
                                                 "\"i / 8 % 2\""));
}

}  // namespace tessera::compiler
