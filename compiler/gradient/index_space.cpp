#include "compiler/gradient/index_space.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/make_node.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Kind;
using expression::Node;
using expression::NodePtr;

// Numbers of a text are doubles; those below are exact with room for sums.
constexpr int64_t kLargest = int64_t{1} << 49;

int64_t floorDivision(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

}  // namespace

IndexSum IndexSpace::addLoop(const std::string& hint, int64_t extent) {
  std::string name = hint;
  for (int number = 1; !taken_.insert(name).second; ++number) name = absl::StrCat(hint, number);
  atoms_.push_back({.name = name, .range = {0, extent - 1}});
  return sumOf(static_cast<int>(atoms_.size()) - 1);
}

int64_t IndexSpace::checked(__int128 value) {
  if (value < -kLargest || value > kLargest) overflow_ = true;
  return overflow_ ? 0 : static_cast<int64_t>(value);
}

absl::Status IndexSpace::status() const {
  return overflow_ ? absl::OutOfRangeError("the numbers of the subscripts are too large to solve") : absl::OkStatus();
}

IndexSum IndexSpace::plus(const IndexSum& left, const IndexSum& right, int64_t factor) {
  IndexSum sum = left;
  sum.constant = checked(left.constant + static_cast<__int128>(factor) * right.constant);
  for (const auto& [atom, coefficient] : right.terms) {
    int64_t& term = sum.terms[atom];
    term = checked(term + static_cast<__int128>(factor) * coefficient);
  }
  std::erase_if(sum.terms, [](const auto& term) { return term.second == 0; });
  return sum;
}

void IndexSpace::split(const IndexSum& dividend, int64_t divisor, IndexSum& whole, IndexSum& rest) {
  const auto divide = [&](int64_t value) { return floorDivision(value, divisor); };
  whole.constant = divide(dividend.constant);
  rest.constant = dividend.constant - whole.constant * divisor;
  for (const auto& [atom, factor] : dividend.terms) {
    // Truncation keeps -1 * x as it is instead of making it d - 1 times x.
    const int64_t part = factor / divisor;
    if (part != 0) whole.terms[atom] = part;
    if (factor != part * divisor) rest.terms[atom] = factor - part * divisor;
  }
}

IndexSum IndexSpace::quotient(const IndexSum& dividend, int64_t divisor) {
  if (divisor == 1) return dividend;
  IndexSum whole, rest;
  split(dividend, divisor, whole, rest);
  const Range range = rangeOf(rest);
  const int64_t low = floorDivision(range.low, divisor), high = floorDivision(range.high, divisor);
  if (low == high) {
    whole.constant = checked(static_cast<__int128>(whole.constant) + low);
    return whole;
  }
  return plus(whole, sumOf(intern(AtomKind::kQuotient, rest, divisor)));
}

IndexSum IndexSpace::remainder(const IndexSum& dividend, int64_t divisor) {
  if (divisor == 1) return {};
  IndexSum whole, rest;
  split(dividend, divisor, whole, rest);
  const Range range = rangeOf(rest);
  const int64_t low = floorDivision(range.low, divisor);
  if (low != floorDivision(range.high, divisor)) return sumOf(intern(AtomKind::kRemainder, rest, divisor));
  rest.constant = checked(rest.constant - static_cast<__int128>(low) * divisor);
  return rest;
}

int IndexSpace::intern(AtomKind kind, const IndexSum& dividend, int64_t divisor) {
  for (size_t a = 0; a < atoms_.size(); ++a)
    if (atoms_[a].kind == kind && atoms_[a].divisor == divisor && atoms_[a].dividend == dividend)
      return static_cast<int>(a);
  Range range{0, divisor - 1};
  if (kind == AtomKind::kQuotient) {
    const Range values = rangeOf(dividend);
    range = {floorDivision(values.low, divisor), floorDivision(values.high, divisor)};
  }
  atoms_.push_back({.kind = kind, .dividend = dividend, .divisor = divisor, .range = range});
  return static_cast<int>(atoms_.size()) - 1;
}

IndexSum IndexSpace::tightened(const IndexSum& sum) {
  IndexSum best = sum;
  bool improved = true;
  while (improved) {
    improved = false;
    for (const auto& [position, factor] : IndexSum(best).terms) {
      const Atom each = atom(position);
      if (each.kind != AtomKind::kQuotient || factor % each.divisor != 0) continue;
      // d * (x / d) = x - x % d.
      const int64_t times = factor / each.divisor;
      IndexSum other = plus(best, sumOf(position), -factor);
      other = plus(other, each.dividend, times);
      other = plus(other, remainder(each.dividend, each.divisor), -times);
      const Range before = rangeOf(best), after = rangeOf(other);
      const bool narrower = after.high - after.low < before.high - before.low;
      if (other.terms.size() > best.terms.size() || (!narrower && other.terms.size() == best.terms.size())) continue;
      best = other;
      improved = true;
      break;
    }
  }
  return best;
}

Range IndexSpace::rangeOf(const IndexSum& sum) const {
  Range range{sum.constant, sum.constant};
  for (const auto& [position, factor] : sum.terms) {
    const Range& atom_range = atom(position).range;
    // Factors and ranges are below 2^50; saturation keeps the order of bounds.
    const auto scaled = [&](int64_t value) {
      const __int128 product = static_cast<__int128>(factor) * value;
      return static_cast<int64_t>(std::clamp<__int128>(product, -4 * kLargest, 4 * kLargest));
    };
    range.low += scaled(factor > 0 ? atom_range.low : atom_range.high);
    range.high += scaled(factor > 0 ? atom_range.high : atom_range.low);
  }
  return range;
}

void IndexSpace::joinQuotients(IndexSum& dividend, int64_t& divisor) const {
  while (dividend.terms.size() == 1 && dividend.terms.begin()->second == 1) {
    const Atom& inner = atom(dividend.terms.begin()->first);
    if (inner.kind != AtomKind::kQuotient || inner.divisor > kLargest / divisor) return;
    const int64_t constant = dividend.constant * inner.divisor;
    dividend = inner.dividend;
    dividend.constant += constant;
    divisor *= inner.divisor;
  }
}

NodePtr IndexSpace::nodeOf(const IndexSum& sum) const {
  int64_t constant = sum.constant;
  NodePtr text;
  const auto append = [&](NodePtr node, int64_t factor) {
    const int64_t size = std::abs(factor);
    if (size != 1) node = expression::binaryNode("*", expression::integerNode(size), std::move(node));
    if (text == nullptr) {
      text = factor < 0 ? expression::unaryNode("-", std::move(node)) : std::move(node);
    } else {
      text = expression::binaryNode(factor < 0 ? "-" : "+", std::move(text), std::move(node));
    }
  };
  for (const bool positive : {true, false}) {
    for (const auto& [position, factor] : sum.terms) {
      if ((factor > 0) != positive) continue;
      const Atom& each = atom(position);
      if (each.kind == AtomKind::kLoop) {
        append(expression::nameNode(each.name), factor);
        continue;
      }
      const bool quotient = each.kind == AtomKind::kQuotient;
      IndexSum dividend = each.dividend;
      int64_t divisor = each.divisor;
      if (quotient) joinQuotients(dividend, divisor);
      const int64_t low = rangeOf(dividend).low;
      const int64_t shift = low < 0 ? -floorDivision(low, divisor) : 0;
      dividend.constant += shift * divisor;
      if (quotient) constant -= shift * factor;
      append(expression::binaryNode(quotient ? "/" : "%", nodeOf(dividend), expression::integerNode(divisor)), factor);
    }
    // A constant before the negative terms avoids a sign in front.
    if (positive && (constant > 0 || sum.terms.empty())) {
      append(expression::integerNode(constant), 1);
      constant = 0;
    }
  }
  if (constant != 0) append(expression::integerNode(std::abs(constant)), constant < 0 ? -1 : 1);
  return text;
}

absl::StatusOr<IndexSum> IndexSpace::read(const Node& node, const Reading& reading) {
  if (node.kind == Kind::kName) {
    const auto known = reading.names.find(node.name);
    if (known == reading.names.end()) return expression::errorAt(node.at, "there is no loop of this name", node.name);
    return known->second;
  }
  if (node.kind == Kind::kNumber && !node.real && node.number <= static_cast<double>(kLargest))
    return IndexSum{.terms = {}, .constant = static_cast<int64_t>(node.number)};
  const bool negation = node.kind == Kind::kUnary && node.name == "-";
  if (!negation && node.kind != Kind::kBinary)
    return expression::errorAt(node.at, "this is no integer function of the loops", node.name,
                               "sums, multiples, / and % by positive constants");
  TESSERA_ASSIGN_OR_RETURN(IndexSum left, read(*node.children[0], reading));
  if (negation) return plus({}, left, -1);
  TESSERA_ASSIGN_OR_RETURN(IndexSum right, read(*node.children[1], reading));
  if (node.name == "+" || node.name == "-") return plus(left, right, node.name == "+" ? 1 : -1);
  if (node.name == "*" && left.terms.empty()) std::swap(left, right);
  const bool divides = node.name == "/" || node.name == "%";
  if ((node.name != "*" && !divides) || !right.terms.empty() || (divides && right.constant < 1))
    return expression::errorAt(node.at, "this is no integer function of the loops with constant factors", node.name,
                               "sums, multiples, / and % by positive constants");
  if (node.name == "*") return plus({}, left, right.constant);
  if (node.name == "%" && reading.keep_remainders) return remainder(left, right.constant);
  if (reading.as_value && node.name == "/" && rangeOf(left).low < 0)
    return expression::errorAt(node.at, "a negative value is divided here, which rounds to 0", node.name);
  const IndexSum whole = quotient(left, right.constant);
  return node.name == "/" ? whole : plus(left, whole, -right.constant);
}

}  // namespace tessera::compiler::gradient
