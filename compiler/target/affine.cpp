#include "compiler/target/affine.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  absl::StatusOr<Affine> sum() {
    Affine affine;
    int64_t sign = take('-') ? -1 : 1;
    do {
      TESSERA_RETURN_IF_ERROR(term(sign, affine));
      sign = take('+') ? 1 : take('-') ? -1 : 0;
    } while (sign != 0);
    std::erase_if(affine.terms, [](const auto& term) { return term.second == 0; });
    return affine;
  }

  bool take(char wanted) {
    skipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  absl::Status expectEnd() {
    skipSpace();
    return at_ == text_.size() ? absl::OkStatus() : fault("'+', '-', '*' or the end");
  }

  absl::Status fault(const char* accepted) {
    skipSpace();
    const std::string found =
        at_ == text_.size() ? "the end" : absl::StrCat("'", absl::CHexEscape(std::string(text_.substr(at_, 8))), "'");
    return absl::InvalidArgumentError(absl::StrCat("column ", at_ + 1, ": found ", found, ", accepted is ", accepted));
  }

 private:
  void skipSpace() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  absl::Status term(int64_t sign, Affine& affine) {
    skipSpace();
    int64_t factor = sign;
    std::string name;
    // One number and one name at most, in either order: a product of two names would not be affine.
    for (bool more = true; more; more = take('*')) {
      skipSpace();
      const size_t begin = at_;
      while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
      const std::string_view word = text_.substr(begin, at_ - begin);
      int32_t number = 0;
      if (!word.empty() && absl::ascii_isalpha(word[0]) && name.empty()) {
        name = word;
      } else if (factor == sign && absl::SimpleAtoi(absl::string_view(word.data(), word.size()), &number)) {
        factor *= number;
      } else {
        at_ = begin;
        return fault("a number below 2^31, a name, or one of each with '*' between");
      }
    }
    if (name.empty()) {
      affine.constant += factor;
      return absl::OkStatus();
    }
    const auto same =
        std::find_if(affine.terms.begin(), affine.terms.end(), [&](const auto& term) { return term.first == name; });
    if (same == affine.terms.end()) {
      affine.terms.emplace_back(name, factor);
    } else {
      same->second += factor;
    }
    return absl::OkStatus();
  }

  std::string_view text_;
  size_t at_ = 0;
};

absl::Status tooLong(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("has ", text.size(), " bytes; at most ", kMaxAffineBytes, " are accepted"));
}

}  // namespace

int64_t Affine::coefficientOf(std::string_view name) const {
  const auto found = std::find_if(terms.begin(), terms.end(), [&](const auto& term) { return term.first == name; });
  return found == terms.end() ? 0 : found->second;
}

absl::StatusOr<Affine> parseAffine(std::string_view text) {
  if (text.size() > kMaxAffineBytes) return tooLong(text);
  Reader reader(text);
  absl::StatusOr<Affine> sum = reader.sum();
  if (!sum.ok()) return sum;
  TESSERA_RETURN_IF_ERROR(reader.expectEnd());
  return sum;
}

absl::StatusOr<Affine> parseBound(std::string_view text) {
  if (text.size() > kMaxAffineBytes) return tooLong(text);
  Reader reader(text);
  absl::StatusOr<Affine> left = reader.sum();
  if (!left.ok()) return left;
  if (!reader.take('<')) return reader.fault("'<'");
  absl::StatusOr<Affine> right = reader.sum();
  if (!right.ok()) return right;
  TESSERA_RETURN_IF_ERROR(reader.expectEnd());
  // left < right becomes left - right < 0.
  for (const auto& [name, coefficient] : right->terms) {
    const auto same = std::find_if(left->terms.begin(), left->terms.end(),
                                   [&, &name = name](const auto& term) { return term.first == name; });
    if (same == left->terms.end()) {
      left->terms.emplace_back(name, -coefficient);
    } else {
      same->second -= coefficient;
    }
  }
  std::erase_if(left->terms, [](const auto& term) { return term.second == 0; });
  left->constant -= right->constant;
  return left;
}

std::string print(const Affine& affine) {
  std::string text;
  const auto append = [&](int64_t number, const std::string& name) {
    const int64_t magnitude = number < 0 ? -number : number;
    absl::StrAppend(&text, text.empty() ? (number < 0 ? "-" : "") : (number < 0 ? " - " : " + "));
    if (name.empty()) {
      absl::StrAppend(&text, magnitude);
    } else {
      absl::StrAppend(&text, magnitude == 1 ? "" : absl::StrCat(magnitude, " * "), name);
    }
  };
  for (const auto& [name, coefficient] : affine.terms) append(coefficient, name);
  if (affine.constant != 0 || text.empty()) append(affine.constant, "");
  return text;
}

}  // namespace tessera::compiler
