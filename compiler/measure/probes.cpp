#include "compiler/measure/probes.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tessera::compiler {
namespace {

using Values = const std::vector<double>&;

constexpr int64_t kElement = sizeof(float);
constexpr int64_t kPanel = 1024;  // bytes per iteration of loops over memory

std::string sizeText(int64_t bytes) {
  return bytes < 1 << 20 ? absl::StrCat(bytes >> 10, " KiB") : absl::StrFormat("%.3g MiB", std::ldexp(bytes, -20));
}

class Plan {
 public:
  Plan(const v1::Target& target, Bench& bench) : target_(target), bench_(bench), run_(bench.kernels()) {}

  Probes take(int multiply_add) {
    core(multiply_add);
    for (int level = 0; level < target_.memory_size(); ++level) memory(level);
    steps();
    copies();
    return std::move(probes_);
  }

 private:
  /// Adds a measurement; returns its position.
  size_t time(std::string what, double units, std::function<void(int, int64_t)> work,
              Series::Where where = Series::Where::kOneCore) {
    probes_.series.push_back({.what = std::move(what), .work = std::move(work), .units = units, .where = where});
    return probes_.series.size() - 1;
  }
  /// The same for a function that is called `times` times.
  size_t timeCalls(std::string what, double units, std::function<void(int)> call,
                   Series::Where where = Series::Where::kOneCore) {
    return time(
        std::move(what), units,
        [call = std::move(call)](int thread, int64_t times) {
          for (int64_t i = 0; i < times; ++i) call(thread);
        },
        where);
  }
  void figure(std::string field, std::string unit, std::string how, std::vector<size_t> sources,
              std::function<double(Values)> value, int cores = 1) {
    probes_.formulas.push_back(
        {std::move(field), std::move(unit), std::move(how), std::move(sources), std::move(value), cores});
  }
  static double first(Values values) { return values[0]; }
  static double rate(Values values) { return 1 / values[0]; }

  int levels() const { return target_.memory_size(); }
  bool isOutermost(int level) const { return level + 1 == levels(); }
  /// Working set of one of `threads` threads in a level: more than the next inner level holds, less than the thread's
  /// part of this level.
  int64_t workingSet(int level, int threads) const {
    if (isOutermost(level)) return bench_.farBytes(threads);
    const v1::MemoryLevel& memory = target_.memory(level);
    const int64_t inner = level > 0 ? 2 * target_.memory(level - 1).capacity_bytes() : 0;
    const int64_t sharing = std::min(memory.shared_by(), threads);
    const int64_t part = memory.shared_by() == 1 ? memory.capacity_bytes() / 2 : memory.capacity_bytes() / 4 / sharing;
    return std::max(kPanel, std::min(std::max(inner, part), bench_.farBytes(threads)) / kPanel * kPanel);
  }
  /// Working set of a single core in the last cache.
  int64_t lastCacheBytes() const { return levels() > 1 ? workingSet(levels() - 2, 1) : workingSet(0, 1); }

  void core(int multiply_add) {
    const double lanes = run_.lanes;
    clock_ = time("frequency", 32, [this](int, int64_t times) { run_.clock(times); });
    probes_.series[clock_].in_nanoseconds = true;
    figure("units[0].frequency_ghz", "GHz", "additions that wait for each other, beside multiply-adds of whole vectors",
           {clock_}, rate);
    const int cores = bench_.cores();
    if (cores > 1) {
      const size_t all =
          time("frequency", 32, [this](int, int64_t times) { run_.clock(times); }, Series::Where::kEachCore);
      probes_.series[all].in_nanoseconds = true;
      figure("units[0].frequency_ghz", "GHz", "the same", {all}, rate, cores);
    }
    const size_t products =
        time("multiply-adds", run_.independent, [this](int, int64_t times) { run_.multiplyAdds(times); });
    figure("units[0].ops_per_cycle", "operations on f32 a cycle",
           absl::StrCat(run_.independent, " multiply-adds of vectors that do not wait for each other"), {products},
           [lanes](Values cycles) { return 2 * lanes / cycles[0]; });
    if (multiply_add >= 0) {
      const size_t latency = time("multiply-adds", 16, [this](int, int64_t times) { run_.sum(times); });
      figure(absl::StrCat("intrinsics[", multiply_add, "].latency_cycles"), "cycles", "a sum of products of vectors",
             {latency}, first);
    }
    mixed_ = time("instructions", 8 * 6, [this](int, int64_t times) { run_.mixed(bench_.near(0), times); });
    figure("units[0].instructions_per_cycle", "instructions a cycle",
           "loads and additions of vectors and four times as many additions of integers, none waiting for another",
           {mixed_}, rate);
  }

  void memory(int level) {
    const std::string& name = target_.memory(level).name();
    const std::string at = absl::StrCat("memory[", level, "].");
    const int64_t bytes = workingSet(level, 1);
    const auto units = static_cast<double>(bytes);
    const std::string what = absl::StrCat("reading ", name), how = absl::StrCat(sizeText(bytes), " again and again");
    float* const from = bench_.far(0, 1);
    const int64_t elements = bytes / kElement;
    const size_t read =
        time(what, units, [this, from, elements](int, int64_t times) { run_.read(from, elements, times); });
    figure(at + "bandwidth_bytes_per_cycle", "bytes a cycle", "one core reads " + how, {read}, rate);
    if (level == 0) {
      const double vector = run_.lanes * kElement;
      figure("units[0].loads_per_cycle", "vectors a cycle", "one core reads " + how, {read},
             [vector](Values cycles) { return 1 / (cycles[0] * vector); });
    }
    if (const int cores = bench_.cores(); cores > 1) {
      const int64_t part = workingSet(level, cores);
      const size_t all = time(
          what, static_cast<double>(part),
          [this, part, cores](int thread, int64_t times) {
            run_.read(bench_.far(thread, cores), part / kElement, times);
          },
          Series::Where::kEachCore);
      figure(at + "bandwidth_bytes_per_cycle", "bytes a cycle", absl::StrCat("each reads ", sizeText(part)), {all},
             rate, cores);
    }
    const size_t write =
        timeCalls("writing " + name, units, [this, from, elements](int) { run_.write(from, elements); });
    figure(at + "write_bandwidth_bytes_per_cycle", "bytes a cycle", "one core writes " + how, {write}, rate);
    if (level > 0) {
      const size_t used =
          timeCalls(what, units, [this, from, elements](int) { run_.readMultiplied(from, bench_.near(0), elements); });
      figure(at + "sustained_bytes_per_cycle", "bytes a cycle",
             absl::StrCat("one core reads ", how, ", each vector multiplied by one of the near level"), {used, read},
             [](Values cycles) { return 1 / std::max(cycles[0], cycles[1]); });
    }
    if (!isOutermost(level)) return;
    figure("cost_parameters.memory.transfers_per_written_line", "passes",
           absl::StrCat("time to write ", sizeText(bytes), " over that to read it"), {write, read},
           [](Values cycles) { return std::max(1.0, cycles[0] / cycles[1]); });
  }

  void steps() {
    // A phase with so few items that only its start and end take time.
    const auto threads = static_cast<size_t>(bench_.cores());
    constexpr size_t kPhases = 64;
    grids_.assign(kPhases, static_cast<int64_t>(threads));
    const size_t phase = timeCalls(
        "phases", kPhases,
        [this](int) {
          bench_.team().run({.grids = grids_,
                             .work = [](void*, size_t, int, int64_t, int64_t) {},
                             .next = nullptr,
                             .context = nullptr});
        },
        Series::Where::kTeam);
    figure("cost_parameters.overheads.phase_cycles", "cycles",
           absl::StrCat("the runtime's team of ", threads, " threads goes through phases of nothing"), {phase}, first);
    // Two rows of about 56 pixels from planes of 56 x 56, compared with the same bytes in order.
    constexpr int64_t kRun = 512 / kElement, kApart = 25 * kRun;
    const int64_t runs = std::min<int64_t>(1024, bench_.farBytes(1) / kElement / kApart),
                  in_all = runs * (kApart / kRun);
    const size_t apart = timeCalls("runs apart", static_cast<double>(in_all), [this, runs](int) {
      for (int64_t begin = 0; begin < kApart; begin += kRun)
        for (int64_t run = 0; run < runs; ++run) run_.read(bench_.far(0, 1) + run * kApart + begin, kRun, 1);
    });
    const size_t ordered = timeCalls("runs in order", static_cast<double>(in_all), [this, in_all](int) {
      for (int64_t run = 0; run < in_all; ++run) run_.read(bench_.far(0, 1) + run * kRun, kRun, 1);
    });
    figure("cost_parameters.overheads.run_cycles", "cycles",
           absl::StrCat(runs, " runs of 512 bytes in ", sizeText(runs * kApart * kElement),
                        ", 12800 bytes apart, over the same bytes in order"),
           {apart, ordered}, [](Values cycles) { return cycles[0] - cycles[1]; });
  }

  void copies() {
    // Images with an odd number of squares per side, so that rows do not map to the same cache lines.
    const int64_t cache = lastCacheBytes(), side = sideOf(cache / 2);
    constexpr int64_t kSlice = 64;
    const int64_t elements = side * side;
    float* const from = bench_.far(0, 1);
    float* const to = from + elements;
    const std::string image = absl::StrCat(side, " x ", side, " elements");
    const size_t copied = timeCalls("copies", static_cast<double>(elements),
                                    [this, from, to, elements](int) { run_.copy(from, to, elements); });
    figure("cost_parameters.copies.copy_cycles", "cycles an element", image + " of the last cache copied", {copied},
           first);
    const size_t turned = timeCalls("copies turned", static_cast<double>(elements),
                                    [this, from, to, side](int) { run_.turn(from, side, to, side, side, side); });
    figure("cost_parameters.copies.transpose_cycles", "cycles an element",
           image + " of the last cache turned, in squares of a vector's size", {turned}, first);

    const int64_t slices = side / kSlice;
    const auto moved = static_cast<double>(slices * slices * kSlice * kSlice);
    const auto forSlices = [this, slices, side, from](auto move) {
      return [=, this](int) {
        for (int64_t row = 0; row < slices; ++row)
          for (int64_t column = 0; column < slices; ++column)
            move(from + (row * side + column) * kSlice, bench_.near(0));
      };
    };
    const std::string of = absl::StrCat("slices of ", kSlice, " x ", kSlice, " elements ");
    const size_t slice_copied = timeCalls("slices", moved, [this, from, slices](int) {
      for (int64_t i = 0; i < slices * slices; ++i)
        run_.copy(from + i * kSlice * kSlice, bench_.near(0), kSlice * kSlice);
    });
    figure("cost_parameters.copies.slice_copy_cycles", "cycles an element",
           of + "from the last cache to the near level", {slice_copied}, first);
    const size_t slice_turned = timeCalls("slices turned", moved, forSlices([this, side](float* far, float* near) {
                                            run_.turn(far, side, near, kSlice, kSlice, kSlice);
                                          }));
    figure("cost_parameters.copies.slice_transpose_cycles", "cycles an element",
           of + "from the last cache to the near level, turned", {slice_turned}, first);
    const size_t turned_back = timeCalls("slices turned back", moved, forSlices([this, side](float* far, float* near) {
                                           run_.turn(near, kSlice, far, side, kSlice, kSlice);
                                         }));
    figure("cost_parameters.copies.slice_transpose_store_cycles", "cycles an element",
           of + "from the near level to the last cache, turned", {turned_back}, first);
    const int64_t whole = side / run_.lanes * run_.lanes * side;
    const size_t scattered = timeCalls("single elements", static_cast<double>(whole), [this, from, side](int) {
      for (int64_t row = 0; row + run_.lanes <= side; row += run_.lanes) run_.storeLanes(from + row * side, side, side);
    });
    figure("cost_parameters.copies.scatter_cycles", "cycles an element",
           "single elements stored to the last cache, neighbours in rows that follow", {scattered}, first);

    // An operand in the second level, in panels of one vector's width.
    const int64_t depth = sideOf(workingSet(std::min(1, levels() - 1), 1) / 2);
    float* const panels = from + depth * depth;
    const size_t packed = timeCalls("panels", static_cast<double>(depth * depth), [this, from, panels, depth](int) {
      for (int64_t row = 0; row < depth; row += run_.lanes)
        run_.turn(from + row * depth, depth, panels + row * depth, run_.lanes, run_.lanes, depth);
    });
    figure("cost_parameters.copies.pack_instructions", "instructions an element",
           absl::StrCat(depth, " x ", depth,
                        " elements of the second level turned into panels; cycles by instructions a cycle"),
           {packed, mixed_}, instructions);
  }

  /// cycles[0] is the measured operation, cycles[1] one instruction.
  static double instructions(Values cycles) { return cycles[0] / cycles[1]; }
  /// Side of a square image of at most `bytes`: an odd multiple of 16 elements.
  static int64_t sideOf(int64_t bytes) {
    const int64_t elements = bytes / kElement;
    const auto squares = static_cast<int64_t>(std::sqrt(static_cast<double>(elements))) / 16;
    return 16 * std::max<int64_t>(5, squares % 2 == 1 ? squares : squares - 1);
  }

  const v1::Target& target_;
  Bench& bench_;
  const Kernels& run_;
  Probes probes_;
  size_t clock_ = 0, mixed_ = 0;
  std::vector<int64_t> grids_;
};

}  // namespace

Probes probesOf(const v1::Target& target, Bench& bench, int multiply_add) {
  auto plan = std::make_shared<Plan>(target, bench);
  Probes probes = plan->take(multiply_add);
  probes.owner = std::move(plan);
  return probes;
}

}  // namespace tessera::compiler
