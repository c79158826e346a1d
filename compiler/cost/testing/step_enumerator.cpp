#include "compiler/cost/testing/step_enumerator.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace tessera::compiler::cost {
namespace {

using Elements = std::unordered_set<int64_t>;
using Indices = std::vector<int64_t>;

/// A buffer for one tensor and the children of one tile that use it: its content in every instance.
struct Buffer {
  int tile = 0, level = -1, tensor = 0, source = 0;
  std::vector<std::pair<int, const BoundAccess*>> users;
  bool reads = false, writes = false, leaves = false;
  std::vector<Indices> instances;  ///< indices of the spatial loops, 0 for temporal loops
  std::vector<size_t> sources;     ///< of each instance: which instance of the source serves it
  std::vector<Elements> content;   ///< of each instance
  std::vector<Elements> written;   ///< of each instance: elements of `content` that the writer makes
  std::vector<Elements> begun;     ///< of each source: elements with a partial sum
};

class Enumerator {
 public:
  Enumerator(const BoundTree& tree, size_t levels)
      : tree_(tree), totals_(levels, std::vector<EnumeratedTraffic>(tree.tensors.size())) {
    for (int tile = 0; tile < static_cast<int>(tree.nodes.size()); ++tile) addBuffers(tile);
  }

  std::vector<std::vector<EnumeratedTraffic>> run() {
    visit(0, {});
    for (Buffer& buffer : buffers_) drainAll(buffer);
    return totals_;
  }

 private:
  const BoundNode& node(int position) const { return tree_.nodes[static_cast<size_t>(position)]; }
  const StatementView& view(int statement) const { return tree_.statements[static_cast<size_t>(statement)]; }
  EnumeratedTraffic& total(int level, int tensor) {
    return totals_[static_cast<size_t>(level)][static_cast<size_t>(tensor)];
  }
  int levelOf(int tile) const { return node(tile).level; }

  void addBuffers(int tile) {
    const BoundNode& here = node(tile);
    const size_t first = buffers_.size();
    for (const int s : here.statements) {
      int below = -1;
      for (const int child : here.children)
        if (std::ranges::find(node(child).statements, s) != node(child).statements.end()) below = child;
      for (const BoundAccess& access : tree_.accesses[static_cast<size_t>(s)]) {
        if (below >= 0 && !tree_.hasBuffer(below, access.tensor)) continue;
        const int level = below < 0 ? -1 : levelOf(below);
        Buffer* into = nullptr;
        for (size_t b = first; b < buffers_.size(); ++b) {
          Buffer& buffer = buffers_[b];
          if (buffer.level != level || buffer.tensor != access.tensor) continue;
          if (tile == 0 && (buffer.writes || access.writes)) continue;  // phases pass tensors through the root
          into = &buffer;
        }
        if (into == nullptr) {
          into = &buffers_.emplace_back();
          into->tile = tile;
          into->level = level;
          into->tensor = access.tensor;
          into->source = tree_.holderOf(tile, access.tensor);
        }
        into->users.emplace_back(s, &access);
        (access.writes ? into->writes : into->reads) = true;
      }
    }
    for (size_t b = first; b < buffers_.size(); ++b) finish(buffers_[b]);
  }

  void finish(Buffer& buffer) {
    buffer.leaves = tree_.readers[static_cast<size_t>(buffer.tensor)].empty();
    for (const int reader : tree_.readers[static_cast<size_t>(buffer.tensor)]) {
      const bool inside = std::ranges::any_of(
          buffer.users, [&](const auto& user) { return user.first == reader && !user.second->writes; });
      buffer.leaves = buffer.leaves || !inside;
    }
    const std::vector<BoundLoop>& loops = view(buffer.users[0].first).loops;
    const size_t end = node(buffer.tile).end_loop;
    std::map<Indices, size_t> sources;
    Indices indices(end, 0);
    while (true) {
      Indices outer(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(node(buffer.source).first_loop));
      buffer.sources.push_back(sources.emplace(outer, sources.size()).first->second);
      buffer.instances.push_back(indices);
      size_t i = end;
      while (i-- > 0) {
        if (!loops[i].spatial) continue;
        if (++indices[i] < loops[i].count) break;
        indices[i] = 0;
      }
      if (i == static_cast<size_t>(-1)) break;
    }
    buffer.content.resize(buffer.instances.size());
    buffer.written.resize(buffer.instances.size());
    buffer.begun.resize(sources.size());
  }

  /// Elements of the tensor that the users access in one step, for one instance.
  Elements slice(const Buffer& buffer, const Indices& step, const Indices& instance, bool of_writer) const {
    Elements elements;
    for (const auto& [s, access] : buffer.users) {
      if (of_writer && !access->writes) continue;
      const size_t depth = node(buffer.tile).end_loop;
      std::vector<int64_t> base(view(s).extents[0].size(), 0);
      for (size_t i = 0; i < depth; ++i)
        for (size_t l = 0; l < base.size(); ++l) base[l] += (step[i] + instance[i]) * view(s).advances[i][l];
      std::vector<int64_t> extents(view(s).extents[depth].begin(), view(s).extents[depth].end());
      for (size_t l = 0; l < extents.size(); ++l)
        if (!access->access->uses(static_cast<int>(l))) extents[l] = 1;
      std::vector<int64_t> point = base;
      while (true) {
        int64_t element = 0;
        for (const loopnest::Subscript& subscript : access->access->subscripts)
          element = element * 1024 + subscript.at(point) + 64;
        elements.insert(element);
        size_t l = extents.size();
        while (l-- > 0) {
          if (++point[l] < base[l] + extents[l]) break;
          point[l] = base[l];
        }
        if (l == static_cast<size_t>(-1)) break;
      }
    }
    return elements;
  }

  /// One step of the tile begins: its buffers take the slices of the step.
  void load(int tile, const Indices& step) {
    for (Buffer& buffer : buffers_) {
      if (buffer.tile != tile) continue;
      std::vector<Elements> sent(buffer.begun.size()), gone(buffer.begun.size()), made(buffer.begun.size());
      for (size_t i = 0; i < buffer.instances.size(); ++i) {
        const Elements now = slice(buffer, step, buffer.instances[i], false);
        if (buffer.reads && !buffer.writes) {
          for (const int64_t element : now) {
            if (buffer.content[i].contains(element)) continue;
            if (buffer.level >= 0) total(buffer.level, buffer.tensor).fill += 1;
            sent[buffer.sources[i]].insert(element);
          }
        }
        buffer.content[i] = now;
        if (!buffer.writes || !buffer.leaves) continue;
        const Elements results = slice(buffer, step, buffer.instances[i], true);
        for (const int64_t element : buffer.written[i]) {
          if (results.contains(element)) continue;
          if (buffer.level >= 0) total(buffer.level, buffer.tensor).drain += 1;
          gone[buffer.sources[i]].insert(element);
        }
        for (const int64_t element : results)
          if (!buffer.written[i].contains(element)) made[buffer.sources[i]].insert(element);
        buffer.written[i] = results;
      }
      const int outside = levelOf(buffer.source);
      for (size_t source = 0; source < sent.size(); ++source) {
        total(outside, buffer.tensor).read += static_cast<double>(sent[source].size());
        total(outside, buffer.tensor).update += static_cast<double>(gone[source].size());
        for (const int64_t element : made[source]) {
          if (buffer.begun[source].insert(element).second) continue;
          total(outside, buffer.tensor).read += 1;
          if (buffer.level >= 0) total(buffer.level, buffer.tensor).fill += 1;
        }
      }
    }
  }

  void drainAll(Buffer& buffer) {
    std::vector<Elements> gone(buffer.begun.size());
    for (size_t i = 0; i < buffer.instances.size(); ++i) {
      if (buffer.level >= 0) total(buffer.level, buffer.tensor).drain += static_cast<double>(buffer.written[i].size());
      gone[buffer.sources[i]].insert(buffer.written[i].begin(), buffer.written[i].end());
      buffer.written[i].clear();
    }
    for (const Elements& elements : gone)
      total(levelOf(buffer.source), buffer.tensor).update += static_cast<double>(elements.size());
  }

  void evict(Buffer& buffer) {
    drainAll(buffer);
    for (Elements& elements : buffer.content) elements.clear();
  }

  bool accesses(int tile, int tensor) const {
    for (const int s : node(tile).statements)
      for (const BoundAccess& access : tree_.accesses[static_cast<size_t>(s)])
        if (access.tensor == tensor) return true;
    return false;
  }

  /// Seq: evicts all buffers inside of the child, and from the tile's own buffers the tensors without a further use.
  void leave(int tile, size_t child) {
    const BoundNode& here = node(tile);
    for (Buffer& buffer : buffers_) {
      if (buffer.tile != tile && tree_.contains(here.children[child], buffer.tile)) evict(buffer);
      if (buffer.tile != tile) continue;
      bool wanted = false;
      for (size_t later = child + 1; later < here.children.size(); ++later)
        wanted = wanted || accesses(here.children[later], buffer.tensor);
      if (child + 1 == here.children.size())
        wanted = accesses(here.children.front(), buffer.tensor) && accesses(here.children.back(), buffer.tensor);
      if (!wanted && accesses(here.children[child], buffer.tensor)) evict(buffer);
    }
  }

  void visit(int tile, Indices outer) {
    const BoundNode& here = node(tile);
    const std::vector<BoundLoop>& loops = view(here.statements.front()).loops;
    Indices step = std::move(outer);
    step.resize(here.end_loop, 0);
    while (true) {
      load(tile, step);
      for (size_t child = 0; child < here.children.size(); ++child) {
        visit(here.children[child], step);
        if (here.join == v1::Tile::SEQ && here.children.size() > 1) leave(tile, child);
      }
      // Intermediates whose users are all in this tile are complete: results go out, and new sums begin.
      for (Buffer& buffer : buffers_) {
        if (!buffer.writes || !tree_.isIntermediate(buffer.tensor) || tile == 0) continue;
        if (tree_.scopeOf(buffer.tensor) != tile) continue;
        drainAll(buffer);
        for (Elements& elements : buffer.begun) elements.clear();
      }
      size_t i = here.end_loop;
      while (i-- > here.first_loop) {
        if (loops[i].spatial) continue;
        if (++step[i] < loops[i].count) break;
        step[i] = 0;
      }
      if (i + 1 == here.first_loop) break;
    }
  }

  const BoundTree& tree_;
  std::vector<std::vector<EnumeratedTraffic>> totals_;
  std::vector<Buffer> buffers_;
};

}  // namespace

std::vector<std::vector<EnumeratedTraffic>> enumerateSteps(const BoundTree& tree, size_t levels) {
  return Enumerator(tree, levels).run();
}

}  // namespace tessera::compiler::cost
