#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/loopnest/subscript.h"
#include "compiler/loopnest/text_reader.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::loopnest {
namespace {

void addTerm(std::vector<Term>& terms, const Term& added) {
  const auto same = std::ranges::find(terms, added.loop, &Term::loop);
  if (same == terms.end()) {
    terms.push_back(added);
  } else {
    same->coefficient += added.coefficient;
  }
}

void dropZeros(std::vector<Term>& terms) {
  std::erase_if(terms, [](const Term& term) { return term.coefficient == 0; });
}

/// A recursive-descent reader. Parentheses nest only as far as a digit needs, so the depth of calls is limited.
class Reader : private TextReader {
 public:
  using TextReader::fault;
  using TextReader::take;

  Reader(std::string_view text, std::vector<std::string>& names) : TextReader(text, "_.", 8), names_(names) {}

  absl::StatusOr<Subscript> sum(bool digits_accepted) {
    Subscript sum;
    int64_t sign = take('-') ? -1 : 1;
    do {
      TESSERA_RETURN_IF_ERROR(addend(sign, digits_accepted, sum));
      sign = take('+') ? 1 : take('-') ? -1 : 0;
    } while (sign != 0);
    dropZeros(sum.terms);
    std::erase_if(sum.digits, [](const Digit& digit) { return digit.coefficient == 0; });
    return sum;
  }

  absl::Status expectEnd() {
    skipSpace();
    return at_ == text_.size() ? absl::OkStatus() : fault("'+', '-', '*' or the end");
  }

 private:
  int loopOf(std::string_view name) {
    const auto found = std::ranges::find(names_, name);
    if (found != names_.end()) return static_cast<int>(found - names_.begin());
    names_.emplace_back(name);
    return static_cast<int>(names_.size()) - 1;
  }

  /// A positive number after '/' or '%'.
  absl::StatusOr<int64_t> divisor() {
    skipSpace();
    const size_t begin = at_;
    const std::string_view found = word();
    int32_t number = 0;
    if (!absl::SimpleAtoi(absl::string_view(found.data(), found.size()), &number) || number < 1) {
      at_ = begin;
      return fault("a number from 1 to 2^31 - 1");
    }
    return number;
  }

  /// At most one number, and one name or digit, in either order: a product of two names would not be affine.
  absl::Status addend(int64_t sign, bool digits_accepted, Subscript& sum) {
    int64_t factor = sign;
    bool numbered = false, named = false;
    Digit digit;
    for (bool more = true; more; more = take('*')) {
      skipSpace();
      const size_t begin = at_;
      if (digits_accepted && !named && take('(')) {
        TESSERA_ASSIGN_OR_RETURN(digit, parenthesis());
        named = true;
        continue;
      }
      const std::string_view found = word();
      int32_t number = 0;
      if (!found.empty() && absl::ascii_isalpha(found[0]) && !named) {
        named = true;
        digit.terms.push_back({loopOf(found), 1});
        // "2 * x / 4" would divide 2 * x.
        if (digits_accepted && !numbered) {
          TESSERA_RETURN_IF_ERROR(division(digit));
        }
      } else if (!numbered && absl::SimpleAtoi(absl::string_view(found.data(), found.size()), &number)) {
        numbered = true;
        factor *= number;
      } else {
        at_ = begin;
        return fault("a number below 2^31, a name, or one of each with '*' between");
      }
    }
    digit.coefficient = factor;
    if (!named) {
      sum.constant += factor;
    } else if (digit.divisor == 1 && digit.modulus == 0) {
      for (const Term& term : digit.terms) addTerm(sum.terms, {term.loop, term.coefficient * factor});
      sum.constant += factor * digit.constant;
    } else {
      sum.digits.push_back(std::move(digit));
    }
    return absl::OkStatus();
  }

  /// "/ 16 % 4" after the dividend, each part once.
  absl::Status division(Digit& digit) {
    if (digit.divisor == 1 && digit.modulus == 0 && take('/')) {
      TESSERA_ASSIGN_OR_RETURN(digit.divisor, divisor());
    }
    if (digit.modulus == 0 && take('%')) {
      TESSERA_ASSIGN_OR_RETURN(digit.modulus, divisor());
    }
    return absl::OkStatus();
  }

  /// The rest of "(SUM) / 16 % 4" or "(SUM / 16) % 4", after the first parenthesis.
  absl::StatusOr<Digit> parenthesis() {
    Digit digit;
    if (take('(')) {
      TESSERA_ASSIGN_OR_RETURN(digit, parenthesis());
    } else {
      TESSERA_ASSIGN_OR_RETURN(const Subscript inside, sum(/*digits_accepted=*/false));
      digit.terms = inside.terms;
      digit.constant = inside.constant;
      // "(x + y / 2)" would divide y alone.
      if (inside.terms.size() == 1 && inside.constant == 0 && inside.terms[0].coefficient == 1) {
        TESSERA_RETURN_IF_ERROR(division(digit));
      }
      if (!take(')')) return fault("')'");
      TESSERA_RETURN_IF_ERROR(division(digit));
      // A product of a number and a sum is refused: coefficients would have no bound.
      if (digit.divisor == 1 && digit.modulus == 0) return fault("'/' or '%'");
      return digit;
    }
    TESSERA_RETURN_IF_ERROR(division(digit));
    if (!take(')')) return fault("')'");
    TESSERA_RETURN_IF_ERROR(division(digit));
    return digit;
  }

  std::vector<std::string>& names_;
};

absl::Status tooLong(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("has ", text.size(), " bytes; at most ", kMaxSubscriptBytes, " are accepted"));
}

}  // namespace

absl::StatusOr<Subscript> parseSubscript(std::string_view text, std::vector<std::string>& names) {
  if (text.size() > kMaxSubscriptBytes) return tooLong(text);
  Reader reader(text, names);
  absl::StatusOr<Subscript> sum = reader.sum(/*digits_accepted=*/true);
  if (!sum.ok()) return sum;
  TESSERA_RETURN_IF_ERROR(reader.expectEnd());
  return sum;
}

absl::StatusOr<Subscript> parseBound(std::string_view text, std::vector<std::string>& names) {
  if (text.size() > kMaxSubscriptBytes) return tooLong(text);
  Reader reader(text, names);
  absl::StatusOr<Subscript> left = reader.sum(/*digits_accepted=*/true);
  if (!left.ok()) return left;
  if (!reader.take('<')) return reader.fault("'<'");
  absl::StatusOr<Subscript> right = reader.sum(/*digits_accepted=*/true);
  if (!right.ok()) return right;
  TESSERA_RETURN_IF_ERROR(reader.expectEnd());
  // left < right becomes left - right < 0.
  for (const Term& term : right->terms) addTerm(left->terms, {term.loop, -term.coefficient});
  dropZeros(left->terms);
  for (Digit digit : right->digits) {
    digit.coefficient = -digit.coefficient;
    left->digits.push_back(std::move(digit));
  }
  left->constant -= right->constant;
  return left;
}

}  // namespace tessera::compiler::loopnest
