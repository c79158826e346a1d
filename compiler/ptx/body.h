#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ptx/plan.h"

/// The text between the braces of a kernel while it is written: one instruction a line, each value in a register of its
/// own, arithmetic on indices of 32 bits below 2^31.
namespace tessera::compiler::ptx {

int log2of(int64_t power);

class Body {
 public:
  template <typename... Words>
  void line(const Words&... words) {
    absl::StrAppend(&text_, "  ", words..., "\n");
  }
  /// A register that nobody has: "p" predicates, "h" 16 bits, "r" 32, "f" f32, "w" 64, "d" f64.
  std::string fresh(const std::string& prefix) { return absl::StrCat("%", prefix, counts_[prefix]++); }
  /// A 32-bit value computed by an instruction of two operands.
  template <typename Right>
  std::string made(const char* op, const std::string& left, const Right& right) {
    const std::string to = fresh("r");
    line(op, " ", to, ", ", left, ", ", right, ";");
    return to;
  }
  std::string zero();
  std::string plus(const std::string& left, int64_t right) { return right == 0 ? left : made("add.s32", left, right); }
  /// By the upper half of a product (Granlund and Montgomery, 1994).
  std::string divided(const std::string& value, int64_t divisor);
  /// What is left, where `quotient` is known.
  std::string rest(const std::string& value, const std::string& quotient, int64_t divisor);
  std::string modulo(const std::string& value, int64_t divisor);
  /// `sum` (none: 0) and what the parts of an index add to it.
  std::string addressed(std::string sum, const std::string& index, const std::vector<Part>& parts);

  /// What a thread adds, where each bit of its number `lane` adds its own.
  std::string byThread(const std::string& lane, const std::vector<int64_t>& values);

  const std::string& text() const { return text_; }
  /// What was written so far, which is left out; and lines that were.
  std::string takeText() { return std::exchange(text_, {}); }
  void addText(const std::string& lines) { text_ += lines; }
  /// The lines that declare its registers.
  std::string declared() const;

 private:
  std::string text_;
  std::map<std::string, int> counts_;
};

}  // namespace tessera::compiler::ptx
