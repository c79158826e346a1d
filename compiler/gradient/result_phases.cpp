#include "compiler/gradient/result_phases.h"

#include <algorithm>
#include <iterator>

#include "compiler/import/expression/make_node.h"

namespace tessera::compiler::gradient {
namespace {

using expression::NodePtr;

int64_t blockOf(int64_t value, int64_t divisor) {
  return (value - (value % divisor + divisor) % divisor) / divisor;  // rounded down
}

bool addPhase(const IndexSpace& space, int position, std::vector<Phases>& phases) {
  const IndexSpace::Atom& atom = space.atom(position);
  if (atom.kind == IndexSpace::AtomKind::kLoop) return true;
  const auto each = std::ranges::find_if(
      phases, [&](const Phases& phase) { return atom.dividend.terms == IndexSpace::sumOf(phase.result).terms; });
  if (each == phases.end()) return false;
  if (each->divisor != 1 && (each->divisor != atom.divisor || each->shift != atom.dividend.constant)) return false;
  each->divisor = atom.divisor;
  each->shift = atom.dividend.constant;
  (atom.kind == IndexSpace::AtomKind::kQuotient ? each->quotient : each->remainder) = position;
  return true;
}

}  // namespace

std::optional<std::vector<Phases>> phasesOf(const Contraction& contraction) {
  std::vector<Phases> phases;
  for (const IndexSum& result : contraction.results) phases.push_back({.result = result.terms.begin()->first});
  std::vector<IndexSum> sums;
  for (const PlainRead& read : contraction.terms[0].product_reads)
    sums.insert(sums.end(), read.subscripts.begin(), read.subscripts.end());
  for (const IndexBound& guard : contraction.guards) sums.push_back(guard.sum);
  for (const IndexSum& sum : sums)
    for (const auto& [atom, factor] : sum.terms)
      if (!addPhase(contraction.space, atom, phases)) return std::nullopt;
  for (const IndexBound& guard : contraction.guards)
    for (Phases& each : phases)
      if (guard.low == guard.high && each.remainder >= 0 && guard.sum == IndexSpace::sumOf(each.remainder))
        each.fixed = guard.low;
  return phases;
}

void addLoops(const IndexSpace& from, Phases& phases, IndexSpace& space, std::map<int, IndexSum>& atoms) {
  const IndexSpace::Atom& loop = from.atom(phases.result);
  const int64_t divisor = phases.divisor;
  phases.first_block = blockOf(phases.shift, divisor);
  const int64_t last_block = blockOf(loop.range.high + phases.shift, divisor);
  phases.block = space.addLoop(loop.name, last_block - phases.first_block + 1);
  if (phases.fixed) {
    phases.phase.constant = *phases.fixed;
  } else if (divisor > 1) {
    phases.phase = space.addLoop(loop.name + "_phase", divisor);
  }
  IndexSum block = phases.block;
  block.constant = phases.first_block;
  IndexSum whole = space.plus(phases.phase, block, divisor);
  whole.constant -= phases.shift;
  atoms[phases.result] = whole;
  if (phases.quotient >= 0) atoms[phases.quotient] = block;
  if (phases.remainder >= 0) atoms[phases.remainder] = phases.phase;
}

absl::Status writeGather(const IndexSpace& from, const std::vector<Phases>& phases, const std::string& tensor,
                         const std::string& name, StatementWriter& writer) {
  std::vector<expression::Loop> loops;
  std::vector<NodePtr> subscripts, blocks;
  NodePtr condition;
  IndexSpace space;
  for (const Phases& each : phases) {
    const IndexSpace::Atom& loop = from.atom(each.result);
    loops.push_back({loop.name, loop.range.high + 1, false});
    IndexSum shifted = space.addLoop(loop.name, loop.range.high + 1);
    shifted.constant = each.shift;
    IndexSum block = space.quotient(shifted, each.divisor);
    block.constant -= each.first_block;
    blocks.push_back(space.nodeOf(block));
    if (each.divisor == 1) continue;
    IndexSum phase = space.remainder(shifted, each.divisor);
    if (each.fixed) {
      condition = both(std::move(condition), conditionOf(space, {phase, *each.fixed, *each.fixed}));
      continue;
    }
    if (each.reversed) phase = space.plus({.terms = {}, .constant = each.divisor - 1}, phase, -1);
    subscripts.push_back(space.nodeOf(phase));
  }
  std::ranges::move(blocks, std::back_inserter(subscripts));
  NodePtr value = expression::accessNode(tensor, std::move(subscripts));
  if (condition != nullptr)
    value = expression::conditionNode(std::move(condition), std::move(value), expression::integerNode(0));
  return writer.add(name, loops, std::move(value)).status();
}

}  // namespace tessera::compiler::gradient
