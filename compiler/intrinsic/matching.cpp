#include "compiler/intrinsic/matching.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/intrinsic/verify.h"

namespace tessera::compiler::intrinsic {
namespace {

/// Whether `loop` occurs in exactly those arrays in which `iteration` occurs.
bool sameColumn(const Nest& software, int loop, const Nest& instruction, int iteration, const Matching& order) {
  for (size_t operand = 0; operand < instruction.accesses.size(); ++operand) {
    if (software.accesses[arrayOf(order, operand)].uses(loop) != instruction.accesses[operand].uses(iteration)) {
      return false;
    }
  }
  return true;
}

/// The iterations that a subscript of the software contains for `point`, with other loops at 0; sets `forward` to false
/// if one is walked backwards.
std::vector<int> iterationsOf(const Subscript& subscript, const std::vector<int>& point, bool& forward) {
  std::vector<int> iterations;
  for (const loopnest::Term& term : subscript.terms) {
    if (point[term.loop] < 0) continue;
    if (term.coefficient < 0) forward = false;
    iterations.push_back(point[term.loop]);
  }
  std::sort(iterations.begin(), iterations.end());
  return iterations;
}

bool isMatchPoint(const Nest& software, const Nest& instruction, const Matching& point) {
  for (size_t operand = 0; operand < instruction.accesses.size(); ++operand) {
    bool forward = true;
    std::multiset<std::vector<int>> ours, theirs;
    for (const Subscript& subscript : software.accesses[arrayOf(point, operand)].subscripts) {
      std::vector<int> iterations = iterationsOf(subscript, point.iteration, forward);
      if (!iterations.empty()) ours.insert(std::move(iterations));
    }
    for (const Subscript& subscript : instruction.accesses[operand].subscripts) {
      std::vector<int> iterations;
      for (const loopnest::Term& term : subscript.terms) iterations.push_back(term.loop);
      std::sort(iterations.begin(), iterations.end());
      if (!iterations.empty()) theirs.insert(std::move(iterations));
    }
    if (!forward || ours != theirs) return false;
  }
  return verify(software, instruction, point).correct;
}

/// Collects all match points: one loop for each iteration, chosen among loops that occur in the same arrays.
void collectPoints(const Nest& software, const Nest& instruction, size_t iteration, Matching& point,
                   std::vector<Matching>& points) {
  if (iteration == instruction.loops.size()) {
    if (isMatchPoint(software, instruction, point)) points.push_back(point);
    return;
  }
  for (size_t loop = 0; loop < software.loops.size(); ++loop) {
    if (point.iteration[loop] >= 0) continue;
    // Prunes the search: a loop that occurs in other arrays than the iteration never matches.
    if (!sameColumn(software, static_cast<int>(loop), instruction, static_cast<int>(iteration), point)) continue;
    point.iteration[loop] = static_cast<int>(iteration);
    collectPoints(software, instruction, iteration + 1, point, points);
    point.iteration[loop] = -1;
  }
}

/// The union of two mappings; returns false if a loop would have two iterations.
bool unite(const Matching& left, const Matching& right, Matching& both) {
  both = left;
  for (size_t loop = 0; loop < both.iteration.size(); ++loop) {
    if (right.iteration[loop] < 0) continue;
    if (both.iteration[loop] >= 0 && both.iteration[loop] != right.iteration[loop]) return false;
    both.iteration[loop] = right.iteration[loop];
  }
  return true;
}

std::set<Matching> unionsOf(const std::vector<Matching>& points, size_t most, bool& complete) {
  std::set<Matching> found(points.begin(), points.end());
  std::vector<Matching> fresh(found.begin(), found.end());
  // Closure under union: only mappings found in the last round need to be extended.
  while (!fresh.empty()) {
    std::vector<Matching> next;
    for (const Matching& mapping : fresh) {
      for (const Matching& point : points) {
        Matching both;
        if (!unite(mapping, point, both)) continue;
        if (found.size() >= most) {
          complete = false;
          return found;
        }
        if (found.insert(both).second) next.push_back(std::move(both));
      }
    }
    fresh = std::move(next);
  }
  return found;
}

/// A renaming of iterations and sources that maps an instruction to itself.
struct Automorphism {
  std::vector<int> iteration;  ///< old -> new
  std::vector<int> source;     ///< new -> old, from 0
};

bool isAutomorphism(const Nest& nest, const Automorphism& change) {
  for (size_t i = 0; i < nest.loops.size(); ++i) {
    const Loop &from = nest.loops[i], &to = nest.loops[change.iteration[i]];
    if (from.extent != to.extent) return false;
    if (nest.isReduction(static_cast<int>(i)) != nest.isReduction(change.iteration[i])) return false;
  }
  for (size_t operand = 0; operand < nest.accesses.size(); ++operand) {
    const Access& to = nest.accesses[operand];
    const Access& from = nest.accesses[operand == 0 ? 0 : 1 + change.source[operand - 1]];
    if (from.dtype != to.dtype || from.subscripts.size() != to.subscripts.size()) return false;
    for (size_t i = 0; i < nest.loops.size(); ++i) {
      if (from.uses(static_cast<int>(i)) != to.uses(change.iteration[i])) return false;
    }
    for (const Subscript& subscript : from.subscripts) {
      if (subscript.terms.size() > 1) return false;  // for sums of iterations only the identity is considered
    }
  }
  return nest.bounds.empty();
}

std::vector<Automorphism> automorphismsOf(const Nest& nest) {
  std::vector<Automorphism> found;
  Automorphism change;
  change.source.resize(nest.accesses.size() - 1);
  std::iota(change.source.begin(), change.source.end(), 0);
  do {
    change.iteration.resize(nest.loops.size());
    std::iota(change.iteration.begin(), change.iteration.end(), 0);
    do {
      if (isAutomorphism(nest, change)) found.push_back(change);
    } while (std::next_permutation(change.iteration.begin(), change.iteration.end()));
  } while (std::next_permutation(change.source.begin(), change.source.end()));
  return found;
}

Matching canonical(const Matching& matching, const std::vector<Automorphism>& automorphisms) {
  Matching smallest = matching;
  // The least of all renamings represents the class of equal mappings.
  for (const Automorphism& change : automorphisms) {
    Matching renamed = matching;
    for (int& iteration : renamed.iteration) {
      if (iteration >= 0) iteration = change.iteration[iteration];
    }
    for (size_t i = 0; i < renamed.source.size(); ++i) renamed.source[i] = matching.source[change.source[i]];
    smallest = std::min(smallest, renamed);
  }
  return smallest;
}

bool typesFit(const Nest& software, const Nest& instruction, const Matching& order) {
  for (size_t operand = 0; operand < instruction.accesses.size(); ++operand) {
    if (software.accesses[arrayOf(order, operand)].dtype != instruction.accesses[operand].dtype) return false;
  }
  return true;
}

}  // namespace

Nest withUnitLoops(const Nest& software, const Nest& instruction, const std::vector<int>& source) {
  Nest whole = software;
  const Matching order{{}, source};
  for (size_t iteration = 0; iteration < instruction.loops.size(); ++iteration) {
    bool filled = instruction.isReduction(static_cast<int>(iteration));
    for (size_t loop = 0; loop < software.loops.size() && !filled; ++loop) {
      filled = sameColumn(software, static_cast<int>(loop), instruction, static_cast<int>(iteration), order);
    }
    if (filled) continue;
    const int loop = static_cast<int>(whole.loops.size());
    whole.loops.push_back({.name = absl::StrCat("one.", instruction.loops[iteration].name)});
    whole.statements[0].loops.push_back(loop);
    for (size_t operand = 0; operand < instruction.accesses.size(); ++operand) {
      if (!instruction.accesses[operand].uses(static_cast<int>(iteration))) continue;
      whole.accesses[arrayOf(order, operand)].subscripts.push_back({.terms = {{loop, 1}}});
    }
  }
  return whole;
}

Mappings enumerateMappings(const Nest& software, const Nest& instruction, const MatchOptions& options) {
  Mappings result;
  result.software = software;
  const Form form = formOf(software);
  if (form == Form::Intrinsic_Arithmetic_Form_FORM_UNSPECIFIED || form != formOf(instruction)) return result;
  if (!software.isAffine() || !instruction.isAffine() || software.accesses.size() != instruction.accesses.size())
    return result;
  // All permutations are tried below, so their number must be bounded.
  if (instruction.loops.size() > kMaxIterations || instruction.accesses.size() > 1 + kMaxSources) return result;
  const std::vector<Automorphism> automorphisms =
      options.any_order ? automorphismsOf(instruction) : std::vector<Automorphism>();
  std::set<Matching> seen;
  Matching order;
  order.source.resize(instruction.accesses.size() - 1);
  std::iota(order.source.begin(), order.source.end(), 1);
  do {
    if (options.same_types && !typesFit(software, instruction, order)) continue;
    Nest whole = withUnitLoops(software, instruction, order.source);
    // All mappings of one result share a nest: another order counts only if it needs the same stand-in loops.
    if (!result.matchings.empty() && whole.loops.size() != result.software.loops.size()) continue;
    Matching point{std::vector<int>(whole.loops.size(), -1), order.source};
    std::vector<Matching> points;
    collectPoints(whole, instruction, 0, point, points);
    const std::set<Matching> unions = unionsOf(points, options.most, result.complete);
    const bool first = result.matchings.empty();
    for (const Matching& matching : unions) {
      // A union of match points need not be correct.
      if (!verify(whole, instruction, matching).correct) continue;
      if (options.any_order && !seen.insert(canonical(matching, automorphisms)).second) continue;
      result.matchings.push_back(matching);
      if (first) result.software = whole;
    }
    result.points += points.size();
  } while (options.any_order && std::next_permutation(order.source.begin(), order.source.end()));
  return result;
}

}  // namespace tessera::compiler::intrinsic
