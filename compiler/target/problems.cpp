#include "compiler/target/problems.h"

#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera::compiler {

void Problems::add(std::string field, std::string message) {
  if (full()) return;
  const bool last = problems_.size() == kMaxProblems;
  v1::TargetProblem& problem = problems_.emplace_back();
  problem.set_field(std::move(field));
  problem.set_message(last ? "and what follows has problems too, which are not listed" : std::move(message));
}

bool Problems::fits(const std::string& field, const std::string& name) {
  if (name.empty()) {
    add(field, "is empty");
  } else if (name.size() > kMaxNameLength) {
    add(field, absl::StrCat("has ", name.size(), " characters; at most ", kMaxNameLength, " are accepted"));
  }
  return !name.empty() && name.size() <= kMaxNameLength;
}

void Problems::illegal(const std::string& field, const std::string& name, const char* accepted) {
  add(field, absl::StrCat("'", absl::CHexEscape(name), "' is not accepted: use ", accepted));
}

void Problems::checkToken(const std::string& field, const std::string& name) {
  checkName(field, name, "letters, digits, '-', '.' and '_'",
            [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("-._", c); });
}

void Problems::checkIdentifier(const std::string& field, const std::string& name) {
  constexpr char kAccepted[] = "letters, digits, '.' and '_', starting with a letter";
  checkName(field, name, kAccepted, [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("._", c); });
  if (!name.empty() && absl::ascii_isdigit(name[0])) illegal(field, name, kAccepted);
}

void Problems::checkRange(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) add(field, absl::StrCat("is ", value, "; accepted: ", low, " to ", high));
}

void Problems::checkPositive(const std::string& field, double value) {
  if (!std::isfinite(value) || value <= 0) add(field, absl::StrCat("is ", value, "; it must be above 0"));
}

void Problems::checkNonNegative(const std::string& field, double value) {
  if (!std::isfinite(value) || value < 0) add(field, absl::StrCat("is ", value, "; it must be 0 (unknown) or above"));
}

void Problems::checkPowerOfTwo(const std::string& field, int64_t value) {
  if (value <= 0 || (value & (value - 1)) != 0) add(field, absl::StrCat("is ", value, "; it must be a power of two"));
}

bool Problems::checkCount(const std::string& field, int count) {
  if (count <= kMaxEntries) return true;
  add(field, absl::StrCat("has ", count, " entries; at most ", kMaxEntries, " are accepted"));
  return false;
}

}  // namespace tessera::compiler
