#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tessera::compiler::loopnest {

/// A position in a text: the base of recursive-descent readers. Spaces between tokens are skipped.
class TextReader {
 protected:
  /// Names consist of letters, digits and `in_names`. Errors show the next `shown` characters.
  TextReader(std::string_view text, std::string_view in_names, size_t shown)
      : text_(text), in_names_(in_names), shown_(shown) {}

  void skipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(char wanted) {
    skipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  std::string_view word() {
    skipSpace();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (absl::ascii_isalnum(text_[at_]) || in_names_.find(text_[at_]) != std::string_view::npos))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

  /// Returns INVALID_ARGUMENT with the column, the text found there, and the accepted text.
  absl::Status fault(std::string_view accepted) {
    skipSpace();
    const std::string found = at_ == text_.size()
                                  ? "the end"
                                  : absl::StrCat("'", absl::CHexEscape(std::string(text_.substr(at_, shown_))), "'");
    return absl::InvalidArgumentError(
        absl::StrCat("column ", at_ + 1, ": found ", found, ", accepted is ", std::string(accepted)));
  }

  std::string_view text_;
  size_t at_ = 0;

 private:
  std::string_view in_names_;
  size_t shown_;
};

}  // namespace tessera::compiler::loopnest
