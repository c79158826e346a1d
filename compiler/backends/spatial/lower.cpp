#include "compiler/backends/spatial/lower.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/placement.h"
#include "compiler/intrinsic/block_layout.h"
#include "compiler/intrinsic/boxes.h"
#include "compiler/target/hierarchy.h"
#include "compiler/target/validate_intrinsic.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::simulator {
namespace {

using intrinsic::Choice;
using loopnest::Nest;
using loopnest::saturatedProduct;
using Arithmetic = v1::Intrinsic::Arithmetic;

constexpr int64_t kMaxBlockElements = 1 << 20;  // for one operand of an instruction

class Lowering {
 public:
  Lowering(Choice choice, const v1::Target& target, const LoweringOptions& manner, const LoweringTensors& tensors)
      : target_(target),
        manner_(manner),
        tensors_(tensors),
        intrinsic_(choice.intrinsic),
        stages_(intrinsic::costLevelsOf(choice.intrinsic, target)) {
    program_.choice = std::move(choice);
  }

  absl::StatusOr<Program> run() {
    TESSERA_ASSIGN_OR_RETURN(program_.instruction, intrinsic::nestOf(intrinsic_));
    TESSERA_RETURN_IF_ERROR(checkOperator());
    describe();
    program_.views = tensors_.views;
    program_.epilogue = tensors_.epilogue;
    // Loops of extent 1 that the mapping added have subscripts of their own, which move nothing.
    for (size_t a = 0; a < program_.views.size(); ++a)
      program_.views[a].strides.resize(software().accesses[a].subscripts.size(), 0);
    // Repeats with smaller tiles until all buffers fit; then, if second copies were required, without them.
    while (true) {
      loops_.clear();
      program_.buffers.clear();
      program_.operands.clear();
      program_.steps.clear();
      walkLoops();
      addTensors();
      for (size_t operand = 1; operand < program_.walks.size(); ++operand) addSource(operand);
      TESSERA_RETURN_IF_ERROR(addDestination());
      std::vector<bool> again;
      for (size_t b = 0; b < program_.buffers.size(); ++b) again.push_back(filledAgain(static_cast<int>(b)));
      const Overflow overflow = placeBuffers(program_, again, manner_.overlap);
      if (overflow.message.empty()) break;
      if (manner_.exact) return absl::FailedPreconditionError(overflow.message);
      if (shrink(overflow.buffer)) continue;
      if (!manner_.overlap) return absl::FailedPreconditionError(overflow.message);
      manner_.overlap = false;
    }
    keepLoops();
    TESSERA_RETURN_IF_ERROR(price());
    return std::move(program_);
  }

 private:
  /// A loop of the tiling, including loops of one trip.
  struct Loop : ProgramLoop {
    bool sum = false;
  };

  const Nest& software() const { return program_.choice.software; }
  const intrinsic::PhysicalMapping& mapping() const { return program_.choice.mapping; }
  intrinsic::Tiling& tiling() { return program_.choice.tiling; }

  absl::Status checkOperator() const {
    for (const loopnest::Subscript& subscript : software().accesses[0].subscripts) {
      int walking = 0;
      for (const auto& term : subscript.terms) walking += software().loops[term.loop].extent > 1;
      // Such results would be summed from several parallel points, which no program here does.
      if (walking < 2) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          software().accesses[0].name, " has a subscript that adds loops: results of several points would be one"));
    }
    for (const loopnest::Access& access : program_.instruction.accesses) {
      int64_t elements = 1, points = 1;
      for (int64_t extent : shapeOf(program_.instruction, access)) elements = saturatedProduct(elements, extent);
      for (size_t i = 0; i < program_.instruction.loops.size(); ++i) {
        if (access.uses(static_cast<int>(i))) points = saturatedProduct(points, program_.instruction.loops[i].extent);
      }
      if (std::max(elements, points) <= kMaxBlockElements) continue;
      return absl::FailedPreconditionError(absl::StrCat("operand ", access.name, " of ", intrinsic_.name(), " has ",
                                                        elements, " elements at ", points, " points; at most ",
                                                        kMaxBlockElements, " are simulated"));
    }
    const Arithmetic::Form form = intrinsic::formOf(program_.instruction);
    if (form != Arithmetic::MAXIMUM && form != Arithmetic::MINIMUM) return absl::OkStatus();
    for (size_t i = 0; i < mapping().groups.size(); ++i) {
      if (!program_.instruction.isReduction(static_cast<int>(i)) || mapping().groups[i].padding() == 0) continue;
      for (const auto& transfer : intrinsic_.transfers()) {
        if (!transfer.pads()) continue;
        return absl::FailedPreconditionError(absl::StrCat(
            intrinsic_.name(), " takes extremes over ", mapping().groups[i].extent, " elements in steps of ",
            mapping().groups[i].size, ", and loads of ", transfer.operand(), " pad with zeros, which may win"));
      }
    }
    return absl::OkStatus();
  }

  /// Sets the fields that do not depend on the tiling.
  void describe() {
    program_.chip = target_.name();
    for (const intrinsic::Stage& stage : stages_) program_.levels.push_back(stage.name);
    program_.unit = "unit";
    const Hierarchy chip(target_);
    const int unit = chip.unitOf(intrinsic_);
    if (unit >= 0) {
      const Hierarchy::Unit& runs = chip.units()[static_cast<size_t>(unit)];
      program_.units = runs.instances;
      program_.unit = runs.name;
      program_.frequency_ghz = runs.frequency_ghz;
    }
    for (size_t i = 0; i < mapping().groups.size(); ++i) {
      const loopnest::Loop& loop = program_.instruction.loops[i];
      program_.dimensions.push_back({absl::StrCat(loop.name, "/", mapping().groups[i].size), mapping().groups[i].steps,
                                     program_.instruction.isReduction(static_cast<int>(i))});
    }
    for (int loop : mapping().outer) {
      program_.dimensions.push_back(
          {software().loops[loop].name, software().loops[loop].extent, software().isReduction(loop)});
    }
    for (const intrinsic::Placement& placement : mapping().operands) {
      std::vector<int>& walks = program_.walks.emplace_back();
      for (int loop : placement.outer) {
        const auto found = std::find(mapping().outer.begin(), mapping().outer.end(), loop);
        walks.push_back(static_cast<int>(mapping().groups.size() + (found - mapping().outer.begin())));
      }
      walks.insert(walks.end(), placement.order.begin(), placement.order.end());
    }
    for (size_t operand = 0; operand < program_.walks.size(); ++operand) {
      routes_.push_back(intrinsic::routeOf(intrinsic_, operand));
    }
    const std::string outermost = target_.memory(target_.memory_size() - 1).name();
    std::set<std::string> named;
    for (const intrinsic::Route& route : routes_) {
      for (const auto* stops : {&route.in, &route.out}) {
        for (const intrinsic::Stop& stop : *stops) named.insert(stop.memory == kAnyMemory ? outermost : stop.memory);
      }
    }
    if (tensors_.epilogue) named.insert(tensors_.epilogue->level);
    if (named.contains(kRegisters)) {
      Memory registers{kRegisters, int64_t{target_.registers().vector_bits()} / 8 * target_.registers().vector_count()};
      if (registers.capacity <= 0) registers.capacity = -1;
      program_.memories.push_back(std::move(registers));
    }
    for (int l = 0; l < target_.memory_size(); ++l) {
      const v1::MemoryLevel& level = target_.memory(l);
      const Hierarchy::Share share = chip.shareOf(l, unit);
      const bool last = level.name() == outermost;
      // A peer of a level that the instruction does not use.
      if (!last && !named.contains(level.name()) && level.peer_of_inner()) continue;
      // levels inside of a named level cache nothing
      if (!last && named.contains(level.name())) program_.caches.clear();
      Memory memory;
      memory.name = level.name();
      if (level.capacity_bytes() > 0) memory.capacity = last ? level.capacity_bytes() : share.capacity_bytes;
      memory.alignment = std::max(1, level.alignment_bytes());
      memory.read = share.read_bytes_per_cycle;
      memory.write = share.write_bytes_per_cycle;
      memory.picojoules = chip.levels()[static_cast<size_t>(l)].read_pj_per_byte;
      memory.write_picojoules = chip.levels()[static_cast<size_t>(l)].write_pj_per_byte;
      (last || named.contains(level.name()) ? program_.memories : program_.caches).push_back(std::move(memory));
    }
  }

  int memoryNamed(const std::string& name) const {
    for (size_t i = 0; i < program_.memories.size(); ++i) {
      if (program_.memories[i].name == name) return static_cast<int>(i);
    }
    return static_cast<int>(program_.memories.size()) - 1;  // kAnyMemory
  }

  /// Lists all loops of the tiling in order.
  void walkLoops() {
    const auto add = [&](bool sum, int level) {
      for (size_t d = 0; d < program_.dimensions.size(); ++d) {
        if (program_.dimensions[d].sum != sum) continue;
        Loop loop;
        loop.dimension = static_cast<int>(d);
        loop.step = tiling()[level - 1][d];
        // The last trip may be shorter.
        loop.trips = (tiling()[level][d] - 1) / loop.step + 1;
        loop.level = level;
        loop.sum = sum;
        loops_.push_back(loop);
      }
    };
    const int last = static_cast<int>(tiling().size()) - 1;
    for (int level = last; level > 0; --level) {
      add(false, level);
      if (!manner_.reductions_innermost) add(true, level);
    }
    for (int level = last; level > 0 && manner_.reductions_innermost; --level) add(true, level);
  }

  bool walks(size_t operand, int dimension) const {
    const std::vector<int>& mine = program_.walks[operand];
    return std::find(mine.begin(), mine.end(), dimension) != mine.end();
  }

  /// Number of loops outside of the point at which the operand's tile within `depth` loops is loaded: hoisted out of
  /// loops that do not move it.
  int hoisted(size_t operand, int depth) const {
    while (depth > 0 && (loops_[depth - 1].trips == 1 || !walks(operand, loops_[depth - 1].dimension))) --depth;
    return depth;
  }

  /// Blocks of the operand that the loops from `depth` inwards walk.
  std::vector<int64_t> tileAt(size_t operand, int depth) const {
    std::vector<int64_t> tile(program_.dimensions.size(), 1);
    for (int d : program_.walks[operand]) tile[d] = program_.dimensions[d].blocks;
    for (int l = 0; l < depth; ++l) {
      if (walks(operand, loops_[l].dimension)) tile[loops_[l].dimension] = loops_[l].step;
    }
    return tile;
  }

  void addTensors() {
    int64_t base = 0;
    for (size_t array = 0; array < software().accesses.size(); ++array) {
      Buffer buffer;
      buffer.name = software().accesses[array].name;
      buffer.memory = outermost();
      for (size_t operand = 0; operand < program_.walks.size(); ++operand) {
        if (arrayOf(program_.choice.matching, operand) != static_cast<int>(array)) continue;
        buffer.operand = static_cast<int>(operand);
        buffer.dtype = program_.instruction.accesses[operand].dtype;
      }
      buffer.tensor = true;
      if (array == 0 && tensors_.stored != v1::DATA_TYPE_UNSPECIFIED) buffer.dtype = tensors_.stored;
      buffer.bytes = elementBytes(buffer.dtype);
      if (program_.views.empty()) {
        for (int64_t extent : shapeOf(software(), software().accesses[array])) {
          buffer.bytes = saturatedProduct(buffer.bytes, extent);
        }
      } else {
        buffer.bytes = saturatedProduct(buffer.bytes, program_.views[array].elements);
      }
      // The epilogue takes the results before they leave.
      if (array == 0 && program_.epilogue) buffer.bytes = 0;
      place(std::move(buffer), base);
    }
    if (!program_.epilogue) return;
    Epilogue& epilogue = *program_.epilogue;
    epilogue.tensors.assign(epilogue.elements.size(), -1);
    for (size_t a = 0; a < epilogue.elements.size(); ++a) {
      if (a != 0 && static_cast<int>(a) == epilogue.carried) continue;
      const v1::DataType dtype = epilogue.nest.accesses[a].dtype;
      epilogue.tensors[a] = static_cast<int>(program_.buffers.size());
      Buffer buffer;
      buffer.name = epilogueName(a);
      buffer.memory = outermost();
      buffer.dtype = dtype;
      buffer.bytes = saturatedProduct(elementBytes(dtype), epilogue.elements[a]);
      buffer.tensor = true;
      place(std::move(buffer), base);
    }
  }

  static std::string epilogueName(size_t access) {
    return access == 0 ? std::string("stored") : absl::StrCat("other", access);
  }

  int outermost() const { return static_cast<int>(program_.memories.size()) - 1; }

  /// Adds a tensor at the address `base`, and moves the address past it.
  void place(Buffer tensor, int64_t& base) {
    const int64_t alignment =
        std::lcm(kTensorAlignment, program_.memories[static_cast<size_t>(tensor.memory)].alignment);
    tensor.base = base;
    base = alignedUp(base > INT64_MAX - tensor.bytes ? INT64_MAX / 2 : base + tensor.bytes, alignment);
    program_.buffers.push_back(std::move(tensor));
  }

  /// Layout of a block of an operand in a memory.
  struct Block {
    std::vector<int64_t> offsets;  // bytes
    int64_t bytes = 0;
  };
  const Block& blockOf(size_t operand, const intrinsic::Stop& stop) {
    const auto [found, fresh] = blocks_.try_emplace({operand, stop.layout});
    if (!fresh) return found->second;
    const loopnest::Access& access = program_.instruction.accesses[operand];
    const std::vector<int64_t> shape = shapeOf(program_.instruction, access);
    const intrinsic::BlockLayout layout(shape, stop.layout);
    const int64_t element = elementBytes(access.dtype);
    intrinsic::forEachPoint(shape, [&](const std::vector<int64_t>& index) {
      found->second.offsets.push_back(saturatedProduct(layout.at(index), element));
    });
    found->second.bytes = saturatedProduct(layout.elements(), element);
    return found->second;
  }

  int addBuffer(size_t operand, const intrinsic::Stop& stop, int depth) {
    const loopnest::Access& access = program_.instruction.accesses[operand];
    Buffer buffer;
    buffer.name = access.name;
    buffer.memory = memoryNamed(stop.memory);
    buffer.operand = static_cast<int>(operand);
    buffer.dtype = access.dtype;
    buffer.tile = tileAt(operand, depth);
    const Block& block = blockOf(operand, stop);
    buffer.offsets = block.offsets;
    int64_t alignment = program_.memories[buffer.memory].alignment;
    // Both alignments: that of the memory and that of the statement.
    if (stop.layout && stop.layout->alignment_bytes() > 0) {
      alignment = std::lcm<int64_t>(alignment, stop.layout->alignment_bytes());
    }
    buffer.block_bytes = alignedUp(block.bytes, alignment);
    buffer.bytes = buffer.block_bytes;
    for (int64_t blocks : buffer.tile) buffer.bytes = saturatedProduct(buffer.bytes, blocks);
    depths_.resize(program_.buffers.size() + 1);
    depths_.back() = depth;
    program_.buffers.push_back(std::move(buffer));
    return static_cast<int>(program_.buffers.size()) - 1;
  }

  void addSource(size_t operand) {
    int from = arrayOf(program_.choice.matching, operand);
    program_.operands.resize(program_.walks.size());
    for (const intrinsic::Stop& stop : routes_[operand].in) {
      const int depth = hoisted(operand, depthOf(stop.memory));
      const int to = addBuffer(operand, stop, depth);
      program_.steps.push_back({Step::kCopy, static_cast<int>(operand), from, to, depth, false});
      from = to;
    }
    program_.operands[operand] = from;
  }

  /// Number of loops outside of a source's tile in a memory: those of outer levels. A bypassed memory that is not a
  /// level of the tiling holds the same tile as the instruction's own memory.
  int depthOf(const std::string& memory) const {
    int level = 0;
    for (size_t s = 1; s < stages_.size(); ++s) {
      if (stages_[s].name == memory) level = static_cast<int>(s);
    }
    int depth = 0;
    for (size_t l = 0; l < loops_.size(); ++l) {
      if (loops_[l].level > level) depth = static_cast<int>(l) + 1;
    }
    return level == 0 ? static_cast<int>(loops_.size()) : depth;
  }

  /// A result stays where it is accumulated until its sum is complete: outside of all reduction loops.
  absl::Status addDestination() {
    int depth = 0;
    // The number of loops before the first reduction with several trips.
    while (depth < static_cast<int>(loops_.size()) && (!loops_[depth].sum || loops_[depth].trips == 1)) ++depth;
    depth = hoisted(0, depth);
    const int home = addBuffer(0, routes_[0].in.back(), depth);
    program_.operands.resize(program_.walks.size());
    program_.operands[0] = home;
    program_.steps.push_back({Step::kFill, 0, -1, home, depth, false});
    program_.steps.push_back({Step::kCall, 0, -1, -1, static_cast<int>(loops_.size()), false});
    int from = home;
    for (const intrinsic::Stop& stop : routes_[0].out) from = passThrough(from, stop, depth);
    if (!program_.epilogue) {
      program_.steps.push_back({Step::kCopy, 0, from, 0, depth, true});
      return absl::OkStatus();
    }
    const std::string& level = program_.epilogue->level;
    if (const std::string& last = program_.memories[program_.buffers[from].memory].name; last != level) {
      if (!leavesToAnyMemory(last))
        return absl::FailedPreconditionError(absl::StrCat("results in ", last, " cannot be copied to ", level));
      from = passThrough(from, {level}, depth);
    }
    addEpilogue(from, depth);
    return absl::OkStatus();
  }

  bool leavesToAnyMemory(const std::string& memory) const {
    return std::ranges::any_of(intrinsic_.transfers(), [&](const v1::Intrinsic::Transfer& transfer) {
      return transfer.operand() == program_.instruction.accesses[0].name && transfer.from() == memory &&
             transfer.to() == kAnyMemory;
    });
  }

  /// Adds a buffer that results pass in pieces, and the copy to it.
  int passThrough(int from, const intrinsic::Stop& stop, int depth) {
    const int to = addBuffer(0, stop, depth);
    program_.buffers[to].piece = 1;  // the minimum; enlarged later if there is room
    program_.steps.push_back({Step::kCopy, 0, from, to, depth, true});
    return to;
  }

  /// The epilogue on pieces of the results in buffer `from`: loads of its other operands, its run, the store.
  void addEpilogue(int from, int depth) {
    Epilogue& epilogue = *program_.epilogue;
    const auto points = static_cast<int64_t>(program_.buffers[program_.operands[0]].offsets.size());
    epilogue.tiles.assign(epilogue.tensors.size(), -1);
    for (size_t a = 0; a < epilogue.tensors.size(); ++a) {
      if (epilogue.tensors[a] < 0) continue;
      const int tile = passBlocks(epilogueName(a), epilogue.nest.accesses[a].dtype, points, depth);
      epilogue.tiles[a] = tile;
      if (a > 0)
        program_.steps.push_back({Step::kCopy, 0, epilogue.tensors[a], tile, depth, true, static_cast<int>(a)});
    }
    program_.steps.push_back({Step::kVector, 0, from, epilogue.tiles[0], depth, true, 0});
    program_.steps.push_back({Step::kCopy, 0, epilogue.tiles[0], epilogue.tensors[0], depth, true, 0});
  }

  /// A buffer of the epilogue's memory for pieces of row-major blocks, one for each block of results.
  int passBlocks(const std::string& name, v1::DataType dtype, int64_t points, int depth) {
    Buffer buffer;
    buffer.name = name;
    buffer.memory = memoryNamed(program_.epilogue->level);
    buffer.dtype = dtype;
    buffer.tile = tileAt(0, depth);
    buffer.piece = 1;
    for (int64_t i = 0; i < points; ++i) buffer.offsets.push_back(i * elementBytes(dtype));
    buffer.block_bytes = alignedUp(points * elementBytes(dtype), program_.memories[buffer.memory].alignment);
    buffer.bytes = buffer.block_bytes;
    depths_.resize(program_.buffers.size() + 1);
    depths_.back() = depth;
    program_.buffers.push_back(std::move(buffer));
    return static_cast<int>(program_.buffers.size()) - 1;
  }

  bool filledAgain(int buffer) const {
    for (int l = 0; l < depths_[buffer]; ++l) {
      if (loops_[l].trips > 1) return true;
    }
    return false;
  }

  /// Halves the longest side of the buffer's tile that a tiling can change; false if that is one block, or the full
  /// length of its loop outside of all levels.
  bool shrink(int b) {
    if (b < 0) return false;
    const Buffer& buffer = program_.buffers[b];
    int longest = -1, row = 0;
    const auto halfOf = [&](size_t d) { return (buffer.tile[d] + 1) / 2; };
    for (size_t d = 0; d < buffer.tile.size(); ++d) {
      if (buffer.tile[d] < 2 || (longest >= 0 && buffer.tile[d] <= buffer.tile[longest])) continue;
      int level = static_cast<int>(tiling().size()) - 1;  // if none of its loops is outside yet
      for (int l = 0; l < depths_[b]; ++l) {
        if (loops_[l].dimension == static_cast<int>(d)) level = loops_[l].level - 1;
      }
      // The outermost level is the whole operator and cannot shrink.
      level = std::min(level, static_cast<int>(tiling().size()) - 2);
      if (tiling()[level][d] <= halfOf(d)) continue;  // already halved: data in the outermost memory stays whole
      longest = static_cast<int>(d);
      row = level;
    }
    if (longest < 0) return false;
    const int64_t half = halfOf(longest);
    for (int level = 0; level <= row; ++level) tiling()[level][longest] = std::min(tiling()[level][longest], half);
    return true;
  }

  /// Removes loops of one trip and updates depths. The units share the outermost level's loops up to the first
  /// reduction.
  void keepLoops() {
    std::vector<int> depth_of(loops_.size() + 1, 0);
    const int last = static_cast<int>(tiling().size()) - 1;
    bool sharing = true;
    for (size_t l = 0; l < loops_.size(); ++l) {
      depth_of[l] = static_cast<int>(program_.loops.size());
      if (loops_[l].trips == 1) continue;
      // A reduction, or a loop of an inner level, ends the loops that units share.
      sharing = sharing && !loops_[l].sum && loops_[l].level == last;
      program_.shared += sharing;
      program_.loops.push_back(loops_[l]);
    }
    depth_of.back() = static_cast<int>(program_.loops.size());
    for (Step& step : program_.steps) step.depth = depth_of[step.depth];
  }

  /// Predicts the cost of the current tiling.
  absl::Status price() {
    Choice& choice = program_.choice;
    TESSERA_ASSIGN_OR_RETURN(
        choice.price,
        intrinsic::MappingCostModel(choice.software, choice.intrinsic, choice.mapping, target_).of(choice.tiling));
    return absl::OkStatus();
  }

  const v1::Target& target_;
  LoweringOptions manner_;
  const LoweringTensors& tensors_;
  const v1::Intrinsic intrinsic_;
  const std::vector<intrinsic::Stage> stages_;
  std::vector<intrinsic::Route> routes_;
  std::map<std::pair<size_t, const v1::Intrinsic::Transfer*>, Block> blocks_;
  std::vector<Loop> loops_;
  std::vector<int> depths_;  // per buffer
  Program program_;
};

}  // namespace

absl::StatusOr<Program> lower(intrinsic::Choice choice, const v1::Target& target, const LoweringOptions& manner,
                              const LoweringTensors& tensors) {
  return Lowering(std::move(choice), target, manner, tensors).run();
}

}  // namespace tessera::compiler::simulator
