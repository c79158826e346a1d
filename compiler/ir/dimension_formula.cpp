#include "compiler/ir/dimension_formula.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace tessera::compiler {
namespace {

constexpr int64_t kGreatestNumber = int64_t{1} << 32;  // of a number in a name
constexpr int64_t kGreatest = int64_t{1} << 62;

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isOfName(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// An interval from least / below to greatest / below.
struct Fraction {
  int64_t least = 0, greatest = 0, below = 1;

  bool multiply(int64_t by) {  // by > 0
    return !__builtin_mul_overflow(least, by, &least) && !__builtin_mul_overflow(greatest, by, &greatest);
  }
  bool divide(int64_t by) { return !__builtin_mul_overflow(below, by, &below); }
  bool add(Fraction other, bool subtract) {
    // The least difference subtracts the greatest number.
    if (subtract) other = {-other.greatest, -other.least, other.below};
    // Brings both to the least common denominator; every multiplication may overflow.
    const int64_t both = std::gcd(below, other.below), own = below / both;
    return multiply(other.below / both) && other.multiply(own) && divide(other.below / both) &&
           !__builtin_add_overflow(least, other.least, &least) &&
           !__builtin_add_overflow(greatest, other.greatest, &greatest);
  }
  bool multiply(const Fraction& other) {
    // Signs may differ, so any corner may be the least product.
    std::array<int64_t, 4> products{};
    if (__builtin_mul_overflow(least, other.least, products.data()) ||
        __builtin_mul_overflow(least, other.greatest, &products[1]) ||
        __builtin_mul_overflow(greatest, other.least, &products[2]) ||
        __builtin_mul_overflow(greatest, other.greatest, &products[3])) {
      return false;
    }
    least = *std::min_element(products.begin(), products.end());
    greatest = *std::max_element(products.begin(), products.end());
    return divide(other.below);
  }
  void round(bool up) {
    const auto one = [&](int64_t above) { return up ? -floorDivide(-above, below) : floorDivide(above, below); };
    *this = {one(least), one(greatest), 1};
  }
  bool isWithin() const { return least > -kGreatest && greatest < kGreatest && below < kGreatest; }
};

/// `size_of`: the bounds of a dimension.
template <typename SizeOf>
std::optional<Fraction> evaluate(const std::vector<DimensionFormula::Step>& steps, const SizeOf& size_of) {
  using Kind = DimensionFormula::Kind;
  // An array on the stack: a run evaluates formulas and must not allocate.
  std::array<Fraction, DimensionFormula::kMaxDepth> stack;
  size_t depth = 0;  // parse() checked the bound
  for (const DimensionFormula::Step& step : steps) {
    const bool pops = step.kind == Kind::kAdd || step.kind == Kind::kSubtract || step.kind == Kind::kMultiply;
    // Steps are in postfix order: numbers and dimensions push, operations combine the last entries.
    if (step.kind == Kind::kNumber || step.kind == Kind::kDimension) {
      stack[depth++] = step.kind == Kind::kNumber ? Fraction{step.number, step.number, 1}
                                                  : size_of(static_cast<size_t>(step.number));
      continue;
    }
    if (pops) --depth;
    Fraction& last = stack[depth - 1];
    bool fits = true;
    switch (step.kind) {
      case Kind::kAdd:
      case Kind::kSubtract:
        fits = last.add(stack[depth], step.kind == Kind::kSubtract);
        break;
      case Kind::kMultiply:
        fits = last.multiply(stack[depth]);
        break;
      case Kind::kDivide:
        fits = last.divide(step.number);
        break;
      default:
        last.round(step.kind == Kind::kCeiling);
    }
    if (!fits || !last.isWithin()) return std::nullopt;
  }
  return stack[0];
}

}  // namespace

/// Grammar. sum: product (+|- product)*; product: operand (* operand | / number | // number)*; operand: number, name,
/// (sum), floor(sum), ceiling(sum), - operand.
class DimensionFormula::Parser {
 public:
  Parser(std::string_view text, std::span<const std::string_view> names) : text_(text), names_(names) {}

  bool parse() {
    skip();
    // A formula needs an operation and a dimension: a number alone is a size, a name alone a dimension.
    return sum(0) && text_.empty() && steps_.size() > 1 &&
           std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.kind == Kind::kDimension; });
  }
  std::vector<Step> take() { return std::move(steps_); }

 private:
  void skip() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }
  bool accept(std::string_view token) {
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    skip();
    return true;
  }
  bool push(Kind kind, int64_t number = 0) {
    // Tracks how many entries the evaluation will need, and limits them here once.
    if (kind == Kind::kNumber || kind == Kind::kDimension) ++depth_;
    if (kind == Kind::kAdd || kind == Kind::kSubtract || kind == Kind::kMultiply) --depth_;
    steps_.push_back({kind, number});
    return steps_.size() <= kMaxSteps && depth_ <= kMaxDepth;
  }

  bool sum(size_t nesting) {
    if (!product(nesting)) return false;
    while (true) {
      const bool add = accept("+");
      if (!add && !accept("-")) return true;
      if (!product(nesting) || !push(add ? Kind::kAdd : Kind::kSubtract)) return false;
    }
  }
  bool product(size_t nesting) {
    if (!operand(nesting)) return false;
    while (true) {
      const bool floor = accept("//");
      int64_t by = 0;
      if (floor || accept("/")) {
        if (!number(by) || by == 0 || !push(Kind::kDivide, by) || (floor && !push(Kind::kFloor))) return false;
      } else if (accept("*")) {
        if (!operand(nesting) || !push(Kind::kMultiply)) return false;
      } else {
        return true;
      }
    }
  }
  bool operand(size_t nesting) {
    if (nesting == kMaxDepth) return false;
    if (accept("(")) return sum(nesting + 1) && accept(")");
    // -x is 0 - x.
    if (accept("-")) return push(Kind::kNumber, 0) && operand(nesting + 1) && push(Kind::kSubtract);
    int64_t value = 0;
    if (!text_.empty() && isDigit(text_.front())) return number(value) && push(Kind::kNumber, value);
    const auto end = std::find_if_not(text_.begin(), text_.end(), isOfName);
    const std::string_view word = text_.substr(0, static_cast<size_t>(end - text_.begin()));
    text_.remove_prefix(word.size());
    skip();
    if (word.empty()) return false;
    if ((word == "floor" || word == "ceiling") && accept("("))
      return sum(nesting + 1) && accept(")") && push(word == "floor" ? Kind::kFloor : Kind::kCeiling);
    const auto found = std::find(names_.begin(), names_.end(), word);
    return found != names_.end() && push(Kind::kDimension, found - names_.begin());
  }
  bool number(int64_t& value) {
    const std::string_view before = text_;
    for (; !text_.empty() && isDigit(text_.front()); text_.remove_prefix(1)) {
      value = 10 * value + (text_.front() - '0');
      if (value > kGreatestNumber) return false;
    }
    // "2x" is neither a number nor a name.
    const bool ends = text_.empty() || !isOfName(text_.front());
    const bool any = text_.size() < before.size();
    skip();
    return any && ends;
  }

  std::string_view text_;
  std::span<const std::string_view> names_;
  std::vector<Step> steps_;
  size_t depth_ = 0;
};

std::optional<DimensionFormula> DimensionFormula::parse(std::string_view name,
                                                        std::span<const std::string_view> names) {
  Parser parser(name, names);
  if (names.size() > kMaxNames || !parser.parse()) return std::nullopt;
  DimensionFormula formula;
  formula.steps_ = parser.take();
  return formula;
}

bool DimensionFormula::reads(size_t position) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.kind == Kind::kDimension && static_cast<size_t>(step.number) == position;
  });
}

std::optional<int64_t> DimensionFormula::value(std::span<const int64_t> sizes) const {
  const auto found = evaluate(steps_, [&](size_t i) { return Fraction{sizes[i], sizes[i], 1}; });
  if (!found || found->least < 0 || found->least % found->below != 0) return std::nullopt;
  return found->least / found->below;
}

std::optional<int64_t> DimensionFormula::greatest(std::span<const Bounds> bounds) const {
  const auto found = evaluate(steps_, [&](size_t i) { return Fraction{bounds[i].least, bounds[i].greatest, 1}; });
  if (!found) return std::nullopt;
  return floorDivide(found->greatest, found->below);
}

}  // namespace tessera::compiler
