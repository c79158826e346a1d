#include "compiler/graph/slices/loop_space.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera::compiler {
namespace {

using loopnest::Term;

void addTerm(Terms& subscript, Term term) {
  auto known = std::ranges::find(subscript, term.loop, &Term::loop);
  if (known == subscript.end()) {
    subscript.push_back(term);
  } else {
    known->coefficient += term.coefficient;
  }
}

bool equal(Terms a, Terms b) {
  auto order = [](const Term& x, const Term& y) { return x.loop < y.loop; };
  std::ranges::sort(a, order);
  std::ranges::sort(b, order);
  return std::ranges::equal(
      a, b, [](const Term& x, const Term& y) { return x.loop == y.loop && x.coefficient == y.coefficient; });
}

/// Whether every term of `part` is one of `whole`.
bool covers(const Terms& whole, const Terms& part) {
  return std::ranges::all_of(part, [&](const Term& term) {
    return std::ranges::any_of(whole,
                               [&](const Term& t) { return t.loop == term.loop && t.coefficient == term.coefficient; });
  });
}

}  // namespace

int LoopSpace::add(int64_t extent, bool cuttable) {
  loops_.push_back({.name = absl::StrCat("x", loops_.size()), .extent = extent});
  cuttable_.push_back(cuttable);
  return static_cast<int>(loops_.size()) - 1;
}

int LoopSpace::hold(Subscripts subscripts) {
  held_.push_back(std::move(subscripts));
  return static_cast<int>(held_.size()) - 1;
}

int64_t LoopSpace::extentOf(const Terms& subscript) const {
  int64_t extent = 1;
  for (const Term& term : subscript) extent += term.coefficient * (loops_[term.loop].extent - 1);
  return extent;
}

bool LoopSpace::inGroups(Terms groups, const Terms& plain) const {
  if (groups.size() != 2 || plain.size() != 1 || plain[0].coefficient != 1) return false;
  if (groups[0].coefficient > groups[1].coefficient) std::swap(groups[0], groups[1]);
  // A loop of groups and one within a group cover the plain loop, perhaps with a rest.
  const int64_t group = loops_[groups[0].loop].extent, missing = extentOf(groups) - loops_[plain[0].loop].extent;
  return groups[0].coefficient == 1 && groups[1].coefficient == group && missing >= 0 && missing < group;
}

void LoopSpace::replace(int loop, const Terms& by) {
  // All subscripts that mention the loop follow.
  for (Subscripts& subscripts : held_) {
    for (Terms& subscript : subscripts) {
      auto at = std::ranges::find(subscript, loop, &Term::loop);
      if (at == subscript.end()) continue;
      const int64_t stride = at->coefficient;
      subscript.erase(at);
      for (const Term& term : by) addTerm(subscript, {term.loop, term.coefficient * stride});
    }
  }
  loops_[loop].extent = 1;  // no longer used
}

bool LoopSpace::unite(int held, const Subscripts& other) {
  // Holds `other` by position, because `replace` below changes held subscripts and `other` must follow.
  const int copy = hold(other);
  if (held_[held].size() != other.size()) return false;
  for (size_t d = 0; d < other.size(); ++d) {
    Terms &a = held_[held][d], &b = held_[copy][d];
    // The needs are equal, or one contains the other.
    if (equal(a, b) || covers(a, b)) continue;
    if (covers(b, a)) {
      a = b;
      continue;
    }
    // One reader counts in groups: the plain loop becomes those two.
    if (inGroups(a, b) || inGroups(b, a)) {
      const Terms groups = a.size() > 1 ? a : b;
      for (const Term& term : groups) cuttable_[term.loop] = false;
      replace((a.size() > 1 ? b : a)[0].loop, groups);
      continue;
    }
    const bool plain = a.size() == 1 && b.size() == 1 && a[0].coefficient == 1 && b[0].coefficient == 1;
    if (!plain || loops_[a[0].loop].extent != loops_[b[0].loop].extent) return false;
    // Read point by point and along the whole dimension: one loop that is never cut.
    const int kept = std::min(a[0].loop, b[0].loop), gone = std::max(a[0].loop, b[0].loop);
    cuttable_[kept] = false;
    replace(gone, {{kept, 1}});
  }
  return true;
}

std::optional<Subscripts> LoopSpace::digits(Terms subscript, const std::vector<int64_t>& sizes) {
  Subscripts result(sizes.size());
  const int whole = hold({std::move(subscript)});
  // Digits from the last dimension on, each taking what is smaller than its size.
  for (size_t d = sizes.size(); d-- > 0;) {
    const int64_t size = sizes[d];
    if (size == 1) continue;
    Terms& rest = held_[whole][0];
    auto unit = std::ranges::find(rest, 1, &Term::coefficient);
    const bool last =
        std::all_of(sizes.begin(), sizes.begin() + static_cast<int64_t>(d), [](int64_t s) { return s == 1; });
    // A loop that spans several digits is split at the boundary.
    if (!last && unit != rest.end() && loops_[unit->loop].extent > size) {
      const int loop = unit->loop;
      if (loops_[loop].extent % size != 0) return std::nullopt;
      const int outer = add(loops_[loop].extent / size, cuttable_[loop]);
      const int inner = add(size, /*cuttable=*/false);
      keepWhole(inner);
      replace(loop, {{outer, size}, {inner, 1}});
    }
    Terms digit, farther;
    for (const Term& term : held_[whole][0]) {
      if (last || term.coefficient < size) {
        digit.push_back(term);
      } else if (term.coefficient % size == 0) {
        farther.push_back({term.loop, term.coefficient / size});
      } else {
        return std::nullopt;
      }
    }
    // A digit must be read whole.
    if (extentOf(digit) != size) return std::nullopt;
    result[d] = std::move(digit);
    held_[whole][0] = std::move(farther);
  }
  // Something is left that belongs to no dimension.
  if (!held_[whole][0].empty()) return std::nullopt;
  return result;
}

std::optional<Terms> LoopSpace::substitute(mlir::AffineExpr expression, const Subscripts& loops) {
  if (auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(expression)) return loops[dim.getPosition()];
  if (mlir::isa<mlir::AffineConstantExpr>(expression)) return Terms{};
  auto binary = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
  if (!binary) return std::nullopt;
  if (binary.getKind() == mlir::AffineExprKind::Add) {
    auto left = substitute(binary.getLHS(), loops), right = substitute(binary.getRHS(), loops);
    if (!left || !right) return std::nullopt;
    for (const Term& term : *right) addTerm(*left, term);
    return left;
  }
  if (binary.getKind() == mlir::AffineExprKind::Mul) {
    auto factor = mlir::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS());
    auto terms = substitute(binary.getLHS(), loops);
    if (!factor || !terms || factor.getValue() < 1) return std::nullopt;
    for (Term& term : *terms) term.coefficient *= factor.getValue();
    return terms;
  }
  return std::nullopt;
}

}  // namespace tessera::compiler
