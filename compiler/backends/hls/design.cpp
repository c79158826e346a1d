#include "compiler/backends/hls/design.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/backends/spatial/scalar_operations.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {
namespace {

using simulator::SpatialNest;

constexpr int64_t kRegisterReadCycles = 1, kMemoryReadCycles = 2, kMemoryWriteCycles = 1;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<int64_t> extentsOf(const Form& form) { return form.nest->extents(); }

/// Smallest value and number of values of a dimension in a tile of these extents, whose loops start at 0.
std::pair<int64_t, int64_t> rangeOf(const Form& form, size_t access, const Dimension& dimension,
                                    const std::vector<int64_t>& extents) {
  if (dimension.digits < 0) return {dimension.low(extents), dimension.extent(extents)};
  const auto& subscript = form.nest->accesses[access].subscripts[static_cast<size_t>(dimension.digits)];
  const loopnest::Range range = loopnest::rangeOf(subscript, extentsOf(form));
  return {range.low, range.high - range.low + 1};
}

/// The factor of a cyclic partition with which all unrolled iterations find their elements in different memories,
/// whatever element the first one accesses.
int64_t partitionOf(const Dimension& dimension, const std::vector<int64_t>& unroll, int64_t least, int64_t extent) {
  std::set<int64_t> offsets = {0};
  for (size_t loop = 0; loop < unroll.size() && dimension.digits < 0; ++loop) {
    if (dimension.coefficients[loop] == 0) continue;
    std::set<int64_t> more;
    for (int64_t step = 0; step < unroll[loop]; ++step)
      for (int64_t each : offsets) more.insert(each + step * dimension.coefficients[loop]);
    offsets = std::move(more);
  }
  const int64_t window = *offsets.rbegin() - *offsets.begin() + 1;
  int64_t factor = std::max(least, static_cast<int64_t>(offsets.size()));
  for (; factor < window; ++factor) {
    std::set<int64_t> memories;
    for (int64_t each : offsets) memories.insert(((each % factor) + factor) % factor);
    if (memories.size() == offsets.size()) break;
  }
  return std::min(factor, extent);
}

/// Elements per beat: the widest power of two that every run's first address is a multiple of.
int64_t beatOf(const Form& form, const Buffer& buffer, const std::vector<int64_t>& tile, int64_t port_elements) {
  if (buffer.box.dimensions.empty() || buffer.box.dimensions.back().stride != 1) return 1;
  int64_t aligned = buffer.box.offset;
  const auto add = [&](int64_t number) { aligned = std::gcd(aligned, number); };
  for (const Dimension& dimension : buffer.box.dimensions) {
    add(dimension.stride * rangeOf(form, buffer.access, dimension, tile).first);
    if (&dimension != &buffer.box.dimensions.back()) add(dimension.stride);
    // Edge tiles of loops that run backwards begin elsewhere.
    for (size_t loop = 0; loop < form.loops() && dimension.digits < 0; ++loop)
      if (const int64_t coefficient = dimension.coefficients[loop]; coefficient != 0 && tile[loop] < form.extent(loop))
        add(dimension.stride * coefficient * (coefficient < 0 ? 1 : tile[loop]));
  }
  int64_t beat = port_elements;
  while (beat > 1 && aligned % beat != 0) beat /= 2;
  const int64_t run = buffer.shape.back();
  while (beat > 1 && beat >= 2 * run) beat /= 2;
  return beat;
}

Buffer bufferOf(const Form& form, size_t access, bool written, const Tiling& tiling, const Device& device) {
  Buffer buffer{.access = access, .written = written, .box = boxOf(form, access, tiling.tile)};
  const v1::DataType type = form.nest->accesses[access].dtype;
  const int64_t bits = type == v1::DATA_TYPE_BOOL ? 8 : simulator::widthOf(type);
  buffer.element_bits = bits;
  for (const Dimension& dimension : buffer.box.dimensions)
    buffer.shape.push_back(rangeOf(form, access, dimension, tiling.tile).second);
  if (buffer.shape.empty()) {
    buffer.box.dimensions.push_back({.coefficients = std::vector<int64_t>(form.loops())});
    buffer.shape.push_back(1);
  }
  buffer.beat = beatOf(form, buffer, tiling.tile, std::max<int64_t>(1, 8 * device.portBytes() / bits));
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    // Both ports of a memory take elements of a beat.
    const int64_t least = d + 1 == buffer.shape.size() ? std::max<int64_t>(1, buffer.beat / 2) : 1;
    buffer.partition.push_back(partitionOf(buffer.box.dimensions[d], tiling.unroll, least, buffer.shape[d]));
  }
  return buffer;
}

/// Distributes the buffers over the banks of the external memory, and sets the rates that follow.
void assignBanks(std::vector<Buffer>& buffers, const Device& device) {
  const auto banks = static_cast<size_t>(device.banks());
  for (size_t b = 0; b < buffers.size(); ++b) buffers[b].bank = static_cast<int>(b % banks);
  for (Buffer& buffer : buffers) {
    const auto sharers = std::ranges::count(buffers, buffer.bank, &Buffer::bank);
    const double rate = device.bankBytesPerCycle() / static_cast<double>(sharers);
    buffer.beat_cycles = std::max(1.0, static_cast<double>(buffer.beat * buffer.element_bits) / 8 / rate);
  }
}

/// Chooses the kind of memory of every buffer: small memories in LUTs, others in block RAMs as long as there are any.
Resources assignStorage(const std::vector<Buffer*>& buffers, const Resources& limits) {
  constexpr int64_t kLutRamBits = 2048;
  for (Buffer* each : buffers) {
    if (each->depth() == 1)
      each->storage = Storage::kRegisters;
    else if (each->depth() * each->element_bits <= kLutRamBits)
      each->storage = Storage::kLutRam;
    else
      each->storage = Storage::kBram;
  }
  const auto sum = [&] {
    Resources all;
    for (const Buffer* each : buffers) all += each->resources(each->storage);
    return all;
  };
  // The largest buffers go to the larger memories.
  while (sum().bram > limits.bram) {
    Buffer* largest = nullptr;
    for (Buffer* each : buffers) {
      if (each->storage != Storage::kBram) continue;
      if (sum().uram + each->resources(Storage::kUram).uram > limits.uram) continue;
      const auto blocks = [](const Buffer* buffer) { return buffer->resources(Storage::kBram).bram; };
      if (largest == nullptr || blocks(each) > blocks(largest)) largest = each;
    }
    if (largest == nullptr) break;
    largest->storage = Storage::kUram;
  }
  return sum();
}

/// Multiplexers between processing elements and the memories of a buffer: none where an element of the pipeline always
/// uses the same memory.
int64_t multiplexerLuts(const Buffer& buffer, const Tiling& tiling) {
  int64_t lanes = 1, inputs = 1;
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    if (buffer.partition[d] == 1 || buffer.box.dimensions[d].digits >= 0) continue;
    bool fixed = true;
    for (size_t loop = 0; loop < tiling.unroll.size(); ++loop) {
      const int64_t coefficient = std::abs(buffer.box.dimensions[d].coefficients[loop]);
      if (coefficient == 0) continue;
      lanes *= tiling.unroll[loop];
      if (tiling.tile[loop] > tiling.unroll[loop] && coefficient * tiling.unroll[loop] % buffer.partition[d] != 0)
        fixed = false;
    }
    if (!fixed) inputs *= buffer.partition[d];
  }
  return inputs == 1 ? 0 : lanes * buffer.element_bits * ceilDiv(inputs, 4);
}

/// Latency of the longest path to each value of the body.
absl::StatusOr<std::vector<int64_t>> arrivals(const Form& form, const Device& device, Resources& element) {
  const SpatialNest& nest = *form.nest;
  std::vector<int64_t> at(nest.accesses.size(), 0);
  for (size_t o = 0; o < nest.body.size(); ++o) {
    TESSERA_ASSIGN_OR_RETURN(const OperatorCost cost, device.costOf(nest, static_cast<int>(o)));
    element += cost.resources;
    int64_t start = 0;
    for (int operand : nest.body[o].operands) start = std::max(start, at[static_cast<size_t>(operand)]);
    at.push_back(start + cost.latency);
  }
  return at;
}

/// The latency of the loop through an output's old content, and of the trees that add unrolled iterations.
struct Recurrence {
  int64_t latency = 0, tree = 0;
};
absl::StatusOr<Recurrence> recurrenceOf(const Form& form, const Tiling& tiling, const std::vector<int64_t>& at,
                                        const Device& device) {
  Recurrence result;
  int64_t unrolled = 1;
  for (size_t loop = 0; loop < form.loops(); ++loop)
    if (form.reduction[loop]) unrolled *= tiling.unroll[loop];
  for (size_t output = 0; output < form.outputs.size(); ++output) {
    const Combination& each = form.outputs[output];
    if (!each.reads_old) continue;
    int64_t latency = at[static_cast<size_t>(form.nest->yields[output])];
    if (each.operation >= 0) {
      TESSERA_ASSIGN_OR_RETURN(const OperatorCost cost, device.costOf(*form.nest, each.operation));
      latency = cost.latency;
      result.tree = std::max(result.tree, cost.latency * static_cast<int64_t>(std::ceil(std::log2(unrolled))));
    }
    result.latency = std::max(result.latency, latency);
  }
  return result;
}

absl::Status checkTiling(const Form& form, const Tiling& tiling) {
  if (tiling.tile.size() != form.loops() || tiling.unroll.size() != form.loops())
    return absl::InvalidArgumentError(
        absl::StrCat("nest ", form.nest->name, " has ", form.loops(), " loops, its tiling ", tiling.tile.size()));
  for (size_t loop = 0; loop < form.loops(); ++loop) {
    const std::string here = absl::StrCat("nest ", form.nest->name, ", loop ", form.nest->loops[loop].name, ": ");
    const int64_t tile = tiling.tile[loop], unroll = tiling.unroll[loop], extent = form.extent(loop);
    if (tile < 1 || tile > extent)
      return absl::InvalidArgumentError(absl::StrCat(here, "a tile of ", tile, " of ", extent));
    if (unroll < 1 || unroll > tile)
      return absl::InvalidArgumentError(absl::StrCat(here, "unrolled by ", unroll, " in a tile of ", tile));
    if (form.whole[loop] && (tile != extent || unroll != 1))
      return absl::InvalidArgumentError(absl::StrCat(here, "is not tiled or unrolled, because a quotient uses it"));
    if (form.reduction[loop] && unroll > 1 && !form.combines())
      return absl::InvalidArgumentError(absl::StrCat(here, "its iterations run one by one, because they are no sum"));
    if (!form.direct.empty() && (tile != extent || unroll != 1))
      return absl::InvalidArgumentError(absl::StrCat(here, "is not tiled or unrolled: the nest ", form.direct));
  }
  return absl::OkStatus();
}

/// Points of a tile per processing element, by the loops that `counted` selects.
template <typename Counted>
int64_t pipelinedPoints(const Design& design, const std::vector<int64_t>& extents, Counted counted) {
  int64_t points = 1;
  for (size_t loop = 0; loop < extents.size(); ++loop)
    if (counted(loop)) points *= ceilDiv(extents[loop], design.tiling.unroll[loop]);
  return points;
}

/// Cycles to move the tile of a buffer: beats of all runs, the addresses of the runs, and the latency once.
double transferCycles(const Design& design, const Buffer& buffer, const Step& step, const Device& device) {
  double runs = 1;
  int64_t length = 1;
  for (size_t d = 0; d < buffer.shape.size(); ++d) {
    const int64_t extent = rangeOf(*design.form, buffer.access, buffer.box.dimensions[d], step.extents).second;
    if (d + 1 == buffer.shape.size())
      length = extent;
    else
      runs *= static_cast<double>(extent);
  }
  if (buffer.box.dimensions.back().stride != 1) {
    runs *= static_cast<double>(length);
    length = 1;
  }
  return runs * static_cast<double>(ceilDiv(length, buffer.beat)) * buffer.beat_cycles +
         (runs - 1) * device.burstCycles() + device.memoryLatency() + device.processCycles();
}

double tileBytes(const Design& design, const Buffer& buffer, const Step& step) {
  double bytes = static_cast<double>(buffer.element_bits) / 8;
  for (const Dimension& each : buffer.box.dimensions)
    bytes *= static_cast<double>(rangeOf(*design.form, buffer.access, each, step.extents).second);
  return bytes;
}

struct Durations {
  double read = 0, compute = 0, write = 0;
};

Durations durationsOf(const StepCycles& cycles) {
  const auto longest = [](const std::vector<double>& each) {
    return each.empty() ? 0.0 : *std::ranges::max_element(each);
  };
  return {.read = longest(cycles.reads), .compute = cycles.compute, .write = longest(cycles.writes)};
}

int64_t tilesOf(const Design& design, size_t loop) {
  return ceilDiv(design.form->extent(loop), design.tiling.tile[loop]);
}

/// Iterations of a loop's last tile, or of the others.
int64_t tileExtent(const Design& design, size_t loop, bool last) {
  const int64_t tile = design.tiling.tile[loop];
  return last ? design.form->extent(loop) - (tilesOf(design, loop) - 1) * tile : tile;
}

/// The loops of steps, outermost first: reductions are inside.
std::vector<size_t> tiledLoops(const Design& design) {
  std::vector<size_t> tiled;
  for (const bool reductions : {false, true})
    for (size_t loop = 0; loop < design.form->loops(); ++loop)
      if (design.form->reduction[loop] == reductions && design.tiling.tile[loop] < design.form->extent(loop))
        tiled.push_back(loop);
  return tiled;
}

/// The steps of the innermost loop: the first one, the last one, and those between them, which are equal. In a round,
/// the next step is read while this one is computed and the previous one is written.
class InnerLoop {
 public:
  InnerLoop(const Design& design, const Step& outer, size_t loop, const Device& device)
      : tiles_(tilesOf(design, loop)) {
    const bool sums = design.form->reduction[loop];
    for (int kind = 0; kind < 3; ++kind) {
      Step step = outer;
      step.extents[loop] = tileExtent(design, loop, kind == 2);
      if (sums) step.first_sum &= kind == 0;
      if (sums) step.last_sum &= kind == 2;
      kinds_[static_cast<size_t>(kind)] = durationsOf(cyclesOf(design, step, device));
    }
  }

  /// Rounds of all tiles, if the same loop runs before and after.
  double rounds() const {
    const auto& [first, between, last] = kinds_;
    const int64_t many = tiles_ - 2;
    if (many == 0) return round(last, first, last) + round(first, last, first);
    double total = round(last, first, between) + round(between, last, first);
    if (many == 1) return total + round(first, between, last);
    total += round(first, between, between) + round(between, between, last);
    return total + static_cast<double>(many - 2) * round(between, between, between);
  }

  /// The first read, without what the first round is spared.
  double start() const {
    const auto& [first, between, last] = kinds_;
    const Durations& next = tiles_ == 2 ? last : between;
    return first.read - (round(last, first, next) - std::max(first.compute, next.read));
  }
  /// The last write, without what the last round is spared.
  double end() const {
    const auto& [first, between, last] = kinds_;
    const Durations& previous = tiles_ == 2 ? first : between;
    return last.write - (round(previous, last, first) - std::max(last.compute, previous.write));
  }

 private:
  static double round(const Durations& previous, const Durations& current, const Durations& next) {
    return std::max({previous.write, current.compute, next.read});
  }

  int64_t tiles_;
  std::array<Durations, 3> kinds_;
};

}  // namespace

const char* storageName(Storage storage) {
  static constexpr const char* kNames[] = {"registers", "lutram", "bram", "uram"};
  return kNames[static_cast<size_t>(storage)];
}

int64_t Buffer::memories() const {
  return std::accumulate(partition.begin(), partition.end(), int64_t{1}, std::multiplies<>());
}

int64_t Buffer::depth() const {
  int64_t depth = 1;
  for (size_t d = 0; d < shape.size(); ++d) depth *= ceilDiv(shape[d], partition[d]);
  return depth;
}

Resources Buffer::resources(Storage in) const {
  const int64_t count = copies * memories(), elements = depth();
  switch (in) {
    case Storage::kRegisters:
      return {.ff = count * elements * element_bits};
    case Storage::kLutRam:
      // Eight LUTs hold 64 words of 7 bits, one port to write and one to read.
      return {.lut = count * ceilDiv(elements, 64) * ceilDiv(element_bits, 7) * 8};
    case Storage::kUram:
      return {.uram = count * ceilDiv(element_bits, 72) * ceilDiv(elements, 4096)};
    case Storage::kBram:
      break;
  }
  int64_t blocks = INT64_MAX;
  for (const auto& [width, words] :
       {std::pair<int64_t, int64_t>{36, 512}, {18, 1024}, {9, 2048}, {4, 4096}, {2, 8192}, {1, 16384}})
    blocks = std::min(blocks, ceilDiv(element_bits, width) * ceilDiv(elements, words));
  return {.bram = count * blocks};
}

int64_t Design::processingElements() const {
  return std::accumulate(tiling.unroll.begin(), tiling.unroll.end(), int64_t{1}, std::multiplies<>());
}

absl::StatusOr<Design> designOf(const Form& form, const Tiling& tiling, const Device& device, const Resources& limits) {
  TESSERA_RETURN_IF_ERROR(checkTiling(form, tiling));
  Design design{.form = &form, .tiling = tiling};
  Resources element;
  TESSERA_ASSIGN_OR_RETURN(const std::vector<int64_t> at, arrivals(form, device, element));
  TESSERA_ASSIGN_OR_RETURN(const Recurrence recurrence, recurrenceOf(form, tiling, at, device));
  design.resources = element * design.processingElements();
  const auto accesses = static_cast<int64_t>(form.nest->accesses.size());
  if (!form.direct.empty()) {
    design.resources += device.process() + device.port() * accesses;
    const double trip = device.memoryLatency() + static_cast<double>(recurrence.latency);
    design.interval = recurrence.latency > 0 || form.direct.starts_with("its points") ? static_cast<int64_t>(trip) : 1;
    design.depth = static_cast<int64_t>(trip) + at.back();
  } else {
    const bool steps = [&] {
      for (size_t loop = 0; loop < form.loops(); ++loop)
        if (form.reduction[loop] && tiling.tile[loop] < form.extent(loop)) return true;
      return false;
    }();
    for (size_t access = 0; access < form.nest->accesses.size(); ++access) {
      const bool output = access < form.outputs.size();
      if (!form.nest->reads(static_cast<int>(access)) || (output && !form.outputs[access].initial.empty())) continue;
      design.buffers.push_back(bufferOf(form, access, false, tiling, device));
    }
    for (size_t output = 0; output < form.outputs.size(); ++output) {
      design.buffers.push_back(bufferOf(form, output, true, tiling, device));
      if (!steps || !form.outputs[output].reads_old) continue;
      design.sums.push_back(design.buffers.back());
      design.sums.back().copies = 1;
    }
    assignBanks(design.buffers, device);
    std::vector<Buffer*> all;
    for (Buffer& each : design.buffers) all.push_back(&each);
    for (Buffer& each : design.sums) all.push_back(&each);
    design.resources += assignStorage(all, limits);
    for (const Buffer& each : design.buffers) design.resources.lut += multiplexerLuts(each, tiling);
    const auto processes = static_cast<int64_t>(design.buffers.size()) + 1;
    design.resources += device.process() * processes + device.port() * static_cast<int64_t>(design.buffers.size());
    if (form.reduces() && recurrence.latency > 0) {
      // The shortest distance is that of the smallest tiles.
      std::vector<int64_t> least;
      for (size_t loop = 0; loop < form.loops(); ++loop) {
        const int64_t rest = form.extent(loop) % tiling.tile[loop];
        least.push_back(rest == 0 ? tiling.tile[loop] : rest);
      }
      design.distance = pipelinedPoints(design, least, [&](size_t loop) { return !form.reduction[loop]; });
      design.interval =
          std::max<int64_t>(1, ceilDiv(recurrence.latency + kRegisterReadCycles + kMemoryWriteCycles, design.distance));
    }
    const int64_t longest = at.empty() ? 0 : *std::ranges::max_element(at);
    design.depth = kMemoryReadCycles + longest + recurrence.tree + kMemoryWriteCycles;
  }
  if (const std::string name = design.resources.exceeding(limits); !name.empty())
    return absl::FailedPreconditionError(absl::StrCat("nest ", form.nest->name, " needs more ", name, " than ",
                                                      device.name(), " has left: ", print(design.resources), " of ",
                                                      print(limits)));
  design.cycles = predictedCycles(design, device);
  return design;
}

absl::StatusOr<Resources> elementOf(const Form& form, const Device& device) {
  Resources element;
  TESSERA_RETURN_IF_ERROR(arrivals(form, device, element).status());
  return element;
}

StepCycles cyclesOf(const Design& design, const Step& step, const Device& device) {
  StepCycles cycles;
  const int64_t points = pipelinedPoints(design, step.extents, [](size_t) { return true; });
  cycles.compute = static_cast<double>(design.interval) * static_cast<double>(points) +
                   static_cast<double>(design.depth) + device.processCycles();
  for (const Buffer& buffer : design.buffers) {
    const bool old = !buffer.written && buffer.access < design.form->outputs.size();
    const bool idle = buffer.written ? !step.last_sum : old && !step.first_sum;
    if (!idle) cycles.bytes += tileBytes(design, buffer, step);
    (buffer.written ? cycles.writes : cycles.reads)
        .push_back(idle ? 0.0 : transferCycles(design, buffer, step, device));
  }
  return cycles;
}

double stepsOf(const Design& design) {
  double steps = 1;
  for (size_t loop = 0; loop < design.form->loops(); ++loop)
    steps *= static_cast<double>(ceilDiv(design.form->extent(loop), design.tiling.tile[loop]));
  return steps;
}

double movedBytes(const Design& design, const Device& device) {
  const std::vector<size_t> tiled = tiledLoops(design);
  double bytes = 0;
  for (uint64_t kind = 0; kind < (uint64_t{1} << tiled.size()); ++kind) {
    Step step{.extents = extentsOf(*design.form)};
    double count = 1, first = 1;
    for (size_t t = 0; t < tiled.size(); ++t) {
      const bool last = (kind >> t & 1) != 0, sums = design.form->reduction[tiled[t]];
      const auto others = static_cast<double>(tilesOf(design, tiled[t]) - 1);
      step.extents[tiled[t]] = tileExtent(design, tiled[t], last);
      step.last_sum &= last || !sums;
      count *= last ? 1 : others;
      first *= sums ? (last ? 0 : 1) : (last ? 1 : others);
    }
    step.first_sum = false;
    bytes += (count - first) * cyclesOf(design, step, device).bytes;
    step.first_sum = true;
    bytes += first * cyclesOf(design, step, device).bytes;
  }
  return bytes;
}

double predictedCycles(const Design& design, const Device& device) {
  const std::vector<size_t> tiled = tiledLoops(design);
  if (tiled.empty()) {
    const Durations only = durationsOf(cyclesOf(design, {.extents = extentsOf(*design.form)}, device));
    return only.read + only.compute + only.write;
  }
  // Steps are equal if each loop's tile is the last one in both, or in neither; the innermost loop is walked.
  const std::vector<size_t> outer(tiled.begin(), tiled.end() - 1);
  double total = 0;
  for (uint64_t kind = 0; kind < (uint64_t{1} << outer.size()); ++kind) {
    Step step{.extents = extentsOf(*design.form)};
    double count = 1, first = 1;
    for (size_t t = 0; t < outer.size(); ++t) {
      const bool last = (kind >> t & 1) != 0;
      const auto others = static_cast<double>(tilesOf(design, outer[t]) - 1);
      step.extents[outer[t]] = tileExtent(design, outer[t], last);
      count *= last ? 1 : others;
      if (design.form->reduction[outer[t]] && !last) step.last_sum = false;
      // Of the tiles that are not the last one of a reduction, one is the first.
      first *= design.form->reduction[outer[t]] ? (last ? 0 : 1) : (last ? 1 : others);
    }
    for (const bool starts : {true, false}) {
      step.first_sum = starts;
      const double times = starts ? first : count - first;
      if (times > 0) total += times * InnerLoop(design, step, tiled.back(), device).rounds();
    }
  }
  // Before the first round there is nothing to compute, and after the last one nothing to read.
  Step begin{.extents = extentsOf(*design.form)}, end = begin;
  for (size_t loop : outer) {
    begin.extents[loop] = tileExtent(design, loop, false);
    begin.last_sum &= !design.form->reduction[loop];
    end.extents[loop] = tileExtent(design, loop, true);
    end.first_sum &= !design.form->reduction[loop];
  }
  const InnerLoop opening(design, begin, tiled.back(), device), closing(design, end, tiled.back(), device);
  return total + opening.start() + closing.end();
}

}  // namespace tessera::compiler::hls
