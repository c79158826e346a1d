#include "compiler/dataflow_search/needed.h"

#include <algorithm>

#include "compiler/cost/point_set.h"
#include "compiler/dataflow_search/tile_space.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::dataflow_search {

using loopnest::Access;
using loopnest::Subscript;
using loopnest::Term;

Needed::Needed(const loopnest::Nest& nest) : nest_(nest), extents_(nest.statements.size()) {
  for (int s = static_cast<int>(nest.statements.size()) - 1; s >= 0; --s) collect(s);
}

double Needed::elements(int s, int access, std::span<const int64_t> parts) const {
  std::vector<int64_t> extents = at(extents_, s);
  for (size_t loop = 0; loop < parts.size(); ++loop) extents[loop] = std::max<int64_t>(1, extents[loop] / parts[loop]);
  double all = 1, widest = 1;
  std::vector<bool> seen(nest_.loops.size(), false);
  bool independent = true;
  for (const Subscript& subscript : at(nest_.accesses, access).subscripts) {
    const auto values = static_cast<double>(valuesOf(subscript, extents));
    all *= values;
    widest = std::max(widest, values);
    for (const Term& term : subscript.terms) {
      independent = independent && !at(seen, term.loop);
      at(seen, term.loop) = true;
    }
  }
  // A loop in two subscripts walks a diagonal: only one dimension counts.
  return independent ? all : widest;
}

double Needed::operations(int s) const {
  double all = at(nest_.statements, s).body.flops;
  for (const int loop : at(nest_.statements, s).loops) all *= static_cast<double>(at(at(extents_, s), loop));
  return all;
}

void Needed::collect(int s) {
  const loopnest::Statement& statement = at(nest_.statements, s);
  std::vector<int64_t>& extents = at(extents_, s);
  extents = nest_.extents();
  const Access& output = at(nest_.accesses, statement.output);
  bool read = false;
  std::vector<int64_t> values(output.subscripts.size(), 0);
  for (int reader = s + 1; reader < static_cast<int>(nest_.statements.size()); ++reader) {
    for (const int input : at(nest_.statements, reader).inputs) {
      if (at(nest_.accesses, input).name != output.name) continue;
      read = true;
      for (size_t d = 0; d < values.size(); ++d)
        values[d] = std::max(values[d], valuesOf(at(nest_.accesses, input).subscripts[d], at(extents_, reader)));
    }
  }
  if (!read) return;
  for (size_t d = 0; d < values.size(); ++d) {
    const Subscript& subscript = output.subscripts[d];
    if (subscript.terms.size() == 1) {
      int64_t& extent = at(extents, subscript.terms[0].loop);
      extent = std::min(extent, values[d]);
    }
  }
}

/// Distinct values of a subscript over at least so many iterations of each loop. A sum of two sets has at least the
/// sum of their sizes less one elements; whole loops give the exact set.
int64_t Needed::valuesOf(const Subscript& subscript, const std::vector<int64_t>& extents) const {
  bool whole = true;
  int64_t values = 1;
  absl::InlinedVector<cost::Translation, 4> sums;
  for (const Term& term : subscript.terms) {
    whole = whole && at(extents, term.loop) == at(nest_.loops, term.loop).extent;
    values += at(extents, term.loop) - 1;
    sums.push_back({term.coefficient, at(extents, term.loop)});
  }
  return whole ? cost::PointSet::sumsOf(sums).size() : values;
}

NeededWork neededWork(const loopnest::Nest& nest, const Needed& needed, int statement, std::span<const int64_t> parts) {
  const auto bytes = [&](int access) {
    return needed.elements(statement, access, parts) *
           static_cast<double>(std::max<int64_t>(1, elementBytes(at(nest.accesses, access).dtype)));
  };
  NeededWork work{.operations = needed.operations(statement)};
  for (const int64_t part : parts) work.operations /= static_cast<double>(part);
  for (const int input : at(nest.statements, statement).inputs) work.read_bytes += bytes(input);
  work.written_bytes = bytes(at(nest.statements, statement).output);
  return work;
}

}  // namespace tessera::compiler::dataflow_search
