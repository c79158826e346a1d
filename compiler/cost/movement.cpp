#include "compiler/cost/movement.h"

#include <algorithm>

#include "compiler/cost/point_set.h"

namespace tessera::compiler::cost {
namespace {

using loopnest::Subscript;
using loopnest::Term;
/// One value per dimension of the tensor.
using Distances = absl::InlinedVector<int64_t, 4>;
using Slice = absl::InlinedVector<PointSet, 4>;

/// One access below a tile.
struct User {
  int child = -1;  ///< position among the tile's children; -1: the leaf itself
  int statement = 0;
  const BoundAccess* access = nullptr;
};

/// A boundary that is being put together.
struct Group {
  int level = -1;
  int tensor = 0;
  absl::InlinedVector<User, 4> users;
  Slice slice;                               ///< of all users
  Slice written;                             ///< of the writer, if there is one
  absl::InlinedVector<Distances, 12> steps;  ///< of each loop around, one distance per dimension
  bool reads = false, writes = false;
};

Slice sliceOf(const BoundAccess& access, const absl::InlinedVector<int64_t, 8>& extents) {
  Slice slice;
  for (const Subscript& subscript : access.access->subscripts) {
    absl::InlinedVector<Translation, 4> sums;
    for (const Term& term : subscript.terms)
      sums.push_back({term.coefficient, extents[static_cast<size_t>(term.loop)]});
    slice.push_back(PointSet::sumsOf(sums).moved(subscript.constant));
  }
  return slice;
}

/// Unites the slices if the union is a slice: they differ in one dimension at most, or one contains the other.
bool unite(Slice& slice, const Slice& other) {
  size_t different = 0, where = 0;
  bool inside = true, around = true;
  for (size_t d = 0; d < slice.size(); ++d) {
    if (slice[d] == other[d]) continue;
    ++different;
    where = d;
    inside = inside && slice[d].contains(other[d]);
    around = around && other[d].contains(slice[d]);
  }
  if (different == 0 || inside) return true;
  if (around) {
    slice = other;
    return true;
  }
  if (different > 1) return false;
  slice[where] = slice[where].unionWith(other[where]);
  return true;
}

double sizeOf(const Slice& slice) {
  double words = 1;
  for (const PointSet& set : slice) words *= static_cast<double>(set.size());
  return words;
}

/// Counts for a slice that moves through a tensor as the loops around it advance.
class Walk {
 public:
  /// `evicts[i]`: a step of loop i drops the content of the buffer. Loops from `outside` on are between source and
  /// buffer, loops from `begin` on belong to the walk.
  Walk(const std::vector<BoundLoop>& loops, const absl::InlinedVector<Distances, 12>& steps, const Slice& slice,
       const absl::InlinedVector<bool, 12>& evicts, size_t begin, size_t outside)
      : loops_(loops), steps_(steps), slice_(slice) {
    copies_.resize(slice.size());
    for (size_t i = outside; i < steps.size(); ++i) {
      if (!loops[i].spatial) continue;
      for (size_t d = 0; d < slice.size(); ++d)
        if (steps[i][d] != 0 && loops[i].count > 1) copies_[d].push_back({steps[i][d], loops[i].count});
    }
    run(evicts, begin);
  }

  /// Words that enter (equally: leave) one instance, and all instances of one source together.
  double words() const { return words_; }
  double distinctPerStep() const { return together_; }

  /// Elements that the walk touches; with those of all instances of one source.
  double touched(size_t begin, bool all_instances) const {
    double product = 1;
    for (size_t d = 0; d < slice_.size(); ++d) {
      absl::InlinedVector<Translation, 8> moves;
      for (size_t i = begin; i < steps_.size(); ++i)
        if (!loops_[i].spatial) moves.push_back({steps_[i][d], loops_[i].count});
      if (all_instances) moves.insert(moves.end(), copies_[d].begin(), copies_[d].end());
      product *= static_cast<double>(slice_[d].spreadSize(moves));
    }
    return product;
  }

 private:
  /// Equation 3.10: the first slice, and for each loop the elements that its steps bring. A step of loop i resets the
  /// temporal loops inside of it, so it moves the slice by its own distance less their ranges.
  void run(const absl::InlinedVector<bool, 12>& evicts, size_t begin) {
    const size_t dimensions = slice_.size();
    absl::InlinedVector<double, 4> full(dimensions), sizes(dimensions);
    double whole = 1, whole_together = 1;
    for (size_t d = 0; d < dimensions; ++d) {
      sizes[d] = static_cast<double>(slice_[d].size());
      full[d] = copies_[d].empty() ? sizes[d] : static_cast<double>(slice_[d].spreadSize(copies_[d]));
      whole *= sizes[d];
      whole_together *= full[d];
    }
    words_ = whole;
    together_ = whole_together;
    absl::InlinedVector<double, 12> outer(steps_.size(), 1);  // steps of the temporal loops outside of each loop
    double steps = 1;
    for (size_t i = begin; i < steps_.size(); ++i) {
      outer[i] = steps;
      if (!loops_[i].spatial) steps *= static_cast<double>(loops_[i].count);
    }
    Distances reset(dimensions, 0);
    for (size_t i = steps_.size(); i-- > begin;) {
      if (loops_[i].spatial || loops_[i].count == 1) continue;
      const double times = static_cast<double>(loops_[i].count - 1) * outer[i];
      if (evicts[i]) {
        words_ += times * whole;
        together_ += times * whole_together;
      } else {
        double kept = 1, kept_together = 1;
        for (size_t d = 0; d < dimensions; ++d) {
          const int64_t distance = steps_[i][d] - reset[d];
          if (distance == 0) {
            kept *= sizes[d];
            kept_together *= full[d];
            continue;
          }
          kept *= static_cast<double>(slice_[d].overlap(distance));
          // An element of the union is new along d if some instance lacks it.
          if (kept_together == 0) continue;
          kept_together *=
              full[d] - (copies_[d].empty() ? static_cast<double>(slice_[d].size() - slice_[d].overlap(distance))
                                            : static_cast<double>(slice_[d].without(-distance).spreadSize(copies_[d])));
        }
        words_ += times * (whole - kept);
        together_ += times * (whole_together - kept_together);
      }
      for (size_t d = 0; d < dimensions; ++d) reset[d] += (loops_[i].count - 1) * steps_[i][d];
    }
  }

  const std::vector<BoundLoop>& loops_;
  const absl::InlinedVector<Distances, 12>& steps_;
  const Slice& slice_;
  absl::InlinedVector<absl::InlinedVector<Translation, 4>, 4> copies_;  ///< spatial ones, per dimension
  double words_ = 0, together_ = 0;
};

class Movement {
 public:
  explicit Movement(const BoundTree& tree) : tree_(tree) {}

  std::vector<Boundary> run() {
    for (int tile = 0; tile < static_cast<int>(tree_.nodes.size()); ++tile) {
      groups_.clear();
      collect(tile);
      for (const Group& group : groups_) boundaries_.push_back(measured(tile, group));
    }
    return std::move(boundaries_);
  }

 private:
  const BoundNode& node(int position) const { return tree_.nodes[static_cast<size_t>(position)]; }
  const StatementView& view(int statement) const { return tree_.statements[static_cast<size_t>(statement)]; }

  void collect(int tile) {
    const BoundNode& here = node(tile);
    if (here.isLeaf()) return collect(tile, here.statement, -1);
    for (size_t child = 0; child < here.children.size(); ++child)
      for (const int s : node(here.children[child]).statements) collect(tile, s, static_cast<int>(child));
  }

  void collect(int tile, int s, int child) {
    const size_t loops = node(tile).end_loop;
    for (const BoundAccess& access : tree_.accesses[static_cast<size_t>(s)]) {
      int level = -1;
      if (child >= 0) {
        const int below = node(tile).children[static_cast<size_t>(child)];
        if (!tree_.hasBuffer(below, access.tensor)) continue;
        level = node(below).level;
      }
      absl::InlinedVector<Distances, 12> steps;
      for (size_t i = 0; i < loops; ++i) {
        Distances& distances = steps.emplace_back();
        for (const Subscript& subscript : access.access->subscripts) {
          int64_t distance = 0;
          for (const Term& term : subscript.terms)
            distance += term.coefficient * view(s).advances[i][static_cast<size_t>(term.loop)];
          distances.push_back(distance);
        }
      }
      add(tile, {.child = child, .statement = s, .access = &access}, level, std::move(steps),
          sliceOf(access, view(s).extents[loops]));
    }
  }

  void add(int tile, const User& user, int level, absl::InlinedVector<Distances, 12> steps, Slice slice) {
    const bool writes = user.access->writes;
    for (Group& group : groups_) {
      if (group.level != level || group.tensor != user.access->tensor || group.steps != steps) continue;
      // Phases pass intermediates through the outermost memory.
      if (tile == 0 && (group.writes || writes)) continue;
      if (!unite(group.slice, slice)) continue;
      if (writes) group.written = std::move(slice);
      group.reads = group.reads || !writes;
      group.writes = group.writes || writes;
      group.users.push_back(user);
      return;
    }
    Group& group = groups_.emplace_back();
    group.level = level;
    group.tensor = user.access->tensor;
    group.users.push_back(user);
    group.steps = std::move(steps);
    if (writes) group.written = slice;
    group.slice = std::move(slice);
    group.reads = !writes;
    group.writes = writes;
  }

  /// Whether the buffer of `tensor` for children of `tile` is empty after each step of a loop of `owner`, with which
  /// the steps of all tiles from `owner` to `tile` end. Seq evicts a tensor after its last user of the step; the next
  /// step follows at once, so the last child may pass it to the first.
  bool evicts(int tile, int owner, int tensor) const {
    for (int ending = tile;; ending = node(ending).parent) {
      const BoundNode& around = node(ending);
      if (around.join == v1::Tile::SEQ && around.children.size() > 1 &&
          !(ending == tile && accesses(around.children.front(), tensor) && accesses(around.children.back(), tensor)))
        return true;
      if (ending == owner) return false;
    }
  }

  bool accesses(int tile, int tensor) const {
    return std::ranges::any_of(node(tile).statements, [&](int s) {
      return std::ranges::any_of(tree_.accesses[static_cast<size_t>(s)],
                                 [&](const BoundAccess& access) { return access.tensor == tensor; });
    });
  }

  Boundary measured(int tile, const Group& group) const {
    Boundary boundary{
        .tile = tile, .level = group.level, .tensor = group.tensor, .source = tree_.holderOf(tile, group.tensor)};
    for (const User& user : group.users) {
      if (user.child < 0) continue;
      const int member = node(tile).children[static_cast<size_t>(user.child)];
      if (std::ranges::find(boundary.members, member) == boundary.members.end()) boundary.members.push_back(member);
    }
    const std::vector<BoundLoop>& loops = view(group.users.front().statement).loops;
    const size_t outside = node(boundary.source).first_loop;
    absl::InlinedVector<bool, 12> evicting(group.steps.size());
    for (size_t i = 0; i < group.steps.size(); ++i) {
      evicting[i] = evicts(tile, loops[i].node, group.tensor);
      if (loops[i].spatial) boundary.instances *= loops[i].count;
      if (loops[i].spatial && i < outside) boundary.source_instances *= loops[i].count;
    }
    boundary.words = static_cast<int64_t>(std::min(sizeOf(group.slice), kMostWords));
    boundary.filled = group.reads && !group.writes;
    const auto instances = static_cast<double>(boundary.instances),
               sources = static_cast<double>(boundary.source_instances);
    if (boundary.filled) {
      const Walk walk(loops, group.steps, group.slice, evicting, 0, outside);
      boundary.filled_words = walk.words() * instances;
      boundary.read_words = walk.distinctPerStep() * sources;
    }
    boundary.drained = group.writes && leaves(group);
    if (boundary.drained) {
      // Sums are complete, and begin again, once for each step of the tile that contains all accesses.
      const size_t begin = tree_.isIntermediate(group.tensor)
                               ? std::min(node(tree_.scopeOf(group.tensor)).end_loop, group.steps.size())
                               : 0;
      double epochs = 1;
      for (size_t i = 0; i < begin; ++i)
        if (!loops[i].spatial) epochs *= static_cast<double>(loops[i].count);
      const Walk walk(loops, group.steps, group.written, evicting, begin, outside);
      boundary.drained_words = walk.words() * epochs * instances;
      boundary.update_words = walk.distinctPerStep() * epochs * sources;
      boundary.partial_words = (walk.distinctPerStep() - walk.touched(begin, true)) * epochs * sources;
    }
    return boundary;
  }

  /// Whether the written tensor leaves the buffer: a result, or read by statements that do not share the buffer.
  bool leaves(const Group& group) const {
    const auto& readers = tree_.readers[static_cast<size_t>(group.tensor)];
    return readers.empty() || !std::ranges::all_of(readers, [&](int reader) {
             return std::ranges::any_of(
                 group.users, [&](const User& user) { return user.statement == reader && !user.access->writes; });
           });
  }

  const BoundTree& tree_;
  std::vector<Group> groups_;
  std::vector<Boundary> boundaries_;
};

}  // namespace

std::vector<Boundary> boundariesOf(const BoundTree& tree) { return Movement(tree).run(); }

}  // namespace tessera::compiler::cost
