#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/backends/ptx/plan.h"

/// Builds the text between the braces of a kernel: one instruction per line, each value in a new register. Arithmetic
/// on indices uses 32 bits; indices are below 2^31.
namespace tessera::compiler::ptx {

int log2of(int64_t power);

class Body {
 public:
  template <typename... Words>
  void line(const Words&... words) {
    absl::StrAppend(&text_, "  ", words..., "\n");
  }
  /// A new register: "p" predicates, "h" 16 bits, "r" 32, "f" f32, "w" 64, "d" f64.
  std::string fresh(const std::string& prefix) { return absl::StrCat("%", prefix, counts_[prefix]++); }
  /// A 32-bit value, the result of an instruction with two operands.
  template <typename Right>
  std::string made(const char* op, const std::string& left, const Right& right) {
    const std::string to = fresh("r");
    line(op, " ", to, ", ", left, ", ", right, ";");
    return to;
  }
  std::string zero();
  std::string plus(const std::string& left, int64_t right) { return right == 0 ? left : made("add.s32", left, right); }
  /// Division by a constant through the upper half of a product (Granlund and Montgomery, 1994).
  std::string divided(const std::string& value, int64_t divisor);
  /// The remainder, for a known `quotient`.
  std::string rest(const std::string& value, const std::string& quotient, int64_t divisor);
  std::string modulo(const std::string& value, int64_t divisor);
  /// `sum` (empty: 0) plus the contributions of an index's parts.
  std::string addressed(std::string sum, const std::string& index, const std::vector<Part>& parts);

  /// A per-thread value to which each bit of the thread's number `lane` contributes its entry of `values`.
  std::string byThread(const std::string& lane, const std::vector<int64_t>& values);

  const std::string& text() const { return text_; }
  /// Removes and returns the text written so far; addText() appends lines.
  std::string takeText() { return std::exchange(text_, {}); }
  void addText(const std::string& lines) { text_ += lines; }
  /// The declarations of its registers.
  std::string declared() const;

 private:
  std::string text_;
  std::map<std::string, int> counts_;
};

}  // namespace tessera::compiler::ptx
