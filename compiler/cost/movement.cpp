#include "compiler/cost/movement.h"

#include <algorithm>

#include "compiler/cost/walk.h"

namespace tessera::compiler::cost {
namespace {

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
        for (const loopnest::Subscript& subscript : access.access->subscripts) {
          int64_t distance = 0;
          for (const loopnest::Term& term : subscript.terms)
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
      // Phases pass intermediates to each other through the outermost memory.
      if (tile == 0 && (group.writes || writes) && group.users.front().child != user.child) continue;
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
    SlicePath path{.tree = &tree_,
                   .loops = &loops,
                   .steps = &group.steps,
                   .slice = &group.slice,
                   .outside = node(boundary.source).first_loop};
    // Loops of outer tiles evict wherever those of inner ones do.
    while (path.restart < group.steps.size() && evicts(tile, loops[path.restart].node, group.tensor)) ++path.restart;
    boundary.words = static_cast<int64_t>(std::min(sizeOf(group.slice), kMaxWords));
    boundary.filled = group.reads && !group.writes;
    if (boundary.filled) {
      for (const User& user : group.users) path.users.push_back({user.statement, user.access});
      const WalkCounts counts = walk(path);
      boundary.filled_words = counts.entered.words;
      boundary.read_words = counts.entered.distinct;
      boundary.fills = {counts.first, counts.by_loop};
    }
    boundary.drained = group.writes && leaves(group);
    if (boundary.drained) {
      // Sums are complete, and begin again, once for each step of the tile that contains all accesses.
      if (tree_.isIntermediate(group.tensor))
        path.begin = std::min(node(tree_.scopeOf(group.tensor)).end_loop, group.steps.size());
      path.restart = std::max(path.restart, path.begin);
      path.slice = &group.written;
      path.users.clear();
      for (const User& user : group.users)
        if (user.access->writes) path.users.push_back({user.statement, user.access});
      const WalkCounts counts = walk(path);
      boundary.drained_words = counts.entered.words;
      boundary.update_words = counts.distinct_left;
      boundary.partial_words = counts.entered.distinct - counts.touched;
      boundary.results = {counts.first, counts.by_loop};
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
