#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/target_service.pb.h"

/// Collects the problems of a description: every check names the field, the value found and the values accepted.
namespace tessera::compiler {

class Problems {
 public:
  static constexpr int kMaxNameLength = 63;
  static constexpr int kMaxEntries = 256;  ///< of any repeated field
  static constexpr size_t kMaxProblems = 100;

  /// After kMaxProblems, records only that there are more: a small description can have a million faults.
  void add(std::string field, std::string message);
  /// Whether add() no longer records anything, so that checks can be skipped.
  bool full() const { return problems_.size() > kMaxProblems; }

  /// A name of characters that satisfy `legal`, starting with a letter or digit; `accepted` describes the rule.
  template <typename Predicate>
  void checkName(const std::string& field, const std::string& name, const char* accepted, Predicate legal) {
    if (!fits(field, name)) return;
    if (!std::all_of(name.begin(), name.end(), legal) || !absl::ascii_isalnum(name[0])) illegal(field, name, accepted);
  }
  /// Checks a name that becomes part of LLVM's options, where a stray ',' or ' ' would change the meaning.
  void checkToken(const std::string& field, const std::string& name);
  /// Checks a name that occurs in affine expressions.
  void checkIdentifier(const std::string& field, const std::string& name);
  void checkRange(const std::string& field, int64_t value, int64_t low, int64_t high);
  void checkPositive(const std::string& field, double value);
  void checkNonNegative(const std::string& field, double value);
  void checkPowerOfTwo(const std::string& field, int64_t value);
  /// Whether a repeated field has few enough entries to be checked.
  bool checkCount(const std::string& field, int count);

  std::vector<v1::TargetProblem> take() { return std::move(problems_); }

 private:
  bool fits(const std::string& field, const std::string& name);
  void illegal(const std::string& field, const std::string& name, const char* accepted);

  std::vector<v1::TargetProblem> problems_;
};

}  // namespace tessera::compiler
