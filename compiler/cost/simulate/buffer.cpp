#include "compiler/cost/simulate/buffer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/cost/step_extents.h"

namespace tessera::compiler::cost {
namespace {

const BoundNode& nodeOf(const BoundTree& tree, int position) { return tree.nodes[static_cast<size_t>(position)]; }
const StatementView& viewOf(const BoundTree& tree, int s) { return tree.statements[static_cast<size_t>(s)]; }

/// Instances of the buffer and of its source.
void place(const BoundTree& tree, Buffer& buffer) {
  const std::vector<BoundLoop>& loops = viewOf(tree, buffer.users[0].first).loops;
  const size_t end = nodeOf(tree, buffer.tile).end_loop, outside = nodeOf(tree, buffer.source).first_loop;
  std::map<Indices, size_t> sources;
  Indices indices(end, 0);
  while (true) {
    Indices outer(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(outside));
    Content& instance = buffer.instances.emplace_back();
    instance.place = indices;
    instance.source = sources.emplace(outer, sources.size()).first->second;
    size_t i = end;
    while (i-- > 0) {
      if (!loops[i].spatial) continue;
      if (++indices[i] < loops[i].count) break;
      indices[i] = 0;
    }
    if (i == static_cast<size_t>(-1)) break;
  }
  buffer.begun.resize(sources.size());
}

/// Sizes that give different elements different numbers.
void number(const BoundTree& tree, Buffer& buffer) {
  for (size_t s = 0; s < tree.statements.size(); ++s) {
    for (const BoundAccess& access : tree.accesses[s]) {
      if (access.tensor != buffer.tensor) continue;
      buffer.sizes.resize(access.access->subscripts.size(), 1);
      for (size_t d = 0; d < buffer.sizes.size(); ++d) {
        const std::vector<int64_t> whole(tree.statements[s].extents[0].begin(), tree.statements[s].extents[0].end());
        const loopnest::Range range = loopnest::rangeOf(access.access->subscripts[d], whole);
        buffer.sizes[d] = std::max({buffer.sizes[d], 2 * (std::abs(range.high) + 1), 2 * (std::abs(range.low) + 1)});
      }
    }
  }
}

}  // namespace

std::vector<Buffer> buffersOf(const BoundTree& tree) {
  std::vector<Buffer> buffers;
  for (int tile = 0; tile < static_cast<int>(tree.nodes.size()); ++tile) {
    const BoundNode& here = nodeOf(tree, tile);
    const size_t first = buffers.size();
    for (const int s : here.statements) {
      size_t child = 0;
      while (child < here.children.size() && std::ranges::find(nodeOf(tree, here.children[child]).statements, s) ==
                                                 nodeOf(tree, here.children[child]).statements.end())
        ++child;
      for (const BoundAccess& access : tree.accesses[static_cast<size_t>(s)]) {
        if (!here.isLeaf() && !tree.hasBuffer(here.children[child], access.tensor)) continue;
        const int level = here.isLeaf() ? -1 : nodeOf(tree, here.children[child]).level;
        Buffer* into = nullptr;
        for (size_t b = first; b < buffers.size(); ++b) {
          Buffer& buffer = buffers[b];
          if (buffer.level != level || buffer.tensor != access.tensor) continue;
          // Phases pass tensors to each other through the outermost memory.
          if (tile == 0 && (buffer.writes || access.writes) && buffer.children.front() != child) continue;
          into = &buffer;
        }
        if (into == nullptr) {
          into = &buffers.emplace_back();
          into->tile = tile;
          into->level = level;
          into->tensor = access.tensor;
          into->source = tree.holderOf(tile, access.tensor);
        }
        into->users.emplace_back(s, &access);
        if (into->children.empty() || into->children.back() != child) into->children.push_back(child);
        (access.writes ? into->writes : into->reads) = true;
      }
    }
    for (size_t b = first; b < buffers.size(); ++b) {
      Buffer& buffer = buffers[b];
      const auto& readers = tree.readers[static_cast<size_t>(buffer.tensor)];
      buffer.leaves = readers.empty();
      for (const int reader : readers) {
        const bool inside = std::ranges::any_of(
            buffer.users, [&](const auto& user) { return user.first == reader && !user.second->writes; });
        buffer.leaves = buffer.leaves || !inside;
      }
      place(tree, buffer);
      number(tree, buffer);
      for (size_t outer = 0; outer < first; ++outer) {
        const Buffer& other = buffers[outer];
        if (other.level < 0 || other.tensor != buffer.tensor || other.tile != nodeOf(tree, buffer.source).parent)
          continue;
        const auto& children = nodeOf(tree, other.tile).children;
        for (const size_t child : other.children)
          if (children[child] == buffer.source) buffer.source_buffer = static_cast<int>(outer);
      }
    }
  }
  return buffers;
}

bool keyOf(const BoundTree& tree, const Buffer& buffer, const Indices& step, const Indices& place, Indices& key) {
  key.clear();
  const size_t depth = nodeOf(tree, buffer.tile).end_loop;
  const StatementView& path = viewOf(tree, buffer.users[0].first);
  std::optional<StepExtents> partial;
  if (!tree.is_even) partial.emplace(tree);
  for (size_t i = 0; i < depth && partial; ++i)
    if (!partial->enter(path.loops[i], i, step[i] + place[i])) return false;
  for (const auto& [s, access] : buffer.users) {
    const StatementView& view = viewOf(tree, s);
    const auto left = partial ? partial->of(s) : absl::MakeConstSpan(view.extents[depth]);
    for (size_t l = 0; l < left.size(); ++l) {
      if (!access->access->uses(static_cast<int>(l))) continue;
      int64_t base = 0;
      for (size_t i = 0; i < depth; ++i) base += (step[i] + place[i]) * view.advances[i][l];
      key.push_back(base);
      key.push_back(left[l]);
    }
  }
  key.push_back(0);  // tensors of one element have a key, too
  return true;
}

Elements elementsOf(const BoundTree& tree, const Buffer& buffer, const Indices& key, bool of_writer) {
  Elements elements;
  size_t at = 0;
  for (const auto& [s, access] : buffer.users) {
    const size_t loops = viewOf(tree, s).extents[0].size();
    std::vector<int64_t> base(loops, 0), extents(loops, 1);
    for (size_t l = 0; l < loops; ++l) {
      if (!access->access->uses(static_cast<int>(l))) continue;
      base[l] = key[at++];
      extents[l] = key[at++];
    }
    if (of_writer && !access->writes) continue;
    std::vector<int64_t> point = base;
    while (true) {
      uint64_t element = 0;  // tensors beyond 2^64 elements wrap around
      for (size_t d = 0; d < buffer.sizes.size(); ++d)
        element = element * static_cast<uint64_t>(buffer.sizes[d]) +
                  static_cast<uint64_t>(access->access->subscripts[d].at(point) + buffer.sizes[d] / 2);
      elements.push_back(static_cast<int64_t>(element));
      size_t l = loops;
      while (l-- > 0) {
        if (++point[l] < base[l] + extents[l]) break;
        point[l] = base[l];
      }
      if (l == static_cast<size_t>(-1)) break;
    }
  }
  std::ranges::sort(elements);
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}

}  // namespace tessera::compiler::cost
