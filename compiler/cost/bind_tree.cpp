#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/cost/bound_tree.h"
#include "compiler/cost/step_classes.h"
#include "compiler/cost/step_extents.h"
#include "compiler/cost/tree_fields.h"
#include "proto/messages/element_size.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::cost {
namespace {

using loopnest::Nest;
using loopnest::Statement;
using loopnest::Subscript;
using loopnest::Term;
using Vector = absl::InlinedVector<int64_t, 8>;

/// The largest product of extents whose sums of movements stay exact.
constexpr int64_t kMaxIterations = int64_t{1} << 52;

/// Combinations of classes of steps over dependent loops. Four loops with partial steps have 3 * 5 * 7 * 9 at most.
constexpr double kMaxStepClasses = 2000;

bool contains(const std::vector<int>& list, int wanted) { return std::ranges::find(list, wanted) != list.end(); }

int64_t moved(const Subscript& subscript, const Vector& advance) {
  int64_t distance = 0;
  for (const Term& term : subscript.terms) distance += term.coefficient * advance[static_cast<size_t>(term.loop)];
  return distance;
}

class Binder {
 public:
  Binder(const Nest& nest, const Machine& machine) : nest_(nest), machine_(machine) {}

  absl::StatusOr<BoundTree> run(const v1::Schedule& schedule) {
    TESSERA_RETURN_IF_ERROR(bindNest());
    TESSERA_RETURN_IF_ERROR(checkScheduleFields(schedule));
    const size_t statements = nest_.statements.size();
    tree_.statements.resize(statements);
    Vector whole;
    for (const loopnest::Loop& loop : nest_.loops) whole.push_back(loop.extent);
    for (size_t loop = 0; loop < nest_.loops.size(); ++loop) tree_.linked.push_back(static_cast<int>(loop));
    for (size_t s = 0; s < statements; ++s) {
      StatementView& view = tree_.statements[s];
      view.leaf = -1;
      view.extents.push_back(whole);
      view.runs.resize(nest_.loops.size(), false);
      for (const int loop : nest_.statements[s].loops) view.runs[static_cast<size_t>(loop)] = true;
    }
    tree_.nodes.push_back({.level = static_cast<int>(machine_.memories.size()) - 1});
    for (int phase = 0; phase < schedule.phases_size(); ++phase)
      TESSERA_RETURN_IF_ERROR(bindTile(schedule.phases(phase), 0, absl::StrCat(phase)));
    for (size_t s = 0; s < statements; ++s) {
      if (tree_.statements[s].leaf < 0) {
        return scheduleFault("", absl::StrCat("nest ", s, " (", nest_.statements[s].name,
                                              ") is at no leaf; each statement is at exactly one"));
      }
    }
    collectStatements(0);
    for (size_t node = 1; node < tree_.nodes.size(); ++node)
      TESSERA_RETURN_IF_ERROR(bindLoops(node, *protos_[node - 1]));
    if (!tree_.is_even) TESSERA_RETURN_IF_ERROR(checkPartialSteps());
    TESSERA_RETURN_IF_ERROR(checkFlow());
    return std::move(tree_);
  }

 private:
  absl::Status bindNest() {
    TESSERA_RETURN_IF_ERROR(loopnest::validate(nest_));
    if (!nest_.isAffine())
      return absl::InvalidArgumentError(
          absl::StrCat("loop nest '", nest_.name,
                       "': a subscript has / or %, the analysis of dataflows accepts sums of "
                       "multiples of loops"));
    if (!nest_.bounds.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("loop nest '", nest_.name, "': the analysis of dataflows accepts no bounds among loops"));
    int64_t iterations = 1;
    for (const loopnest::Loop& loop : nest_.loops) iterations = loopnest::saturatedProduct(iterations, loop.extent);
    if (iterations > kMaxIterations)
      return absl::InvalidArgumentError(absl::StrCat("loop nest '", nest_.name, "': the joint loops have ", iterations,
                                                     " iterations or more, at most 2^52 are accepted"));
    const std::vector<int64_t> extents = nest_.extents();
    for (const loopnest::Access& access : nest_.accesses) {
      for (const Subscript& subscript : access.subscripts) {
        const loopnest::Range range = loopnest::rangeOf(subscript, extents);
        if (range.low < -kMaxIterations || range.high > kMaxIterations)
          return absl::InvalidArgumentError(absl::StrCat("tensor '", access.name, "' is accessed from ", range.low,
                                                         " to ", range.high,
                                                         "; subscripts of at most 2^52 are accepted"));
      }
    }
    for (size_t s = 0; s < nest_.statements.size(); ++s) {
      const Statement& statement = nest_.statements[s];
      auto& accesses = tree_.accesses.emplace_back();
      const int output = tensorOf(statement.output);
      if (tree_.writer[static_cast<size_t>(output)] >= 0 || !tree_.readers[static_cast<size_t>(output)].empty())
        return absl::InvalidArgumentError(absl::StrCat("statement '", statement.name,
                                                       "' writes a tensor that an earlier "
                                                       "one reads or writes; each tensor has one definition"));
      for (const int input : statement.inputs) {
        const int tensor = tensorOf(input);
        if (tensor == output)
          return absl::InvalidArgumentError(
              absl::StrCat("statement '", statement.name, "' reads the tensor that it writes"));
        accesses.push_back({tensor, false, &nest_.accesses[static_cast<size_t>(input)]});
        auto& readers = tree_.readers[static_cast<size_t>(tensor)];
        if (std::ranges::find(readers, static_cast<int>(s)) == readers.end()) readers.push_back(static_cast<int>(s));
      }
      accesses.push_back({output, true, &nest_.accesses[static_cast<size_t>(statement.output)]});
      tree_.writer[static_cast<size_t>(output)] = static_cast<int>(s);
    }
    return absl::OkStatus();
  }

  int tensorOf(int access) {
    const loopnest::Access& named = nest_.accesses[static_cast<size_t>(access)];
    const auto found = std::ranges::find(tree_.tensors, named.name);
    if (found != tree_.tensors.end()) return static_cast<int>(found - tree_.tensors.begin());
    tree_.tensors.push_back(named.name);
    tree_.word_bytes.push_back(static_cast<int>(std::max<int64_t>(1, elementBytes(named.dtype))));
    tree_.writer.push_back(-1);
    tree_.readers.emplace_back();
    return static_cast<int>(tree_.tensors.size()) - 1;
  }

  absl::Status bindTile(const v1::Tile& tile, int parent, const std::string& path) {
    TESSERA_RETURN_IF_ERROR(checkTileFields(tile, path));
    BoundNode node{.parent = parent, .path = path};
    node.level = machine_.memoryNamed(tile.level());
    if (node.level < 0) {
      return scheduleFault(path, absl::StrCat("no memory '", tile.level(), "'; accepted: ",
                                              absl::StrJoin(machine_.memories, ", ",
                                                            [](std::string* out, const auto& m) { *out += m.name; })));
    }
    const int outside = tree_.nodes[static_cast<size_t>(parent)].level;
    if (node.level > outside) {
      return scheduleFault(path,
                           absl::StrCat(tile.level(), " encloses the level of the tile around it, ",
                                        machine_.memories[static_cast<size_t>(outside)].name, "; levels go inwards"));
    }
    if (tile.join() != v1::Tile::JOIN_UNSPECIFIED) node.join = tile.join();
    for (const v1::Stage& stage : tile.stages()) {
      for (const std::string& name : stage.order()) {
        const auto tensor = std::ranges::find(tree_.tensors, name);
        if (tensor == tree_.tensors.end())
          return scheduleFault(path, absl::StrCat("bypass names '", name, "', which is no tensor; accepted: ",
                                                  absl::StrJoin(tree_.tensors, ", ")));
        node.bypassed.push_back(static_cast<int>(tensor - tree_.tensors.begin()));
      }
    }
    const int position = static_cast<int>(tree_.nodes.size());
    if (tile.has_kernel()) TESSERA_RETURN_IF_ERROR(bindKernel(tile.kernel(), node, position));
    tree_.nodes.push_back(std::move(node));
    protos_.push_back(&tile);
    tree_.nodes[static_cast<size_t>(parent)].children.push_back(position);
    for (int child = 0; child < tile.children_size(); ++child)
      TESSERA_RETURN_IF_ERROR(bindTile(tile.children(child), position, absl::StrCat(path, ".", child)));
    return absl::OkStatus();
  }

  absl::Status bindKernel(const v1::Kernel& kernel, BoundNode& node, int position) {
    if (kernel.nest() < 0 || kernel.nest() >= static_cast<int>(nest_.statements.size()))
      return scheduleFault(node.path, absl::StrCat("no nest ", kernel.nest(), "; there are ", nest_.statements.size(),
                                                   ", counted from 0"));
    StatementView& view = tree_.statements[static_cast<size_t>(kernel.nest())];
    if (view.leaf >= 0)
      return scheduleFault(node.path, absl::StrCat("nest ", kernel.nest(), " is also at tile ",
                                                   tree_.nodes[static_cast<size_t>(view.leaf)].path));
    node.statement = kernel.nest();
    view.leaf = position;
    if (!kernel.instruction().empty()) {
      TESSERA_ASSIGN_OR_RETURN(node.unit, unitNamed(kernel.instruction(), node.path));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> unitNamed(const std::string& name, const std::string& path) const {
    const int unit = machine_.unitNamed(name);
    if (unit >= 0) return unit;
    return scheduleFault(path, absl::StrCat("no unit '", name, "'; accepted: ",
                                            absl::StrJoin(machine_.units, ", ",
                                                          [](std::string* out, const auto& u) { *out += u.name; })));
  }

  void collectStatements(int position) {
    for (const int child : std::vector<int>(tree_.nodes[static_cast<size_t>(position)].children)) {
      collectStatements(child);
      const std::vector<int>& inner = tree_.nodes[static_cast<size_t>(child)].statements;
      std::vector<int>& all = tree_.nodes[static_cast<size_t>(position)].statements;
      all.insert(all.end(), inner.begin(), inner.end());
    }
    BoundNode& node = tree_.nodes[static_cast<size_t>(position)];
    if (node.isLeaf()) node.statements = {node.statement};
  }

  bool has(int statement, int loop) const {
    return contains(nest_.statements[static_cast<size_t>(statement)].loops, loop);
  }

  absl::Status bindLoops(size_t position, const v1::Tile& tile) {
    BoundNode& node = tree_.nodes[position];
    node.first_loop = tree_.nodes[static_cast<size_t>(node.parent)].end_loop;
    node.end_loop = node.first_loop;
    for (const v1::Loop& named : tile.loops()) {
      TESSERA_ASSIGN_OR_RETURN(BoundLoop loop, boundLoop(node, named));
      loop.node = static_cast<int>(position);
      for (const int s : node.statements) {
        StatementView& view = tree_.statements[static_cast<size_t>(s)];
        if (loop.is_even && view.even_loops == view.loops.size()) ++view.even_loops;
        view.loops.push_back(loop);
        view.advances.emplace_back(nest_.loops.size(), 0);
        view.extents.emplace_back(view.extents.back());
        view.follows.emplace_back();
        if (!has(s, loop.loop)) continue;
        view.advances.back()[static_cast<size_t>(loop.loop)] = loop.step;
        view.extents.back()[static_cast<size_t>(loop.loop)] = loop.step;
      }
      // Consumers first: a producer follows what its consumers read.
      for (auto s = node.statements.rbegin(); s != node.statements.rend(); ++s)
        if (!has(*s, loop.loop)) TESSERA_RETURN_IF_ERROR(follow(node, *s, loop.loop));
      ++node.end_loop;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<BoundLoop> boundLoop(const BoundNode& node, const v1::Loop& named) {
    BoundLoop loop{.loop = nest_.loopNamed(named.dimension()), .step = named.step(), .spatial = !named.unit().empty()};
    if (loop.loop < 0) {
      return scheduleFault(
          node.path,
          absl::StrCat("no loop '", named.dimension(), "'; accepted: ",
                       absl::StrJoin(nest_.loops, ", ", [](std::string* out, const auto& l) { *out += l.name; })));
    }
    int64_t extent = 0;
    for (const int s : node.statements) {
      if (!has(s, loop.loop)) continue;
      const int64_t inside = tree_.statements[static_cast<size_t>(s)].extents.back()[static_cast<size_t>(loop.loop)];
      if (extent != 0 && inside != extent)
        return scheduleFault(node.path, absl::StrCat("loop ", named.dimension(), " has ", extent,
                                                     " iterations here for one "
                                                     "statement and ",
                                                     inside, " for another"));
      extent = inside;
    }
    if (extent == 0)
      return scheduleFault(node.path, absl::StrCat("no statement of this tile runs over ", named.dimension()));
    if (loop.step < 1 || loop.step > extent)
      return scheduleFault(node.path,
                           absl::StrCat("loop ", named.dimension(), " has ", extent, " iterations here and steps of ",
                                        loop.step, "; accepted are 1 to ", extent));
    loop.count = (extent + loop.step - 1) / loop.step;
    loop.is_even = extent % loop.step == 0;
    tree_.is_even = tree_.is_even && loop.is_even;
    if (loop.spatial) {
      TESSERA_ASSIGN_OR_RETURN(loop.unit, unitNamed(named.unit(), node.path));
    }
    return loop;
  }

  /// A statement inside of a loop that it does not have: it computes what its consumers in the tile read, or repeats.
  absl::Status follow(const BoundNode& node, int s, int loop) {
    StatementView& view = tree_.statements[static_cast<size_t>(s)];
    const Statement& statement = nest_.statements[static_cast<size_t>(s)];
    const BoundAccess& output = tree_.accesses[static_cast<size_t>(s)].back();
    bool consumed = false;
    for (size_t d = 0; d < output.access->subscripts.size(); ++d) {
      const Subscript& written = output.access->subscripts[d];
      int64_t distance = 0, span = 0;
      bool first = true;
      absl::InlinedVector<const Subscript*, 4> read;
      for (const int r : tree_.readers[static_cast<size_t>(output.tensor)]) {
        if (!contains(node.statements, r)) continue;
        const StatementView& reader = tree_.statements[static_cast<size_t>(r)];
        for (const BoundAccess& access : tree_.accesses[static_cast<size_t>(r)]) {
          if (access.tensor != output.tensor) continue;
          read.push_back(&access.access->subscripts[d]);
          const int64_t far = moved(access.access->subscripts[d], reader.advances.back());
          if (!first && far != distance)
            return scheduleFault(node.path, absl::StrCat("loop ", nest_.loops[static_cast<size_t>(loop)].name,
                                                         " moves the statements that read ", access.access->name,
                                                         " by different distances"));
          first = false;
          distance = far;
          span = std::max(span, spanOf(access.access->subscripts[d], reader.extents.back()));
        }
      }
      if (first) break;
      consumed = true;
      if (distance == 0) continue;
      if (written.terms.size() != 1 || written.terms[0].coefficient != 1)
        return scheduleFault(node.path, absl::StrCat("statement ", statement.name, " cannot follow loop ",
                                                     nest_.loops[static_cast<size_t>(loop)].name,
                                                     ": its result is not indexed by one loop"));
      const auto own = static_cast<size_t>(written.terms[0].loop);
      view.advances.back()[own] = distance;
      view.extents.back()[own] = std::min(view.extents.back()[own], span);
      view.follows.back().push_back({own, d});
      tree_.has_follower = true;
      link(static_cast<int>(own), loop);
      for (const Subscript* subscript : read)
        for (const Term& term : subscript->terms) link(static_cast<int>(own), term.loop);
    }
    if (consumed || output.access->subscripts.empty()) return absl::OkStatus();
    return scheduleFault(node.path, absl::StrCat("statement ", statement.name, " does not run over loop ",
                                                 nest_.loops[static_cast<size_t>(loop)].name,
                                                 " and feeds no statement of this tile; move it out of the loop"));
  }

  void link(int left, int right) {
    const int from = tree_.linked[static_cast<size_t>(left)], to = tree_.linked[static_cast<size_t>(right)];
    std::ranges::replace(tree_.linked, from, to);
  }

  /// Every statement that has a loop meets the same number of its iterations in partial steps, too, and there are few
  /// enough classes of steps to visit them all.
  absl::Status checkPartialSteps() const {
    for (const StatementView& view : tree_.statements) {
      for (size_t loop = 0; loop < nest_.loops.size(); ++loop) {
        std::vector<size_t> positions;
        for (size_t i = 0; i < view.loops.size(); ++i)
          if (tree_.linked[static_cast<size_t>(view.loops[i].loop)] == static_cast<int>(loop)) positions.push_back(i);
        const StepClasses classes(tree_, view.loops, std::move(positions));
        double combinations = 1;
        for (size_t k = 0; k < classes.positions().size(); ++k) {
          combinations *= static_cast<double>(classes.of(k).size());
          if (combinations <= kMaxStepClasses) continue;
          return scheduleFault(tree_.nodes[static_cast<size_t>(classes.loop(k).node)].path,
                               absl::StrCat("loop ", nest_.loops[static_cast<size_t>(classes.loop(k).loop)].name,
                                            ": too many loops with partial steps inside of each other; use steps "
                                            "that divide what the loops meet"));
        }
      }
      for (size_t i = 0; i < view.loops.size(); ++i) {
        const BoundLoop& loop = view.loops[i];
        const BoundNode& node = tree_.nodes[static_cast<size_t>(loop.node)];
        for (const StepExtents& step : stepsInside(tree_, view, i, {loop.loop})) {
          for (const int s : node.statements) {
            if (!has(s, loop.loop) || step.of(s)[static_cast<size_t>(loop.loop)] == step.entering(loop)) continue;
            return scheduleFault(
                node.path, absl::StrCat("loop ", nest_.loops[static_cast<size_t>(loop.loop)].name, " has ",
                                        step.entering(loop), " iterations in a partial step for one statement and ",
                                        step.of(s)[static_cast<size_t>(loop.loop)], " for another"));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  /// Intermediates: written before they are read, complete when they are read, and all that is read.
  absl::Status checkFlow() const {
    for (int tensor = 0; tensor < static_cast<int>(tree_.tensors.size()); ++tensor) {
      if (!tree_.isIntermediate(tensor)) continue;
      for (const int reader : tree_.readers[static_cast<size_t>(tensor)])
        TESSERA_RETURN_IF_ERROR(checkFlow(tensor, tree_.writer[static_cast<size_t>(tensor)], reader));
    }
    return absl::OkStatus();
  }

  absl::Status checkFlow(int tensor, int writer, int reader) const {
    const StatementView& from = tree_.statements[static_cast<size_t>(writer)];
    const StatementView& to = tree_.statements[static_cast<size_t>(reader)];
    const int common = tree_.commonAncestor(from.leaf, to.leaf);
    const BoundNode& node = tree_.nodes[static_cast<size_t>(common)];
    const std::string& name = tree_.tensors[static_cast<size_t>(tensor)];
    const auto place = [&](int s) { return std::ranges::find(node.statements, s) - node.statements.begin(); };
    if (place(writer) > place(reader))
      return scheduleFault(node.path,
                           absl::StrCat("nest ", reader, " reads ", name, " before nest ", writer, " writes it"));
    if (node.join == v1::Tile::PARA && common != 0)
      return scheduleFault(node.path,
                           absl::StrCat("Para runs nests ", writer, " and ", reader, " at once, but one reads ", name,
                                        " of the other; accepted: Seq, Shar, Pipe"));
    const BoundAccess& output = tree_.accesses[static_cast<size_t>(writer)].back();
    for (size_t i = 0; i < node.end_loop; ++i) {
      const BoundLoop& loop = from.loops[i];
      if (loop.count == 1 || !has(writer, loop.loop) || output.access->uses(loop.loop)) continue;
      const int owner = loop.node;
      if (protos_[static_cast<size_t>(owner) - 1]->deferred_softmax()) continue;
      return scheduleFault(tree_.nodes[static_cast<size_t>(owner)].path,
                           absl::StrCat("loop ", nest_.loops[static_cast<size_t>(loop.loop)].name, " sums ", name,
                                        ", which nest ", reader,
                                        " reads inside of the loop, before the sum is complete; move the "
                                        "loop into nest ",
                                        writer, ", or mark the tile 'softmax' if its reductions are running ones"));
    }
    for (const BoundAccess& access : tree_.accesses[static_cast<size_t>(reader)]) {
      if (access.tensor != tensor) continue;
      for (size_t d = 0; d < access.access->subscripts.size(); ++d) {
        const Subscript &written = output.access->subscripts[d], &wanted = access.access->subscripts[d];
        std::vector<int> loops;
        for (const Subscript* subscript : {&written, &wanted})
          for (const Term& term : subscript->terms) loops.push_back(term.loop);
        const auto check = [&](absl::Span<const int64_t> writing, absl::Span<const int64_t> reading) {
          const int64_t made = spanOf(written, writing), read = spanOf(wanted, reading);
          if (read <= made) return absl::OkStatus();
          return scheduleFault(
              node.path, absl::StrCat("nest ", reader, " reads ", read, " elements of dimension ", d, " of ", name,
                                      " in one step of this tile, in which nest ", writer, " writes ", made));
        };
        TESSERA_RETURN_IF_ERROR(check(from.extents[node.end_loop], to.extents[node.end_loop]));
        if (tree_.is_even) continue;
        for (const StepExtents& step : stepsInside(tree_, from, node.end_loop, loops))
          TESSERA_RETURN_IF_ERROR(check(step.of(writer), step.of(reader)));
      }
    }
    return absl::OkStatus();
  }

  const Nest& nest_;
  const Machine& machine_;
  BoundTree tree_;
  std::vector<const v1::Tile*> protos_;  ///< of nodes 1, 2, ...
};

}  // namespace

bool BoundNode::bypasses(int tensor) const { return contains(bypassed, tensor); }

bool BoundTree::isIntermediate(int tensor) const {
  return writer[static_cast<size_t>(tensor)] >= 0 && !readers[static_cast<size_t>(tensor)].empty();
}

bool BoundTree::contains(int outer, int node) const {
  while (node > outer) node = nodes[static_cast<size_t>(node)].parent;
  return node == outer;
}

int BoundTree::commonAncestor(int left, int right) const {
  while (!contains(left, right)) left = nodes[static_cast<size_t>(left)].parent;
  return left;
}

int BoundTree::scopeOf(int tensor) const {
  int scope = statements[static_cast<size_t>(writer[static_cast<size_t>(tensor)])].leaf;
  for (const int reader : readers[static_cast<size_t>(tensor)])
    scope = commonAncestor(scope, statements[static_cast<size_t>(reader)].leaf);
  return scope;
}

bool BoundTree::hasBuffer(int node, int tensor) const {
  const BoundNode& tile = nodes[static_cast<size_t>(node)];
  if (tile.parent < 0) return true;
  return tile.level != nodes[static_cast<size_t>(tile.parent)].level && !tile.bypasses(tensor);
}

int BoundTree::holderOf(int node, int tensor) const {
  while (!hasBuffer(node, tensor)) node = nodes[static_cast<size_t>(node)].parent;
  return node;
}

absl::StatusOr<BoundTree> bindTree(const Nest& nest, const v1::Schedule& tree, const Machine& machine) {
  return Binder(nest, machine).run(tree);
}

}  // namespace tessera::compiler::cost
