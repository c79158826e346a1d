#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/loopnest/body.h"
#include "compiler/loopnest/text_reader.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::loopnest {
namespace {

constexpr int kMaxNested = 64;  ///< parentheses and signs: the reader recurses

struct Assignment {
  std::string_view text;
  Combine combine;
};
constexpr Assignment kAssignments[] = {
    {"+=", Combine::kSum}, {"*=", Combine::kProduct}, {"max=", Combine::kMaximum}, {"min=", Combine::kMinimum}};
constexpr Assignment kReductions[] = {
    {"sum", Combine::kSum}, {"prod", Combine::kProduct}, {"max", Combine::kMaximum}, {"min", Combine::kMinimum}};

/// Reads one statement and appends it to a nest.
class StatementReader : private TextReader {
 public:
  StatementReader(std::string_view text, Nest& nest, std::vector<std::string>& loops)
      : TextReader(text, "_.#", 16), nest_(nest), loops_(loops), first_(nest.accesses.size()) {}

  absl::Status run() {
    TESSERA_RETURN_IF_ERROR(findAssignment());
    TESSERA_ASSIGN_OR_RETURN(statement_.output, access());
    if (at_ != left_end_) return fault("one access before the assignment");
    at_ = right_begin_;
    const std::optional<Combine> around = reductionAround();
    // Each part of an expression is used by the next one, so its result is the last operation, or the only input.
    TESSERA_RETURN_IF_ERROR(sum().status());
    if (around && !take(')')) return fault("')'");
    skipSpace();
    if (at_ != text_.size()) return fault("'+', '-', '*', '/' or the end of the statement");
    if (around) statement_.body.combine = *around;
    numberOperands();
    close();
    return absl::OkStatus();
  }

 private:
  /// Inputs and operations are numbered apart until the number of inputs is known.
  struct Value {
    bool input = false;
    int number = 0;
  };

  absl::Status findAssignment() {
    const size_t equals = text_.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("'", absl::CHexEscape(std::string(text_)), "' has no '+=' or '='"));
    left_end_ = equals;
    right_begin_ = equals + 1;
    for (const Assignment& row : kAssignments) {
      if (!text_.substr(0, right_begin_).ends_with(row.text)) continue;
      statement_.body.combine = row.combine;
      statement_.body.keeps = true;
      left_end_ = right_begin_ - row.text.size();
    }
    while (left_end_ > 0 && text_[left_end_ - 1] == ' ') --left_end_;
    return absl::OkStatus();
  }

  /// "max(" around the whole right side, with one argument: a reduction, and no call.
  std::optional<Combine> reductionAround() {
    const size_t before = at_;
    const std::string_view name = word();
    for (const Assignment& row : kReductions) {
      if (statement_.body.keeps || row.text != name || !take('(')) continue;
      int depth = 1;
      bool several = false;
      for (size_t i = at_; i < text_.size(); ++i) {
        const char c = text_[i];
        depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
        several = several || (c == ',' && depth == 1);
        if (depth == 0) {
          if (!several && text_.substr(i + 1).find_first_not_of(' ') == std::string_view::npos) return row.combine;
          break;
        }
      }
      break;
    }
    at_ = before;
    return std::nullopt;
  }

  absl::StatusOr<Value> sum() {
    TESSERA_ASSIGN_OR_RETURN(Value left, product());
    while (true) {
      const char* name = take('+') ? "add" : take('-') ? "sub" : nullptr;
      if (name == nullptr) return left;
      TESSERA_ASSIGN_OR_RETURN(const Value right, product());
      left = append({.name = name, .operands = {}}, {left, right});
    }
  }

  absl::StatusOr<Value> product() {
    TESSERA_ASSIGN_OR_RETURN(Value left, factor());
    while (true) {
      const char* name = take('*') ? "mul" : take('/') ? "div" : nullptr;
      if (name == nullptr) return left;
      TESSERA_ASSIGN_OR_RETURN(const Value right, factor());
      left = append({.name = name, .operands = {}}, {left, right});
    }
  }

  absl::StatusOr<Value> factor() {
    if (++depth_ > kMaxNested) return fault("no more than 64 parentheses and signs within each other");
    absl::StatusOr<Value> value = primary();
    --depth_;
    return value;
  }

  absl::StatusOr<Value> primary() {
    if (take('-')) {
      TESSERA_ASSIGN_OR_RETURN(const Value of, factor());
      return append({.name = "neg", .operands = {}}, {of});
    }
    if (take('(')) {
      TESSERA_ASSIGN_OR_RETURN(const Value inside, sum());
      if (!take(')')) return fault("')'");
      return inside;
    }
    skipSpace();
    if (at_ < text_.size() && (absl::ascii_isdigit(text_[at_]) || text_[at_] == '.')) return constant();
    const size_t begin = at_;
    const std::string_view name = word();
    if (take('(')) return call(name, begin);
    at_ = begin;
    TESSERA_ASSIGN_OR_RETURN(const int input, access());
    statement_.inputs.push_back(input);
    return Value{true, static_cast<int>(statement_.inputs.size()) - 1};
  }

  absl::StatusOr<Value> constant() {
    const size_t begin = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '.' ||
                                  (at_ > begin && (text_[at_] == '-' || text_[at_] == '+') && text_[at_ - 1] == 'e')))
      ++at_;
    double number = 0;
    if (!absl::SimpleAtod(absl::string_view(text_.data() + begin, at_ - begin), &number)) {
      at_ = begin;
      return fault("a number");
    }
    return append({.name = "constant", .operands = {}, .constant = number}, {});
  }

  absl::StatusOr<Value> call(std::string_view name, size_t begin) {
    const OperationKind* kind = operationKind(name);
    if (kind == nullptr || kind->operands == 0 || !kind->symbol.empty()) {
      at_ = begin;
      return fault("an access, a number, or a call of max, min, pow, exp, log, sqrt, tanh, erf, abs, floor or ceil");
    }
    std::vector<Value> operands;
    do {
      TESSERA_ASSIGN_OR_RETURN(const Value operand, sum());
      operands.push_back(operand);
    } while (take(','));
    if (operands.size() != kind->operands) {
      at_ = begin;
      return fault(kind->operands == 1 ? "one argument" : "two arguments");
    }
    if (!take(')')) return fault("')'");
    return append({.name = std::string(name), .operands = {}}, operands);
  }

  Value append(Operation operation, const std::vector<Value>& operands) {
    operands_.push_back(operands);
    statement_.body.operations.push_back(std::move(operation));
    return {false, static_cast<int>(operands_.size()) - 1};
  }

  void numberOperands() {
    const int inputs = static_cast<int>(statement_.inputs.size());
    for (size_t o = 0; o < operands_.size(); ++o)
      for (const Value& value : operands_[o])
        statement_.body.operations[o].operands.push_back(value.input ? value.number : inputs + value.number);
  }

  /// "NAME[subscript, ...]" as a position among the accesses; new loops are added to the list.
  absl::StatusOr<int> access() {
    skipSpace();
    const size_t begin = at_;
    Access found;
    found.name = word();
    const size_t close = text_.find(']', at_);
    const std::string_view rest = text_.substr(begin, std::max(at_, begin + 8) - begin);
    if (found.name.empty() || !take('[') || close == std::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", absl::CHexEscape(std::string(rest)), "' is no access; accepted: NAME[subscript, ...]"));
    }
    const std::string inside(text_.substr(at_, close - at_));
    for (const auto part : absl::StrSplit(inside, ',', absl::SkipWhitespace())) {
      TESSERA_ASSIGN_OR_RETURN(Subscript subscript, parseSubscript(std::string_view(part.data(), part.size()), loops_));
      found.subscripts.push_back(std::move(subscript));
    }
    at_ = close + 1;
    // An access of an earlier statement is shared; a statement's own accesses stay apart: A[i] * A[i] has two inputs.
    for (size_t a = 0; a < first_; ++a)
      if (nest_.accesses[a].name == found.name && nest_.accesses[a].subscripts == found.subscripts)
        return static_cast<int>(a);
    nest_.accesses.push_back(std::move(found));
    return static_cast<int>(nest_.accesses.size()) - 1;
  }

  void close() {
    std::vector<int> operands = statement_.inputs;
    operands.push_back(statement_.output);
    bool reduces = false;
    for (int loop = 0; loop < static_cast<int>(loops_.size()); ++loop) {
      if (!std::ranges::any_of(operands, [&](int a) { return nest_.uses(a, loop); })) continue;
      statement_.loops.push_back(loop);
      reduces = reduces || !nest_.uses(statement_.output, loop);
    }
    if (reduces && statement_.body.combine == Combine::kAssign) statement_.body.combine = Combine::kSum;
    statement_.name = nest_.accesses[static_cast<size_t>(statement_.output)].name;
    nest_.statements.push_back(std::move(statement_));
  }

  Nest& nest_;
  std::vector<std::string>& loops_;
  size_t first_;  ///< number of accesses of earlier statements
  size_t left_end_ = 0, right_begin_ = 0;
  int depth_ = 0;
  Statement statement_;
  std::vector<std::vector<Value>> operands_;  ///< of each operation
};

}  // namespace

absl::StatusOr<Nest> parse(const std::string& name, const std::string& text, const std::vector<int64_t>& extents) {
  Nest nest;
  nest.name = name;
  std::vector<std::string> loops;
  for (const auto part : absl::StrSplit(text, absl::ByAnyChar(";\n"), absl::SkipWhitespace())) {
    TESSERA_RETURN_IF_ERROR(StatementReader(std::string_view(part.data(), part.size()), nest, loops).run());
  }
  if (extents.size() != loops.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", loops.size(), " loops and ", extents.size(), " extents"));
  }
  for (size_t i = 0; i < loops.size(); ++i) nest.loops.push_back({.name = loops[i], .extent = extents[i]});
  TESSERA_RETURN_IF_ERROR(validate(nest));
  return nest;
}

}  // namespace tessera::compiler::loopnest
