#include "compiler/cost/simulate/execution.h"

#include <algorithm>
#include <optional>

#include "compiler/cost/step_extents.h"

namespace tessera::compiler::cost {
namespace {

Elements missing(const Elements& from, const Elements& elements) {
  Elements rest;
  std::ranges::set_difference(elements, from, std::back_inserter(rest));
  return rest;
}

}  // namespace

Execution::Execution(const loopnest::Nest& nest, const BoundTree& tree, const Machine& machine)
    : nest_(nest),
      tree_(tree),
      machine_(machine),
      buffers_(buffersOf(tree)),
      buffer_tasks_(buffers_.size()),
      tile_tasks_(tree.nodes.size()),
      buffers_at_(tree.nodes.size()),
      root_feeders_(tree.tensors.size()),
      outermost_(tree.tensors.size()),
      units_of_kinds_(machine.units.size(), 0) {
  for (size_t b = 0; b < buffers_.size(); ++b) {
    buffers_at_[static_cast<size_t>(buffers_[b].tile)].push_back(b);
    if (!buffers_[b].writes) continue;
    const int source = buffers_[b].source_buffer;
    (source < 0 ? root_feeders_[static_cast<size_t>(buffers_[b].tensor)]
                : buffer_tasks_[static_cast<size_t>(source)].feeders)
        .push_back(b);
  }
  for (size_t tile = 0; tile < tree.nodes.size(); ++tile)
    tile_tasks_[tile].ends.resize(std::max<size_t>(1, tree.nodes[tile].children.size()), {-1, -1});
  for (const Machine::Memory& memory : machine.memories) {
    LevelCost& level = cost_.levels.emplace_back();
    level.name = memory.name;
    for (size_t tensor = 0; tensor < tree.tensors.size(); ++tensor)
      level.tensors.push_back({.tensor = tree.tensors[tensor], .word_bytes = tree.word_bytes[tensor]});
  }
}

DataflowCost Execution::run() {
  visit(0, {});
  for (size_t b = buffers_.size(); b-- > 0;) drain(b, true);
  for (size_t tensor = 0; tensor < outermost_.size(); ++tensor) {
    const auto words = static_cast<int64_t>(outermost_[tensor].size());
    LevelCost& level = cost_.levels.back();
    level.tensors[tensor].footprint = words;
    level.footprint += words;
    level.footprint_bytes += words * tree_.word_bytes[tensor];
  }
  cost_.energy_pj += cost_.operations * machine_.energy_pj_per_operation;
  for (size_t level = 0; level < cost_.levels.size(); ++level)
    for (const Traffic& each : cost_.levels[level].tensors)
      cost_.energy_pj += machine_.memories[level].energyOf((each.read + each.drain) * each.word_bytes,
                                                           (each.fill + each.update) * each.word_bytes);
  countUnits();
  return std::move(cost_);
}

void Execution::countUnits() {
  for (size_t level = 0; level + 1 < cost_.levels.size(); ++level)
    cost_.levels[level].units = atOnce(0, [&](const BoundNode& tile, int64_t) -> int64_t {
      return tile.level == static_cast<int>(level) && node(tile.parent).level > tile.level ? 1 : 0;
    });
  cost_.levels.back().units = 1;
  for (size_t kind = 0; kind < units_of_kinds_.size(); ++kind)
    units_of_kinds_[kind] = atOnce(0, [&](const BoundNode& tile, int64_t spatial) {
      return tile.isLeaf() && tile.unit == static_cast<int>(kind) ? spatial : 0;
    });
  cost_.units = atOnce(0, [](const BoundNode& tile, int64_t spatial) { return tile.isLeaf() ? spatial : 0; });
}

int64_t Execution::atOnce(int position, const Uses& uses) const {
  const BoundNode& tile = node(position);
  const std::vector<BoundLoop>& loops = tree_.statements[static_cast<size_t>(tile.statements.front())].loops;
  int64_t spatial = 1, inside = 0;
  for (size_t i = tile.first_loop; i < tile.end_loop; ++i)
    if (loops[i].spatial) spatial *= loops[i].count;
  const bool at_once = tile.join == v1::Tile::PARA || tile.join == v1::Tile::PIPE;
  for (const int child : tile.children)
    inside = at_once ? inside + atOnce(child, uses) : std::max(inside, atOnce(child, uses));
  const int64_t own = position > 0 ? uses(tile, spatial) : 0;
  return own > 0 ? own : spatial * inside;
}

int Execution::port(int tile, bool writes) {
  const int level = node(tile).level;
  const auto [found, is_new] =
      ports_.try_emplace({2 * level + (writes ? 1 : 0), partOf(tree_, tile, level)}, static_cast<int>(ports_.size()));
  if (is_new) {
    const Machine::Memory& memory = machine_.memories[static_cast<size_t>(level)];
    const double rate = writes ? memory.write_bytes_per_cycle : memory.read_bytes_per_cycle;
    graph_.port_bytes_per_cycle.push_back(rate);
    if (rate >= Machine::kUnlimited) found->second = -1;
  }
  return found->second;
}

int Execution::join(std::vector<int> tasks) {
  std::erase(tasks, -1);
  if (tasks.empty()) return -1;
  if (tasks.size() == 1) return tasks.front();
  return graph_.add({.waits_for = std::move(tasks)});
}

bool Execution::isExclusive(const BoundNode& tile) const {
  return tile.join == v1::Tile::SEQ && tile.children.size() > 1;
}

bool Execution::accesses(int tile, int tensor) const {
  return std::ranges::any_of(node(tile).statements, [&](int s) {
    return std::ranges::any_of(tree_.accesses[static_cast<size_t>(s)],
                               [&](const BoundAccess& access) { return access.tensor == tensor; });
  });
}

bool Execution::hasWork(int tile, const Indices& step) const {
  if (tree_.is_even) return true;
  const std::vector<BoundLoop>& loops = tree_.statements[static_cast<size_t>(node(tile).statements.front())].loops;
  StepExtents left(tree_);
  for (size_t i = 0; i < node(tile).end_loop; ++i)
    if (!left.enter(loops[i], i, step[i])) return false;
  return true;
}

void Execution::visit(int tile, const Indices& outer) {
  const BoundNode& here = node(tile);
  const std::vector<BoundLoop>& loops = tree_.statements[static_cast<size_t>(here.statements.front())].loops;
  Indices step = outer;
  step.resize(here.end_loop, 0);
  while (true) {
    // The first instance has work in every step in which any has.
    if (hasWork(tile, step)) {
      beginStep(tile);
      if (here.isLeaf()) {
        for (const size_t b : buffers_at_[static_cast<size_t>(tile)]) update(b, step);
        std::array<int, 2>& ends = tile_tasks_[static_cast<size_t>(tile)].ends[0];
        ends = {compute(tile, step), ends[0]};
      }
      for (size_t child = 0; child < here.children.size(); ++child) runChild(tile, child, step);
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

void Execution::beginStep(int tile) {
  const TileTasks& tasks = tile_tasks_[static_cast<size_t>(tile)];
  for (const size_t b : buffers_at_[static_cast<size_t>(tile)]) {
    BufferTasks& buffer = buffer_tasks_[b];
    ++buffer.step;
    // Two copies: the one for this step is that of the step before the last one.
    buffer.slot.clear();
    for (const size_t child : buffers_[b].children) buffer.slot.push_back(tasks.ends[child][1]);
    const bool is_last_old = buffer.last.step + 2 <= buffer.step;
    if (buffers_[b].writes) buffer.slot.push_back(is_last_old ? buffer.last.task : buffer.before.task);
  }
}

void Execution::runChild(int tile, size_t child, const Indices& step) {
  TileTasks& tasks = tile_tasks_[static_cast<size_t>(tile)];
  const bool exclusive = isExclusive(node(tile));
  const int outer_barrier = barrier_;
  if (exclusive) barrier_ = join({barrier_, tasks.vacated});
  for (const size_t b : buffers_at_[static_cast<size_t>(tile)]) {
    if (buffers_[b].children.front() == child) update(b, step);
  }
  const int inner = node(tile).children[child];
  visit(inner, step);
  const auto& inner_ends = tile_tasks_[static_cast<size_t>(inner)].ends;
  std::vector<int> ends;
  ends.reserve(inner_ends.size());
  for (const auto& end : inner_ends) ends.push_back(end[0]);
  tasks.ends[child] = {join(std::move(ends)), tasks.ends[child][0]};
  complete(tile, child);
  if (exclusive) vacate(tile, child);
  barrier_ = outer_barrier;
}

int Execution::compute(int tile, const Indices& step) {
  const BoundNode& leaf = node(tile);
  const StatementView& view = tree_.statements[static_cast<size_t>(leaf.statement)];
  const double speed = machine_.units[static_cast<size_t>(leaf.unit)].operations_per_cycle;
  Task task{.duration = 1};
  for (const Content& instance : buffers_[buffers_at_[static_cast<size_t>(tile)].front()].instances) {
    std::optional<StepExtents> partial;
    if (!tree_.is_even) partial.emplace(tree_);
    bool works = true;
    for (size_t i = 0; i < view.loops.size() && works && partial; ++i)
      works = partial->enter(view.loops[i], i, step[i] + instance.place[i]);
    if (!works) continue;
    const auto left = partial ? partial->of(leaf.statement) : absl::MakeConstSpan(view.extents.back());
    double operations = nest_.statements[static_cast<size_t>(leaf.statement)].body.flops;
    for (size_t loop = 0; loop < view.runs.size(); ++loop)
      if (view.runs[loop]) operations *= static_cast<double>(left[loop]);
    cost_.operations += operations;
    task.duration = std::max(task.duration, operations / speed);
  }
  // A part works for one leaf after another, and so do the parts inside and around it.
  const Part part = partOf(tree_, tile, -1);
  task.waits_for = {barrier_};
  for (const auto& [other, last] : last_on_units_)
    if (std::equal(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(std::min(part.size(), other.size())),
                   other.begin()))
      task.waits_for.push_back(last);
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& buffer = buffers_[b];
    if (buffer.tile == tile) task.waits_for.push_back(buffer_tasks_[b].load);
    if (!buffer.writes || !tree_.contains(buffer.tile, tile)) continue;
    for (const auto& [s, access] : buffer.users) {
      if (s == leaf.statement && access->writes)
        task.waits_for.insert(task.waits_for.end(), buffer_tasks_[b].slot.begin(), buffer_tasks_[b].slot.end());
    }
  }
  std::erase(task.waits_for, -1);
  return last_on_units_[part] = graph_.add(std::move(task));
}

void Execution::complete(int tile, size_t child) {
  const int inner = node(tile).children[child];
  for (size_t b = buffers_.size(); b-- > 0;) {
    Buffer& buffer = buffers_[b];
    if (!buffer.writes || !tree_.isIntermediate(buffer.tensor) || tree_.scopeOf(buffer.tensor) != tile) continue;
    const int writer = tree_.statements[static_cast<size_t>(tree_.writer[static_cast<size_t>(buffer.tensor)])].leaf;
    if (!tree_.contains(inner, writer)) continue;
    drain(b, false);
    for (auto& elements : buffer.begun) elements.clear();
  }
}

void Execution::vacate(int tile, size_t child) {
  const BoundNode& here = node(tile);
  std::vector<int> tasks = {tile_tasks_[static_cast<size_t>(tile)].ends[child][0]};
  for (size_t b = buffers_.size(); b-- > 0;) {
    const Buffer& buffer = buffers_[b];
    bool evicts = buffer.tile != tile && tree_.contains(here.children[child], buffer.tile);
    if (buffer.tile == tile && accesses(here.children[child], buffer.tensor)) {
      bool wanted = false;
      for (size_t later = child + 1; later < here.children.size(); ++later)
        wanted = wanted || accesses(here.children[later], buffer.tensor);
      if (child + 1 == here.children.size())
        wanted = accesses(here.children.front(), buffer.tensor) && accesses(here.children.back(), buffer.tensor);
      evicts = evicts || !wanted;
    }
    if (!evicts) continue;
    drain(b, true);
    tasks.push_back(buffer_tasks_[b].last.task);
  }
  tile_tasks_[static_cast<size_t>(tile)].vacated = join(std::move(tasks));
}

void Execution::update(size_t position, const Indices& step) {
  Buffer& buffer = buffers_[position];
  BufferTasks& tasks = buffer_tasks_[position];
  Moves sent(buffer.instances.size(), buffer.begun.size()), gone = sent;
  std::vector<Elements> made(buffer.begun.size());
  bool changes = false;
  Indices key;
  for (size_t i = 0; i < buffer.instances.size(); ++i) {
    Content& content = buffer.instances[i];
    // An instance without work in this step keeps its content.
    if (!keyOf(tree_, buffer, step, content.place, key) || key == content.key) continue;
    changes = true;
    content.key = key;
    Elements now = elementsOf(tree_, buffer, key, false);
    if (buffer.reads && !buffer.writes) sent.add(i, content.source, missing(content.elements, now));
    content.elements = std::move(now);
    if (!buffer.writes || !buffer.leaves) continue;
    Elements results = elementsOf(tree_, buffer, key, true);
    gone.add(i, content.source, missing(results, content.written));
    const Elements fresh = missing(content.written, results);
    made[content.source].insert(made[content.source].end(), fresh.begin(), fresh.end());
    content.written = std::move(results);
  }
  if (!changes) return;
  store(position, std::move(gone), tasks.step - 1);
  fill(position, std::move(sent), made);
  if (buffer.source_buffer >= 0) tasks.written_in = buffer_tasks_[static_cast<size_t>(buffer.source_buffer)].step;
  noteWords(position);
}

void Execution::drain(size_t position, bool evicts) {
  Buffer& buffer = buffers_[position];
  Moves gone(buffer.instances.size(), buffer.begun.size());
  for (size_t i = 0; i < buffer.instances.size(); ++i) {
    Content& content = buffer.instances[i];
    gone.add(i, content.source, content.written);
    content.written.clear();
    content.key.clear();
    if (evicts) content.elements.clear();
  }
  store(position, std::move(gone), buffer_tasks_[position].step);
  if (evicts) noteWords(position);
}

void Execution::Moves::add(size_t instance, size_t source, const Elements& moved) {
  any = any || !moved.empty();
  words[instance] += static_cast<int64_t>(moved.size());
  elements[source].insert(elements[source].end(), moved.begin(), moved.end());
}

int64_t Execution::Moves::mostWords() const { return *std::ranges::max_element(words); }

int64_t Execution::Moves::unite(int64_t& most) {
  int64_t sum = 0;
  most = 0;
  for (Elements& each : elements) {
    std::ranges::sort(each);
    each.erase(std::unique(each.begin(), each.end()), each.end());
    sum += static_cast<int64_t>(each.size());
    most = std::max(most, static_cast<int64_t>(each.size()));
  }
  return sum;
}

void Execution::store(size_t position, Moves gone, int64_t content_step) {
  if (!gone.any) return;
  const Buffer& buffer = buffers_[position];
  BufferTasks& tasks = buffer_tasks_[position];
  const double word = tree_.word_bytes[static_cast<size_t>(buffer.tensor)];
  int64_t most = 0;
  traffic(node(buffer.source).level, buffer.tensor).update += static_cast<double>(gone.unite(most));
  if (buffer.source == 0)
    for (const Elements& each : gone.elements)
      outermost_[static_cast<size_t>(buffer.tensor)].insert(each.begin(), each.end());
  Task task{.write_port = port(buffer.source, true), .write_bytes = word * static_cast<double>(most)};
  if (buffer.level >= 0) {
    for (const int64_t words : gone.words) traffic(buffer.level, buffer.tensor).drain += static_cast<double>(words);
    task.read_port = port(node(buffer.tile).children[buffer.children.front()], false);
    task.read_bytes = word * static_cast<double>(gone.mostWords());
  }
  task.waits_for.push_back(tasks.last.task);
  for (const size_t child : buffer.children)
    task.waits_for.push_back(tile_tasks_[static_cast<size_t>(buffer.tile)].ends[child][0]);
  for (const size_t feeder : tasks.feeders) task.waits_for.push_back(buffer_tasks_[feeder].last.task);
  std::erase(task.waits_for, -1);
  const int added = graph_.add(std::move(task));
  if (tasks.last.step != content_step) tasks.before = tasks.last;
  tasks.last = {content_step, added};
  if (buffer.source_buffer < 0) return;
  // The outer buffer may have moved on in the same step: what leaves it waits for what arrives now.
  const BufferTasks& outer = buffer_tasks_[static_cast<size_t>(buffer.source_buffer)];
  if (tasks.written_in < outer.step && outer.last.step >= tasks.written_in && outer.last.task >= 0)
    graph_.wait(outer.last.task, added);
}

void Execution::fill(size_t position, Moves sent, const std::vector<Elements>& made) {
  Buffer& buffer = buffers_[position];
  BufferTasks& tasks = buffer_tasks_[position];
  const double word = tree_.word_bytes[static_cast<size_t>(buffer.tensor)];
  // Sums that were begun before return.
  int64_t continued = 0;
  for (size_t source = 0; source < made.size(); ++source) {
    Elements fresh = made[source];
    std::ranges::sort(fresh);
    fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
    int64_t words = 0;
    for (const int64_t element : fresh) words += buffer.begun[source].insert(element).second ? 0 : 1;
    traffic(node(buffer.source).level, buffer.tensor).read += static_cast<double>(words);
    if (buffer.level >= 0) traffic(buffer.level, buffer.tensor).fill += static_cast<double>(words);
    continued = std::max(continued, words);
  }
  int64_t most = 0;
  traffic(node(buffer.source).level, buffer.tensor).read += static_cast<double>(sent.unite(most));
  if (buffer.source == 0)
    for (const Elements& each : sent.elements)
      outermost_[static_cast<size_t>(buffer.tensor)].insert(each.begin(), each.end());
  if (!sent.any && continued == 0) return;
  Task task{.read_port = port(buffer.source, false), .read_bytes = word * static_cast<double>(most + continued)};
  if (buffer.level >= 0) {
    for (const int64_t words : sent.words) traffic(buffer.level, buffer.tensor).fill += static_cast<double>(words);
    task.write_port = port(node(buffer.tile).children[buffer.children.front()], true);
    task.write_bytes = word * static_cast<double>(sent.mostWords() + continued);
  }
  task.waits_for = tasks.slot;
  task.waits_for.insert(task.waits_for.end(), {tasks.load, barrier_});
  // Sums that return left with earlier steps than the last one.
  const auto feeds = [&](const std::vector<size_t>& feeders) {
    for (const size_t feeder : feeders) {
      const BufferTasks& from = buffer_tasks_[feeder];
      const bool is_own = feeder == position && from.last.step + 1 == from.step;
      task.waits_for.push_back(is_own ? from.before.task : from.last.task);
    }
  };
  if (buffer.source_buffer < 0) {
    feeds(root_feeders_[static_cast<size_t>(buffer.tensor)]);
  } else {
    const BufferTasks& outer = buffer_tasks_[static_cast<size_t>(buffer.source_buffer)];
    task.waits_for.push_back(outer.load);
    feeds(outer.feeders);
  }
  std::erase(task.waits_for, -1);
  tasks.load = graph_.add(std::move(task));
}

void Execution::noteWords(size_t position) {
  if (buffers_[position].level < 0) return;
  BufferTasks& tasks = buffer_tasks_[position];
  tasks.words = 0;
  for (const Content& content : buffers_[position].instances)
    tasks.words = std::max(tasks.words, static_cast<int64_t>(content.elements.size()));
  LevelCost& level = cost_.levels[static_cast<size_t>(buffers_[position].level)];
  int64_t words = 0, bytes = 0, own = 0;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].level != buffers_[position].level) continue;
    words += buffer_tasks_[b].words;
    bytes += buffer_tasks_[b].words * tree_.word_bytes[static_cast<size_t>(buffers_[b].tensor)];
    if (buffers_[b].tensor == buffers_[position].tensor) own += buffer_tasks_[b].words;
  }
  level.footprint = std::max(level.footprint, words);
  level.footprint_bytes = std::max(level.footprint_bytes, bytes);
  int64_t& footprint = level.tensors[static_cast<size_t>(buffers_[position].tensor)].footprint;
  footprint = std::max(footprint, own);
}

}  // namespace tessera::compiler::cost
