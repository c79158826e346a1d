#include "compiler/backends/spatial/timeline.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/epilogue_blocks.h"
#include "compiler/backends/spatial/walk.h"
#include "compiler/intrinsic/boxes.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

/// A resource that performs one operation at a time.
struct Lane {
  double free = 0, busy = 0;
  void take(double start, double duration) {
    free = start + duration;
    busy += duration;
  }
};

/// The tensor tiles that a cache holds.
class KeptTiles {
 public:
  explicit KeptTiles(int64_t capacity) : capacity_(capacity < 0 ? INT64_MAX / 2 : capacity) {}

  /// Returns whether the cache holds the tile; afterwards it does, unless the tile is larger than the cache.
  bool touch(const std::vector<int64_t>& tile, int64_t bytes) {
    const auto found = places_.find(tile);
    const bool hit = found != places_.end();
    if (hit) {
      order_.splice(order_.begin(), order_, found->second);
    } else if (bytes <= capacity_) {
      order_.push_front({tile, bytes});
      places_[tile] = order_.begin();
      used_ += bytes;
    }
    while (used_ > capacity_) {
      used_ -= order_.back().bytes;
      places_.erase(order_.back().tile);
      order_.pop_back();
    }
    return hit;
  }

 private:
  struct Entry {
    std::vector<int64_t> tile;
    int64_t bytes = 0;
  };
  const int64_t capacity_;
  int64_t used_ = 0;
  std::list<Entry> order_;  // most recently used first
  absl::flat_hash_map<std::vector<int64_t>, std::list<Entry>::iterator> places_;
};

/// Counts the positions of an operand's tile that are not padding: distinct elements of each block, summed. The number
/// cut off by a tail is the same for all blocks at that tail.
class Elements {
 public:
  Elements(const Program& program, size_t operand) : program_(program), operand_(operand) {
    const loopnest::Access& access = program.instruction.accesses[operand];
    for (size_t i = 0; i < program.instruction.loops.size(); ++i) {
      if (access.uses(static_cast<int>(i))) iterations_.push_back(static_cast<int>(i));
    }
  }

  int64_t in(const Place& place) {
    int64_t outside = 1;  // blocks of loops outside of the instruction
    for (int d : program_.walks[operand_]) {
      if (d >= static_cast<int>(program_.instruction.loops.size())) outside *= place.count[d];
    }
    // Per iteration: either the whole blocks, or the one that is cut.
    int64_t elements = 0;
    // All combinations of whole and cut iterations: each has its own number of distinct elements.
    for (uint32_t cut = 0; cut < 1u << iterations_.size(); ++cut) {
      int64_t blocks = outside;
      std::vector<int64_t> extents;
      for (size_t i = 0; i < iterations_.size(); ++i) {
        const intrinsic::Group& group = program_.choice.mapping.groups[iterations_[i]];
        const int64_t first = place.first[iterations_[i]], count = place.count[iterations_[i]];
        const int64_t rest = group.extent % group.size;
        const bool has_cut = rest != 0 && first + count == group.steps;
        blocks *= (cut >> i & 1) ? has_cut : count - has_cut;
        extents.push_back(cut >> i & 1 ? rest : group.size);
      }
      if (blocks > 0) elements += blocks * distinct(extents);
    }
    return elements;
  }

  /// An upper bound on the number of different elements of the tensor: those of the smallest box around them.
  double differentIn(const Place& place) const {
    const intrinsic::Choice& choice = program_.choice;
    const loopnest::Nest& software = choice.software;
    std::vector<int64_t> lengths(software.loops.size(), 1);
    for (size_t i = 0; i < choice.mapping.groups.size(); ++i) {
      const intrinsic::Group& group = choice.mapping.groups[i];
      const int64_t begin = place.first[i] * group.size;
      const int64_t end = std::min(group.extent, begin + place.count[i] * group.size);
      // Indices of the group's loops while its index runs from begin to end - 1: a part of one loop, all of the inner
      // ones.
      int64_t inner = 1;
      for (size_t l = group.loops.size(); l-- > 0;) {
        const auto loop = static_cast<size_t>(group.loops[l]);
        const int64_t extent = software.loops[loop].extent;
        lengths[loop] = std::min(extent, (end - 1) / inner - begin / inner + 1);
        inner *= extent;
      }
    }
    for (size_t i = 0; i < choice.mapping.outer.size(); ++i)
      lengths[static_cast<size_t>(choice.mapping.outer[i])] = place.count[choice.mapping.groups.size() + i];
    const auto array = static_cast<size_t>(arrayOf(choice.matching, operand_));
    double elements = 1;
    for (const loopnest::Subscript& subscript : software.accesses[array].subscripts) {
      double width = 1, points = 1;
      for (const loopnest::Term& term : subscript.terms) {
        const auto length = static_cast<double>(lengths[static_cast<size_t>(term.loop)]);
        width += std::fabs(static_cast<double>(term.coefficient)) * (length - 1);
        points *= length;
      }
      elements *= std::min(width, points);
    }
    return elements;
  }

 private:
  int64_t distinct(const std::vector<int64_t>& extents) {
    const auto [found, fresh] = known_.try_emplace(extents, 0);
    if (!fresh) return found->second;
    const loopnest::Access& access = program_.instruction.accesses[operand_];
    const bool apart = std::all_of(access.subscripts.begin(), access.subscripts.end(),
                                   [](const auto& subscript) { return subscript.terms.size() < 2; });
    // Each subscript has one iteration: all points are distinct.
    if (apart) {
      found->second = 1;
      for (int64_t extent : extents) found->second *= extent;
      return found->second;
    }
    std::set<std::vector<int64_t>> places;
    std::vector<int64_t> point(program_.instruction.loops.size(), 0);
    intrinsic::forEachPoint(extents, [&](const std::vector<int64_t>& at) {
      for (size_t i = 0; i < at.size(); ++i) point[iterations_[i]] = at[i];
      std::vector<int64_t> index;
      for (const auto& subscript : access.subscripts) index.push_back(subscript.at(point));
      places.insert(std::move(index));
    });
    return found->second = static_cast<int64_t>(places.size());
  }

  const Program& program_;
  const size_t operand_;
  std::vector<int> iterations_;
  std::map<std::vector<int64_t>, int64_t> known_;
};

class UnitTime : public Machine {
 public:
  UnitTime(const Program& program, std::vector<Elements>& elements, EpilogueElements* other, bool once,
           const WarmTensors& warm, Timeline& total)
      : program_(program),
        once_(once),
        warm_(warm),
        elements_(elements),
        other_(other),
        total_(total),
        lanes_(program.memories.size() + program.caches.size()),
        buffers_(program.buffers.size()) {
    for (const Memory& cache : program.caches) {
      caches_.emplace_back(cache.capacity);
      if (cache.name == warm.level) shared_ = static_cast<int>(program.memories.size() + caches_.size()) - 1;
    }
    const v1::Intrinsic& intrinsic = program.choice.intrinsic;
    latency_ = intrinsic.latency_cycles();
    interval_ = intrinsic.cycles_per_issue() > 0 ? intrinsic.cycles_per_issue() : latency_;
    for (size_t b = 0; b < buffers_.size(); ++b) buffers_[b].copies.resize(program.buffers[b].copies);
  }

  absl::Status fill(const Step& step, const Place& place) override {
    Held& to = buffers_[step.to];
    Copy& copy = next(to);
    parts_.clear();
    const int64_t bytes = blocksAt(program_, step.operand, place) * blockBytes(step.operand);
    const int memory = program_.buffers[step.to].memory;
    Lane& side = lanes_[memory].write;
    // The copy to overwrite has been read, and the port is free.
    const double start = std::max(copy.free, side.free);
    side.take(start, at(bytes, program_.memories[memory].write));
    copy.ready = copy.free = side.free;
    copy.summed = 0;
    total_.traffic[memory].written_bytes += bytes;
    ++total_.fills;
    end(side.free);
    return absl::OkStatus();
  }

  absl::Status copy(const Step& step, const Place& place, const Piece& piece) override {
    const Buffer &from = program_.buffers[step.from], &to = program_.buffers[step.to];
    const int64_t blocks = blocksAt(program_, step.operand, place);
    int64_t read = piece.count * bytesOfBlock(from), written = piece.count * bytesOfBlock(to);
    if (step.access > 0) {
      read = other_->elementsIn(place, piece, static_cast<size_t>(step.access)) * elementBytes(from.dtype);
    } else if (from.tensor || to.tensor) {
      // Padding does not exist in the tensor; each piece counts its share.
      auto elements = static_cast<double>(elements_[step.operand].in(place));
      if (from.tensor && once_) elements = std::min(elements, elements_[step.operand].differentIn(place));
      const double part = elements * static_cast<double>(piece.count) / static_cast<double>(blocks);
      (from.tensor ? read : written) = static_cast<int64_t>(part) * elementBytes((from.tensor ? from : to).dtype);
    }
    const double begin =
        from.tensor ? 0 : std::max(current(buffers_[step.from]).ready, current(buffers_[step.from]).summed);
    Copy unknown;
    Copy& target = to.tensor ? unknown : next(buffers_[step.to]);
    const int source = from.tensor ? sourceOf(step, place, piece, read) : from.memory;
    Lane &out = lanes_[source].read, &in = lanes_[to.memory].write;
    const double start = std::max({begin, target.free, out.free, in.free});
    const double reading = at(read, sideOf(source).read), writing = at(written, sideOf(to.memory).write);
    out.take(start, reading);
    in.take(start, writing);
    double finish = start + std::max(reading, writing);
    if (to.tensor && shared_ >= 0) {
      // What is stored stays in the shared cache, too.
      Lane& kept = lanes_[shared_].write;
      const double keeping = at(written, sideOf(shared_).write), begins = std::max(start, kept.free);
      kept.take(begins, keeping);
      finish = std::max(finish, begins + keeping);
      total_.traffic[shared_].written_bytes += written;
    }
    target.ready = target.free = finish;
    if (!from.tensor) {
      Copy& origin = current(buffers_[step.from]);
      origin.free = std::max(origin.free, finish);
    }
    total_.traffic[source].read_bytes += read;
    total_.traffic[to.memory].written_bytes += written;
    ++total_.copies;
    end(finish);
    return absl::OkStatus();
  }

  absl::Status call(const Step&, const Place& place) override {
    // `kept` results are independent of each other; `rounds` calls add to each of them.
    double kept = 1, rounds = 1;
    uint64_t part = 0;  // identifies the part of the destination's tile
    for (size_t d = 0; d < program_.dimensions.size(); ++d) {
      const Dimension& dimension = program_.dimensions[d];
      (dimension.sum ? rounds : kept) *= static_cast<double>(place.count[d]);
      if (!dimension.sum) part = part * static_cast<uint64_t>(dimension.blocks) + static_cast<uint64_t>(place.first[d]);
    }
    double start = unit_.free;
    for (int operand : program_.operands) start = std::max(start, current(buffers_[operand]).ready);
    // Calls that add to the same results wait for the earlier ones, also across trips of outer loops.
    double& part_ready = parts_[part];
    start = std::max(start, part_ready);
    // In order: within one round of independent results, calls are issued one after another; the next round waits for
    // the first result of this one.
    const double round = std::max(kept * interval_, latency_);
    const double issued = start + (rounds - 1) * round + kept * interval_;
    unit_.free = issued;
    unit_.busy += kept * rounds * interval_;
    part_ready = start + (rounds - 1) * round + latency_;
    const double finish = issued - interval_ + latency_;
    for (size_t operand = 0; operand < program_.operands.size(); ++operand) {
      Copy& copy = current(buffers_[program_.operands[operand]]);
      // Sources can be overwritten once the last call is issued, the result only when it has finished.
      copy.free = std::max(copy.free, operand == 0 ? finish : issued);
    }
    current(buffers_[program_.operands[0]]).summed = finish;
    total_.calls += static_cast<int64_t>(kept * rounds);
    end(finish);
    return absl::OkStatus();
  }

  absl::Status runVector(const Step& step, const Place& place, const Piece& piece) override {
    const Epilogue& epilogue = *program_.epilogue;
    Copy& results = current(buffers_[step.from]);
    Copy& output = next(buffers_[step.to]);
    Lane& unit = epilogue.unit == program_.unit ? unit_ : vector_;  // `busy` is that of calls
    double start = std::max({results.ready, results.summed, output.free, unit.free});
    for (const int tile : epilogue.tiles)
      if (tile >= 0 && tile != step.to) start = std::max(start, current(buffers_[tile]).ready);
    const double points = static_cast<double>(elements_[0].in(place)) * static_cast<double>(piece.count) /
                          static_cast<double>(blocksAt(program_, 0, place));
    const double duration =
        points * epilogue.cycles * static_cast<double>(program_.units) / static_cast<double>(epilogue.instances);
    unit.free = start + duration;
    vector_busy_ += duration;
    output.ready = output.free = unit.free;
    results.free = std::max(results.free, unit.free);
    for (const int tile : epilogue.tiles)
      if (tile >= 0 && tile != step.to) current(buffers_[tile]).free = unit.free;
    total_.vector_operations += points * epilogue.operations;
    total_.picojoules += points * epilogue.picojoules;
    end(unit.free);
    return absl::OkStatus();
  }

  double end() const { return end_; }
  double vectorCycles() const { return vector_busy_; }
  double unitCycles() const { return unit_.busy; }

  /// The resource with the longest busy time, and that time.
  std::pair<std::string, double> busiest() const {
    std::pair<std::string, double> most{program_.unit, unit_.busy};
    if (vector_busy_ > most.second) most = {program_.epilogue->unit, vector_busy_};
    for (size_t m = 0; m < lanes_.size(); ++m) {
      const std::string& name = sideOf(static_cast<int>(m)).name;
      if (lanes_[m].read.busy > most.second) most = {absl::StrCat(name, " read"), lanes_[m].read.busy};
      if (lanes_[m].write.busy > most.second) most = {absl::StrCat(name, " write"), lanes_[m].write.busy};
    }
    return most;
  }

 private:
  struct Copy {
    double ready = 0, free = 0;
    double summed = 0;  // for a result: the time when the last call has finished with it
  };
  struct Held {
    std::vector<Copy> copies;
    int now = -1;
  };
  struct Sides {
    Lane read, write;
  };

  static double at(int64_t bytes, double bandwidth) {
    return bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0;
  }
  const Memory& sideOf(int memory) const {
    const auto memories = static_cast<int>(program_.memories.size());
    return memory < memories ? program_.memories[memory] : program_.caches[memory - memories];
  }
  static Copy& next(Held& held) {
    held.now = (held.now + 1) % static_cast<int>(held.copies.size());
    return held.copies[held.now];
  }
  static Copy& current(Held& held) { return held.copies[std::max(held.now, 0)]; }

  static int64_t bytesOfBlock(const Buffer& buffer) {
    return static_cast<int64_t>(buffer.offsets.size()) * elementBytes(buffer.dtype);
  }

  int64_t blockBytes(int operand) const {
    const Buffer& home = program_.buffers[program_.operands[operand]];
    return static_cast<int64_t>(home.offsets.size()) * elementBytes(home.dtype);
  }

  /// The level that serves a read of a tensor's tile: the nearest cache that holds it, or its memory.
  int sourceOf(const Step& step, const Place& place, const Piece& piece, int64_t bytes) {
    int source = program_.buffers[step.from].memory;
    if (caches_.empty()) return source;
    if (const auto tensor = static_cast<size_t>(step.from);
        shared_ >= 0 && tensor < warm_.tensors.size() && warm_.tensors[tensor])
      source = shared_;
    std::vector<int64_t> tile = {step.from};
    for (int d : program_.walks[step.operand]) {
      tile.push_back(place.first[d]);
      tile.push_back(place.count[d]);
    }
    if (step.access > 0) tile.insert(tile.end(), {piece.first, piece.count});
    // From the outermost cache inwards: the nearest hit wins, and all caches are updated.
    for (size_t c = caches_.size(); c-- > 0;) {
      if (caches_[c].touch(tile, bytes)) source = static_cast<int>(program_.memories.size() + c);
    }
    return source;
  }

  void end(double time) { end_ = std::max(end_, time); }

  const Program& program_;
  const bool once_;
  const WarmTensors& warm_;
  std::vector<Elements>& elements_;
  EpilogueElements* const other_;  // null without an epilogue
  Timeline& total_;
  std::vector<Sides> lanes_;  // memories, then caches
  std::vector<Held> buffers_;
  std::vector<KeptTiles> caches_;
  int shared_ = -1;  // position among the lanes of the cache that all units share
  Lane unit_, vector_;
  double vector_busy_ = 0;
  double latency_ = 0, interval_ = 0, end_ = 0;
  absl::flat_hash_map<uint64_t, double> parts_;  // the time from which a part of the result can be accumulated again
};

}  // namespace

double stepsOf(const Program& program) {
  double steps = 0;
  for (const Step& step : program.steps) {
    double times = 1;
    for (int l = 0; l < step.depth; ++l) times *= static_cast<double>(program.loops[l].trips);
    const Buffer* to = step.to < 0 ? nullptr : &program.buffers[step.to];
    if (to && to->piece > 0) {
      double blocks = 1;
      for (int64_t count : to->tile) blocks *= static_cast<double>(count);
      times *= std::ceil(blocks / static_cast<double>(to->piece));
    }
    steps += times;
  }
  return steps;
}

absl::StatusOr<Timeline> timelineOf(const Program& program, bool once, const WarmTensors& warm) {
  if (const double steps = stepsOf(program); steps > kMaxSteps) {
    return absl::ResourceExhaustedError(absl::StrCat("the program has ", steps, " copies and groups of calls; at most ",
                                                     kMaxSteps, " are timed: give smaller extents"));
  }
  Timeline timeline;
  for (const auto* list : {&program.memories, &program.caches}) {
    for (const Memory& memory : *list) timeline.traffic.push_back({memory.name});
  }
  std::vector<Elements> elements;
  for (size_t operand = 0; operand < program.walks.size(); ++operand) elements.emplace_back(program, operand);
  std::optional<EpilogueElements> other;
  if (program.epilogue) other.emplace(program);
  for (int64_t unit = 0; unit < program.units; ++unit) {
    const Share share = shareOf(program, unit);
    if (share.first == share.end) break;
    UnitTime time(program, elements, other ? &*other : nullptr, once, warm, timeline);
    TESSERA_RETURN_IF_ERROR(walk(program, unit, time));
    // The slowest unit determines the time.
    if (time.end() <= timeline.cycles) continue;
    timeline.cycles = time.end();
    const auto [name, busy] = time.busiest();
    timeline.busiest = name;
    timeline.busy = busy / timeline.cycles;
    timeline.unit_cycles = time.unitCycles();
    timeline.vector_cycles = time.vectorCycles();
  }
  double points = 1, call = 1;
  for (const loopnest::Loop& loop : program.choice.software.loops) points *= static_cast<double>(loop.extent);
  for (const loopnest::Loop& loop : program.instruction.loops) call *= static_cast<double>(loop.extent);
  const v1::Intrinsic& intrinsic = program.choice.intrinsic;
  const double interval = intrinsic.cycles_per_issue() > 0 ? intrinsic.cycles_per_issue() : intrinsic.latency_cycles();
  if (timeline.cycles > 0 && interval > 0) {
    timeline.utilization = points * interval / (call * timeline.cycles * static_cast<double>(program.units));
  }
  for (size_t m = 0; m < timeline.traffic.size(); ++m) {
    const Memory& memory =
        m < program.memories.size() ? program.memories[m] : program.caches[m - program.memories.size()];
    Traffic& traffic = timeline.traffic[m];
    traffic.picojoules = memory.picojoules * static_cast<double>(traffic.read_bytes) +
                         memory.write_picojoules * static_cast<double>(traffic.written_bytes);
    timeline.picojoules += traffic.picojoules;
  }
  timeline.picojoules += static_cast<double>(timeline.calls) * intrinsic.energy_pj();
  return timeline;
}

}  // namespace tessera::compiler::simulator
