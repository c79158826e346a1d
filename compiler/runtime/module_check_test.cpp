#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "compiler/runtime/module_image.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

void kernel(void* const*, int64_t, int64_t, void*, void*) {}

/// Tables as a compiler would emit them, all within one object, and the code they point to.
struct Tables {
  const char text[32] = "name";
  const char triple[32] = "x86_64-unknown-linux-gnu";
  const char features[16] = "avx2 fma";
  const char another[8] = "another";
  int64_t shape[2] = {4, 8};
  int64_t shape2[2] = {8, 8};
  tessera_module_tensor input{};
  tessera_module_tensor output{};
  int64_t value[16] = {};
  tessera_module_tensor input2{};
  tessera_module_tensor output2{};
  tessera_module_buffer buffers[5]{};
  tessera_module_buffer buffers2[4]{};
  tessera_module_dimension dimension{};
  tessera_module_phase phase{};
  int32_t operands[4] = {0, 1, 2, 3};
  tessera_module_step step{};
  tessera_module_fixed_input fixed{};
  tessera_module_extent extents[2]{};
  const char* faults[1] = {text};
  tessera_module_variant variants[2]{};
  tessera_module_tensor weight{};
  tessera_module_buffer weight_buffers[2]{};
  int32_t weight_operands[2] = {0, 1};
  tessera_module_step weight_step{};
  tessera_module_variant weight_variant{};
  tessera_module preparation{};
  tessera_module module{};

  Tables() {
    input = output = {text, TESSERA_F32, 2, shape, 128, nullptr};
    buffers[0] = {TESSERA_BUFFER_INPUT, 0, 0, 128};
    buffers[1] = {TESSERA_BUFFER_WEIGHT, 0, 64, 64};
    buffers[2] = {TESSERA_BUFFER_ARENA, 0, 128, 128};
    buffers[3] = {TESSERA_BUFFER_OUTPUT, 0, 0, 128};
    buffers[4] = {TESSERA_BUFFER_ARENA, 0, 0, 8};
    input2 = output2 = {text, TESSERA_F32, 2, shape2, 256, nullptr};
    buffers2[0] = {TESSERA_BUFFER_INPUT, 0, 0, 256};
    buffers2[1] = {TESSERA_BUFFER_WEIGHT, 0, 64, 64};
    buffers2[2] = {TESSERA_BUFFER_ARENA, 0, 256, 256};
    buffers2[3] = {TESSERA_BUFFER_OUTPUT, 0, 0, 256};
    phase = {&kernel, 3};
    step = {text, text, &phase, 1, 4, operands, 10, 64, 64, 1, 0, nullptr, nullptr, 0, 0};
    dimension = {text, 4};
    fixed = {0, 0, value, 128};
    extents[0] = {0, 0, 4, 0};
    extents[1] = {0, 1, 4, 0};
    variants[0] = {&dimension, &input, &output, buffers, &step, extents, nullptr, nullptr, nullptr, faults, nullptr,
                   1,          5,      1,       2,       0,     0,       0,       1,       4,       0,      256};
    variants[1] = {&dimension, &input2, &output2, buffers2, &step, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                   1,          4,       1,        0,        0,     0,       0,       0,       -1,      0,       512};
    weight = {text, TESSERA_F32, 2, shape, 128, nullptr};
    weight_buffers[0] = {TESSERA_BUFFER_WEIGHT, 0, 0, 64};
    weight_buffers[1] = {TESSERA_BUFFER_OUTPUT, 0, 0, 128};
    weight_step = {text, text, &phase, 1, 2, weight_operands, 10, 0, 0, 1, 0, nullptr, nullptr, 0, 0};
    weight_variant = {nullptr,
                      nullptr,
                      &weight,
                      weight_buffers,
                      &weight_step,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr,
                      0,
                      2,
                      1,
                      0,
                      0,
                      0,
                      0,
                      0,
                      -1,
                      0,
                      0};
    preparation = {
        TESSERA_MODULE_ABI, 1, text, triple, features, 0, 1, &weight_variant, 0, 0, 128, 0, 0, nullptr, nullptr};
    module = {TESSERA_MODULE_ABI, 1, text, triple, features, 1, 1, variants, 64, 64, 128, 1, 0, &fixed, nullptr};
  }
  /// Makes the step read a prepared weight.
  void prepare() {
    module.preparation = &preparation;
    buffers[1] = {TESSERA_BUFFER_PREPARED, 0, 64, 64};
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  RuntimeStatus check(uint64_t weights_bytes = 128) const {
    const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
    const ImageSegment segments[] = {{begin, begin + sizeof(Tables), false}, {code, code + 1, true}};
    return checkModule(&module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, weights_bytes);
  }
};

TEST(ModuleCheck, AcceptsWhatTheCompilerEmits) {
  const Tables tables;
  const RuntimeStatus status = tables.check();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ModuleCheck, AcceptsPreparedWeights) {
  Tables tables;
  tables.prepare();
  const RuntimeStatus status = tables.check();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ModuleCheck, AcceptsSeveralVariants) {
  Tables tables;
  tables.module.num_variants = 2;
  tables.module.num_fixed_inputs = 0;  // inputs differ in size here
  const RuntimeStatus status = tables.check();
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(ModuleCheck, ARangeNeedsTheInputThatSaysHowMuchCounts) {
  Tables tables;
  tables.module.num_fixed_inputs = 0;
  tables.dimension.size = -4;
  EXPECT_EQ(tables.check().code(), TESSERA_CORRUPT);  // its only input is a matrix
}

/// One input with a range of 4, the input that holds its count, and a step of 3 cells that the range bounds.
struct RangedTables {
  const char count_name[8] = "name";
  int32_t ranges[2] = {0, -1};
  tessera_module_tensor inputs[2] = {};
  tessera_module_grid_bound grid_bounds[2] = {{0, 1, 3, 1, 1, 2, 0}, {0, 1, 1, 1, 1, 1, 0}};
  Tables tables;

  RangedTables() {
    inputs[0] = tables.input;
    inputs[0].ranges = ranges;
    inputs[1] = {count_name, TESSERA_I64, 0, nullptr, 8, nullptr};
    tables.module.num_fixed_inputs = 0;
    tables.module.num_inputs = 2;
    tables.dimension.size = -4;
    tables.variants[0].inputs = inputs;
    tables.step.grid_bounds = grid_bounds;
    tables.step.num_grid_bounds = 1;
  }
  RuntimeStatus check() const {
    const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
    const ImageSegment segments[] = {{begin, begin + sizeof(RangedTables), false}, {code, code + 1, true}};
    return checkModule(&tables.module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, 128);
  }
};

TEST(ModuleCheck, AcceptsCutsOfRanges) {
  RangedTables ranged;
  EXPECT_TRUE(ranged.check().ok()) << ranged.check().message();
  ranged.tables.step.num_grid_bounds = 2;  // one step within a step of the first
  EXPECT_TRUE(ranged.check().ok()) << ranged.check().message();
}

TEST(ModuleCheck, RefusesCutsThatAreNone) {
  const auto refuses = [](auto change) {
    RangedTables ranged;
    change(ranged);
    EXPECT_EQ(ranged.check().code(), TESSERA_CORRUPT);
  };
  refuses([](RangedTables& r) { r.grid_bounds[0].phase = 1; });
  refuses([](RangedTables& r) { r.grid_bounds[0].phase = -1; });
  refuses([](RangedTables& r) { r.grid_bounds[0].ranges = 0; });
  refuses([](RangedTables& r) { r.grid_bounds[0].ranges = 2; });
  refuses([](RangedTables& r) { r.grid_bounds[0].ranges = 3; });
  refuses([](RangedTables& r) { r.grid_bounds[0].ranges = 0x80000001U; });
  refuses([](RangedTables& r) { r.grid_bounds[0].count = 2; });  // of a grid of 3
  refuses([](RangedTables& r) { r.grid_bounds[0].count = 0; });
  refuses([](RangedTables& r) { r.grid_bounds[0].inner = 2; });
  refuses([](RangedTables& r) { r.grid_bounds[0].inner = INT64_MAX; });
  refuses([](RangedTables& r) { r.grid_bounds[0].numerator = INT64_MAX / 2; });
  refuses([](RangedTables& r) { r.grid_bounds[0].denominator = 0; });
  refuses([](RangedTables& r) { r.grid_bounds[0].slack = -1; });
  refuses(
      [](RangedTables& r) { r.tables.step.grid_bounds = reinterpret_cast<const tessera_module_grid_bound*>(&r + 1); });
  refuses([](RangedTables& r) {
    r.grid_bounds[1] = r.grid_bounds[0];  // the same level twice
    r.tables.step.num_grid_bounds = 2;
  });
  refuses([](RangedTables& r) { r.ranges[0] = 1; });
  refuses([](RangedTables& r) { r.ranges[1] = 0; });  // which has 8 elements
  refuses([](RangedTables& r) { r.tables.dimension.size = 4; });
}

TEST(ModuleCheck, WriteBoundsAreOfAResultAndItsGridBounds) {
  struct BoundedTables {
    tessera_module_write_bound_term term = {0, 0, 1, 1, 64, 128};
    tessera_module_write_bound write_bounds[2] = {{3, 1, -64, nullptr}, {3, 0, 64, nullptr}};
    RangedTables ranged;
    BoundedTables() {
      write_bounds[0].terms = &term;
      ranged.tables.step.write_bounds = write_bounds;
      ranged.tables.step.num_write_bounds = 2;
    }
    RuntimeStatus check() const {
      const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
      const ImageSegment segments[] = {{begin, begin + sizeof(BoundedTables), false}, {code, code + 1, true}};
      return checkModule(&ranged.tables.module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, 128);
    }
  };
  const BoundedTables good;
  EXPECT_TRUE(good.check().ok()) << good.check().message();
  const auto refuses = [](const char* words, auto change) {
    BoundedTables changed;
    change(changed);
    EXPECT_EQ(changed.check().code(), TESSERA_CORRUPT) << words;
    EXPECT_THAT(changed.check().message(), HasSubstr(words));
  };
  refuses("has a write bound of no result", [](BoundedTables& r) { r.write_bounds[0].operand = 2; });
  refuses("has a write bound of no result", [](BoundedTables& r) { r.write_bounds[1].operand = 4; });
  refuses("has a write bound out of range", [](BoundedTables& r) { r.write_bounds[1].base = INT64_MAX; });
  refuses("has a write bound out of range", [](BoundedTables& r) { r.term.denominator = 0; });
  refuses("has a write bound out of range", [](BoundedTables& r) { r.term.numerator = INT64_MAX; });
  refuses("has a write bound out of range", [](BoundedTables& r) { r.term.bytes = -1; });
  refuses("has a write bound out of range", [](BoundedTables& r) { r.term.most = INT64_MAX; });
  refuses("by a grid bound that it lacks", [](BoundedTables& r) { r.term.grid_bound = 1; });
  refuses("write bounds outside", [](BoundedTables& r) { r.write_bounds[0].num_terms = 2; });
  refuses("write bounds outside", [](BoundedTables& r) { r.write_bounds[0].terms = nullptr; });
  refuses("write bounds outside",
          [](BoundedTables& r) { r.ranged.tables.step.write_bounds = &r.write_bounds[2] + 1000; });
}

TEST(ModuleCheck, PlacesAreOfTheArenaAndHoldTheirBuffers) {
  struct Placed {
    tessera_module_allocation allocations[2] = {{0, 64, 0, 1}, {128, 128, 0, 0}};
    Tables tables;
    Placed() {
      tables.variants[0].allocations = allocations;
      tables.variants[0].num_allocations = 2;
      tables.buffers[2].index = 1;
    }
    RuntimeStatus check() const {
      const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
      const ImageSegment segments[] = {{begin, begin + sizeof(Placed), false}, {code, code + 1, true}};
      return checkModule(&tables.module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, 128);
    }
  };
  const Placed good;
  EXPECT_TRUE(good.check().ok()) << good.check().message();
  const auto refuses = [](const char* words, auto change) {
    Placed changed;
    change(changed);
    EXPECT_EQ(changed.check().code(), TESSERA_CORRUPT) << words;
    EXPECT_THAT(changed.check().message(), HasSubstr(words));
  };
  refuses("place 1 reaches beyond the arena", [](Placed& p) { p.allocations[1].size_bytes = 192; });
  refuses("place 0 reaches beyond the arena", [](Placed& p) { p.allocations[0].offset = -64; });
  refuses("place 0 has an offset", [](Placed& p) { p.allocations[0].offset = 8; });
  refuses("place 0 is needed by no step", [](Placed& p) { p.allocations[0].first = 2; });
  refuses("place 0 is needed by no step", [](Placed& p) { p.allocations[0].last = 2; });
  refuses("place 1 is needed by no step", [](Placed& p) { p.allocations[1].first = -1; });
  refuses("buffer 2 refers to no such place", [](Placed& p) { p.tables.buffers[2].index = 2; });
  refuses("buffer 2 reaches beyond its place", [](Placed& p) { p.tables.buffers[2].index = 0; });
  refuses("table outside", [](Placed& p) { p.tables.variants[0].num_allocations = 1 << 19; });
}

/// Three steps; a loop over the last two that carries buffer 2 and reads parts of the input, and a loop nested in it
/// over the last one.
struct LoopTables {
  tessera_module_buffer buffers[13] = {};
  int32_t reads[2] = {7, 8}, outside[2] = {0, 3};
  tessera_module_step steps[3] = {};
  tessera_module_carried carried[2] = {{2, 7, 8, 3, 9}, {8, 11, 12, 3, 9}};
  tessera_module_scan scans[2] = {{0, 10, 0, 1}, {0, 10, 0, 1}};
  tessera_module_loop loops[2] = {};
  Tables tables;

  LoopTables() {
    std::copy(std::begin(tables.buffers), std::end(tables.buffers), buffers);
    buffers[5] = {TESSERA_BUFFER_ARENA, 0, 64, 1};  // condition
    buffers[6] = {TESSERA_BUFFER_ARENA, 0, 0, 8};   // a count
    for (int b : {7, 8}) buffers[b] = {TESSERA_BUFFER_LOOP, 0, 0, 128};
    buffers[9] = {TESSERA_BUFFER_ARENA, 0, 0, 128};
    buffers[10] = {TESSERA_BUFFER_LOOP, 0, 0, 32};  // a row of the input
    for (int b : {11, 12}) buffers[b] = {TESSERA_BUFFER_LOOP, 1, 0, 128};
    for (tessera_module_step& step : steps) step = tables.step;
    steps[0].operands = outside;
    steps[1].operands = steps[2].operands = reads;
    for (tessera_module_step& step : steps) step.num_operands = 2;
    loops[0] = {1, 3, 4, 6, 5, 5, 6, 6, 1, &carried[0], &scans[0], 1, 0};
    loops[1] = {2, 3, 0, -1, -1, 5, -1, -1, 1, &carried[1], nullptr, 0, 0};
    tables.module.num_fixed_inputs = 0;
    tessera_module_variant& variant = tables.variants[0];
    variant.buffers = buffers;
    variant.num_buffers = 13;
    variant.steps = steps;
    variant.num_steps = 3;
    variant.loops = loops;
    variant.num_loops = 2;
  }
  RuntimeStatus check() const {
    const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
    const ImageSegment segments[] = {{begin, begin + sizeof(LoopTables), false}, {code, code + 1, true}};
    return checkModule(&tables.module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, 128);
  }
};

TEST(ModuleCheck, LoopsHaveTheirOwnBuffersAndLieWithinEachOther) {
  const LoopTables good;
  EXPECT_TRUE(good.check().ok()) << good.check().message();
  const std::pair<const char*, std::function<void(LoopTables&)>> faults[] = {
      {"loop 0 has no steps", [](LoopTables& t) { t.loops[0].last_step = 1; }},
      {"loop 0 has no steps", [](LoopTables& t) { t.loops[0].last_step = 4; }},
      {"loop 1 is out of order", [](LoopTables& t) { t.loops[1].first_step = 0; }},
      {"ends outside of its enclosing loop",
       [](LoopTables& t) { t.loops[0].first_step = 0, t.loops[0].last_step = 2, t.loops[1].first_step = 1; }},
      {"impossible number", [](LoopTables& t) { t.loops[0].max_iterations = -1; }},
      {"outside the code", [](LoopTables& t) { t.loops[0].carried = nullptr; }},
      {"outside the code", [](LoopTables& t) { t.loops[0].num_scans = -1; }},
      {"no scalar buffer", [](LoopTables& t) { t.loops[0].trip_count = 5; }},
      {"no scalar buffer", [](LoopTables& t) { t.loops[0].condition = 6; }},
      {"no scalar buffer", [](LoopTables& t) { t.loops[0].iteration = 13; }},
      {"no scalar buffer", [](LoopTables& t) { t.loops[0].executed = -2; }},
      {"scans beyond", [](LoopTables& t) { t.loops[0].max_iterations = 5; }},
      {"scans beyond", [](LoopTables& t) { t.loops[0].max_iterations = 0; }},
      {"scans beyond", [](LoopTables& t) { t.buffers[10].size_bytes = 33; }},
      {"scans no such buffer", [](LoopTables& t) { t.scans[0].written = 1; }},  // to an input
      {"scans no such buffer", [](LoopTables& t) { t.scans[0].part = 7; }},
      {"different sizes", [](LoopTables& t) { t.buffers[9].size_bytes = 64; }},
      {"carries no such buffer", [](LoopTables& t) { t.carried[0].after = 7; }},
      {"carries no such buffer", [](LoopTables& t) { t.carried[0].result = 1; }},    // a weight
      {"carries no such buffer", [](LoopTables& t) { t.carried[0].initial = 8; }},   // its own
      {"carries no such buffer", [](LoopTables& t) { t.carried[0].initial = 11; }},  // of the inner loop
      {"belongs to no loop", [](LoopTables& t) { t.buffers[7].index = 2; }},
      {"no enclosing loop sets", [](LoopTables& t) { t.outside[0] = 7; }},
      {"no enclosing loop sets", [](LoopTables& t) { t.reads[0] = 11; }},
  };
  for (const auto& [message, damage] : faults) {
    LoopTables tables;
    damage(tables);
    EXPECT_EQ(tables.check().code(), TESSERA_CORRUPT) << message;
    EXPECT_THAT(tables.check().message(), HasSubstr(message));
  }
}

TEST(ModuleCheck, RefusedSizesAreOfARange) {
  struct Refusing {
    tessera_module_refused_sizes sizes = {0, 0, 1, 4, 2, nullptr};
    RangedTables ranged;
    Refusing() {
      sizes.reason = ranged.tables.text;
      ranged.tables.variants[0].refused_sizes = &sizes;
      ranged.tables.variants[0].num_refused_sizes = 1;
    }
    RuntimeStatus check() const {
      const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
      const ImageSegment segments[] = {{begin, begin + sizeof(Refusing), false}, {code, code + 1, true}};
      return checkModule(&ranged.tables.module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, 128);
    }
  };
  const Refusing good;
  EXPECT_TRUE(good.check().ok()) << good.check().message();
  const auto refuses = [](const char* words, auto change) {
    Refusing changed;
    change(changed.sizes);
    EXPECT_EQ(changed.check().code(), TESSERA_CORRUPT) << words;
    EXPECT_THAT(changed.check().message(), HasSubstr(words));
  };
  refuses("names no range", [](tessera_module_refused_sizes& s) { s.dimension = 1; });
  refuses("is not within its range", [](tessera_module_refused_sizes& s) { s.last = 5; });
  refuses("is not within its range", [](tessera_module_refused_sizes& s) { s.first = -1; });
  refuses("is not within its range", [](tessera_module_refused_sizes& s) { s.last = 0; });
  refuses("an impossible multiple", [](tessera_module_refused_sizes& s) { s.multiple = -2; });
  refuses("its reason outside", [](tessera_module_refused_sizes& s) { s.reason = "elsewhere"; });
}

/// A decoder's cache: rows of 8 elements, up to 4 before a run and 6 after it; step 0 computes new rows, step 1
/// concatenates, step 2 copies the output.
struct StateTables {
  Tables tables;
  int32_t ranges[2] = {0, -1};
  int64_t whole[2] = {6, 8};
  int64_t count = 0;
  tessera_module_tensor inputs[2]{};
  tessera_module_buffer buffers[6]{};
  tessera_module_allocation allocations[2]{};
  int32_t operands[3][2] = {{4, 1}, {0, 2}, {2, 3}};
  tessera_module_step steps[3]{};
  tessera_module_extent extent = {0, 0, 4, 0};
  int32_t identities[1] = {2};
  tessera_module_state state{};

  StateTables() {
    tables.dimension.size = -4;
    inputs[0] = {tables.text, TESSERA_F32, 2, tables.shape, 128, ranges};
    inputs[1] = {tables.text, TESSERA_I64, 0, nullptr, 8, nullptr};
    tables.output = {tables.text, TESSERA_F32, 2, whole, 192, nullptr};
    buffers[0] = {TESSERA_BUFFER_INPUT, 0, 0, 128};
    buffers[1] = {TESSERA_BUFFER_ARENA, 0, 0, 64};
    buffers[2] = {TESSERA_BUFFER_OUTPUT, 0, 0, 192};
    buffers[3] = {TESSERA_BUFFER_ARENA, 1, 64, 192};
    buffers[4] = {TESSERA_BUFFER_INPUT, 1, 0, 8};
    allocations[0] = {0, 64, 0, 1};
    allocations[1] = {64, 192, 2, 3};
    for (int i = 0; i < 3; ++i)
      steps[i] = {tables.text, tables.text, &tables.phase, 1, 2, operands[i], 10, 0, 0, 1, 0, nullptr, nullptr, 0, 0};
    state = {0, 0, 0, 0, 1, 1, identities};
    tables.variants[0] = {&tables.dimension,
                          inputs,
                          &tables.output,
                          buffers,
                          steps,
                          &extent,
                          nullptr,
                          allocations,
                          nullptr,
                          nullptr,
                          &state,
                          1,
                          5,
                          3,
                          1,
                          0,
                          2,
                          0,
                          0,
                          -1,
                          1,
                          256};
    tables.module.num_inputs = 2;
    tables.module.num_fixed_inputs = 0;
  }

  RuntimeStatus check() const {
    const auto begin = reinterpret_cast<uintptr_t>(this), code = reinterpret_cast<uintptr_t>(&kernel);
    const ImageSegment segments[] = {{begin, begin + sizeof(StateTables), false}, {code, code + 1, true}};
    return checkModule(&tables.module, segments, {"x86_64-unknown-linux-gnu", {"avx2", "fma"}}, 128);
  }
};

TEST(ModuleCheck, StatesAreOfAnInputAndAnOutputAndSkipOnlyWhatTheyCanReplace) {
  const StateTables good;
  const RuntimeStatus fine = good.check();
  EXPECT_TRUE(fine.ok()) << fine.message();
  struct Fault {
    const char* words;
    std::function<void(StateTables&)> inject;
  };
  const Fault faults[] = {
      {"refers to no such tensor", [](StateTables& t) { t.state.input = 2; }},
      {"refers to no such tensor", [](StateTables& t) { t.state.output = 1; }},
      {"different types", [](StateTables& t) { t.state.input = 1; }},
      {"grows along no dimension", [](StateTables& t) { t.state.growing_dim = 2; }},
      {"grows along no range", [](StateTables& t) { t.state.growing_dim = 1; }},
      {"tensors of different shapes", [](StateTables& t) { t.state.growing_dim = -1; }},
      {"unknown number of rows", [](StateTables& t) { t.tables.variants[0].num_extents = 0; }},
      {"skips steps without", [](StateTables& t) { t.state.rows_step = -1; }},
      {"appends in no such step", [](StateTables& t) { t.state.rows_step = 1; }},
      {"appends in no such step", [](StateTables& t) { t.state.concat_step = 3; }},
      {"appends to no output", [](StateTables& t) { t.state.concat_step = 2; }},
      {"rows of another size", [](StateTables& t) { t.buffers[1].size_bytes = 32; }},
      {"skips no such step", [](StateTables& t) { t.identities[0] = 1; }},
      {"skips no such step", [](StateTables& t) { t.identities[0] = 3; }},
      {"no copy of the output", [](StateTables& t) { t.buffers[3].size_bytes = 128; }},
      {"another step writes", [](StateTables& t) { t.buffers[1] = {TESSERA_BUFFER_ARENA, 1, 64, 64}; }},
      {"outside the code", [](StateTables& t) { t.tables.variants[0].num_states = -1; }},
  };
  for (const Fault& fault : faults) {
    StateTables tables;
    fault.inject(tables);
    const RuntimeStatus status = tables.check();
    EXPECT_EQ(status.code(), TESSERA_CORRUPT) << fault.words;
    EXPECT_THAT(status.message(), HasSubstr(fault.words));
  }
}

TEST(ModuleCheck, OtherAbiVersionIsIncompatible) {
  Tables tables;
  tables.module.abi_version = TESSERA_MODULE_ABI + 1;
  EXPECT_EQ(tables.check().code(), TESSERA_INCOMPATIBLE);
}

TEST(ModuleCheck, WeightsMustBeTheExpectedSize) {
  const Tables tables;
  EXPECT_THAT(tables.check(64).message(), HasSubstr("64 bytes of weights"));
}

struct Fault {
  const char* words;
  std::function<void(Tables&)> inject;
};

TEST(ModuleCheck, EveryFaultIsFoundAndNamed) {
  static const int64_t elsewhere[2] = {4, 8};
  static const char outside[] = "outside";
  const Fault faults[] = {
      {"another target", [](Tables& t) { t.module.triple = t.text; }},
      {"another target", [](Tables& t) { t.module.features = t.text; }},
      {"name outside", [](Tables& t) { t.module.compiler_version = outside; }},
      {"impossible amount", [](Tables& t) { t.variants[0].arena_bytes = -1; }},
      {"table outside", [](Tables& t) { t.module.num_variants = 0; }},
      {"table outside", [](Tables& t) { t.module.num_variants = -1; }},
      {"table outside", [](Tables& t) { t.module.num_variants = TESSERA_MAX_VARIANTS + 1; }},
      {"table outside", [](Tables& t) { t.module.num_variants = 64; }},
      {"table outside", [](Tables& t) { t.module.variants = nullptr; }},
      {"table outside", [](Tables& t) { t.variants[0].num_dimensions = 1 << 19; }},
      {"dimension 0 has its name outside", [](Tables& t) { t.dimension.name = outside; }},
      {"dimension 0 is a range, and no input gives its size", [](Tables& t) { t.dimension.size = -1; }},
      {"impossible amount", [](Tables& t) { t.module.scratch_bytes = INT64_MAX; }},
      {"table outside", [](Tables& t) { t.variants[0].num_steps = 1 << 19; }},
      {"table outside", [](Tables& t) { t.variants[0].num_buffers = -1; }},
      {"table outside", [](Tables& t) { t.variants[0].inputs = nullptr; }},
      {"input 0 has its name", [](Tables& t) { t.input.name = outside; }},
      {"input 0 has an unknown element type", [](Tables& t) { t.input.dtype = 77; }},
      {"input 0 has its shape outside", [](Tables& t) { t.input.shape = elsewhere; }},
      {"input 0 has its shape outside", [](Tables& t) { t.input.rank = -1; }},
      {"impossible shape", [](Tables& t) { t.shape[0] = INT64_MAX; }},
      {"impossible shape", [](Tables& t) { t.shape[1] = -8; }},
      {"output 0 has a size", [](Tables& t) { t.output.size_bytes = 64; }},
      {"buffer 0 refers to no such", [](Tables& t) { t.buffers[0].index = 1; }},
      {"buffer 3 refers to no such", [](Tables& t) { t.buffers[3].index = -1; }},
      {"buffer 0 has another size", [](Tables& t) { t.buffers[0].size_bytes = 256; }},
      {"buffer 1 reaches beyond", [](Tables& t) { t.buffers[1].offset = 128; }},
      {"buffer 2 reaches beyond", [](Tables& t) { t.buffers[2].size_bytes = 129; }},
      {"buffer 2 has an impossible", [](Tables& t) { t.buffers[2].offset = -64; }},
      {"buffer 2 has an offset", [](Tables& t) { t.buffers[2].offset = 32; }},
      {"buffer 2 has an unknown kind", [](Tables& t) { t.buffers[2].kind = 9; }},
      {"step 0 refers to no such", [](Tables& t) { t.operands[1] = 5; }},
      {"step 0 has its operands", [](Tables& t) { t.step.num_operands = 1 << 18; }},
      {"step 0 has its phases", [](Tables& t) { t.step.phases = nullptr; }},
      {"phase without work", [](Tables& t) { t.phase.grid = 0; }},
      {"phase outside the code",
       [](Tables& t) { t.phase.fn = reinterpret_cast<tessera_kernel_fn>(reinterpret_cast<uintptr_t>(t.shape)); }},
      {"negative operation count", [](Tables& t) { t.step.flops = -1; }},
      {"more results than operands", [](Tables& t) { t.step.num_results = 5; }},
      {"more results than operands", [](Tables& t) { t.step.num_results = -1; }},
      {"more memory than the module", [](Tables& t) { t.step.workspace_bytes = 65; }},
      {"more memory than the module", [](Tables& t) { t.step.scratch_bytes = -1; }},
      {"table outside", [](Tables& t) { t.module.num_fixed_inputs = -1; }},
      {"table outside", [](Tables& t) { t.variants[0].extents = nullptr; }},
      {"fixed input 0 refers to no such", [](Tables& t) { t.fixed.input = 1; }},
      {"fixed input 0 has another size", [](Tables& t) { t.fixed.size_bytes = 64; }},
      {"fixed input 0 has another size", [](Tables& t) { t.module.num_variants = 2; }},
      {"fixed input 0 has its value outside", [](Tables& t) { t.fixed.data = elsewhere; }},
      {"extent 0 refers to no such output", [](Tables& t) { t.extents[0].output = -1; }},
      {"extent 1 refers to no such dimension", [](Tables& t) { t.extents[1].dimension = 2; }},
      {"extent 0 refers to no such buffer", [](Tables& t) { t.extents[0].buffer = 5; }},
      {"extent 1 is not in a buffer of one i64", [](Tables& t) { t.extents[1].buffer = 2; }},
      {"fault 0 is in no buffer of one i64", [](Tables& t) { t.variants[0].fault_buffer = 5; }},
      {"fault 0 is in no buffer of one i64", [](Tables& t) { t.variants[0].fault_buffer = 2; }},
      {"fault 0 has its message outside the code", [](Tables& t) { t.faults[0] = nullptr; }},
      {"module 0 has a table outside the code", [](Tables& t) { t.variants[0].num_fault_messages = -1; }},
      {"extent 1 is out of order", [](Tables& t) { t.extents[1].dimension = 0; }},
  };
  for (const Fault& fault : faults) {
    Tables tables;
    fault.inject(tables);
    const RuntimeStatus status = tables.check();
    EXPECT_EQ(status.code(), TESSERA_CORRUPT) << fault.words;
    EXPECT_THAT(status.message(), HasSubstr(fault.words));
  }
}

TEST(ModuleCheck, EveryVariantIsChecked) {
  const Fault faults[] = {
      {"variant 1, module 0 has a table outside", [](Tables& t) { t.variants[1].steps = nullptr; }},
      {"variant 1, module 0 asks for", [](Tables& t) { t.variants[1].arena_bytes = INT64_MAX; }},
      {"variant 1, input 0 has an unknown", [](Tables& t) { t.input2.dtype = 0; }},
      {"variant 1, output 0 has a size", [](Tables& t) { t.output2.size_bytes = 4; }},
      {"variant 1, buffer 2 reaches beyond", [](Tables& t) { t.buffers2[2].offset = 512; }},
      // Values that fit the larger variant do not fit the smaller one.
      {"variant 0, buffer 2 reaches beyond", [](Tables& t) { t.buffers[2].offset = 256; }},
      {"variant 1, buffer 0 has another size", [](Tables& t) { t.buffers2[0].size_bytes = 128; }},
      {"variant 1, step 0 refers to no such", [](Tables& t) { t.variants[1].num_buffers = 3; }},
      {"variant 1 has another input", [](Tables& t) { t.input2.name = t.another; }},
      {"variant 1 has another output", [](Tables& t) { t.output2.dtype = TESSERA_I32; }},
      {"variant 1 has the same input shapes as another",
       [](Tables& t) {
         t.variants[1] = t.variants[0];
         t.variants[1].arena_bytes = 512;
       }},
  };
  for (const Fault& fault : faults) {
    Tables tables;
    tables.module.num_variants = 2;
    fault.inject(tables);
    const RuntimeStatus status = tables.check();
    EXPECT_EQ(status.code(), TESSERA_CORRUPT) << fault.words;
    EXPECT_THAT(status.message(), HasSubstr(fault.words));
  }
}

TEST(ModuleCheck, ThePreparationIsChecked) {
  static const int64_t elsewhere[2] = {4, 8};
  const Fault faults[] = {
      {"buffer 1 refers to no such weight", [](Tables& t) { t.module.preparation = nullptr; }},
      {"buffer 1 refers to no such weight", [](Tables& t) { t.buffers[1].index = 1; }},
      {"buffer 1 refers to no such weight", [](Tables& t) { t.buffers[1].index = -1; }},
      {"buffer 1 reaches beyond its weight", [](Tables& t) { t.buffers[1].size_bytes = 65; }},
      {"buffer 1 reaches beyond its weight", [](Tables& t) { t.buffers[1].offset = 192; }},
      {"buffer 1 has an offset", [](Tables& t) { t.buffers[1].offset = 32; }},
      {"module 0 lies outside the code",
       [](Tables& t) { t.module.preparation = reinterpret_cast<const tessera_module*>(elsewhere); }},
      {"preparation, module 0 asks for", [](Tables& t) { t.preparation.scratch_bytes = -1; }},
      {"preparation, module 0 has a table", [](Tables& t) { t.preparation.num_variants = 0; }},
      {"preparation, module 0 has a table", [](Tables& t) { t.weight_variant.steps = nullptr; }},
      {"preparation, module 0 prepares weights in order to", [](Tables& t) { t.preparation.preparation = &t.module; }},
      {"preparation, output 0 has a size", [](Tables& t) { t.weight.size_bytes = 64; }},
      {"preparation, buffer 0 reaches beyond", [](Tables& t) { t.weight_buffers[0].size_bytes = 129; }},
      {"preparation, buffer 0 refers to no such weight",
       [](Tables& t) { t.weight_buffers[0].kind = TESSERA_BUFFER_PREPARED; }},
      {"preparation, step 0 refers to no such", [](Tables& t) { t.weight_operands[1] = 2; }},
      {"prepares weights that depend on a run",
       [](Tables& t) {
         t.preparation.num_inputs = 1;
         t.weight_variant.inputs = &t.input;
       }},
      {"prepares weights that depend on a run",
       [](Tables& t) {
         t.weight_variant.fault_messages = t.faults;
         t.weight_variant.num_fault_messages = 1;
         t.weight_variant.fault_buffer = 0;
         t.weight_buffers[0].size_bytes = 8;
       }},
      {"prepares weights that depend on a run",
       [](Tables& t) {
         t.weight_variant.dimensions = &t.dimension;
         t.weight_variant.num_dimensions = 1;
       }},
  };
  for (const Fault& fault : faults) {
    Tables tables;
    tables.prepare();
    fault.inject(tables);
    const RuntimeStatus status = tables.check();
    EXPECT_EQ(status.code(), TESSERA_CORRUPT) << fault.words;
    EXPECT_THAT(status.message(), HasSubstr(fault.words));
  }
}

/// Reads everything that a runtime reads of tables that passed the check, under the sanitizers.
int64_t readAll(const tessera_module& module) {
  int64_t sum = 0;
  const auto read = [&](const tessera_module_tensor& t) {
    sum += static_cast<int64_t>(std::strlen(t.name)) + t.size_bytes;
    for (int32_t d = 0; d < t.rank; ++d) sum += t.shape[d];
  };
  for (int32_t v = 0; v < module.num_variants; ++v) {
    const tessera_module_variant& variant = module.variants[v];
    for (int32_t i = 0; i < variant.num_dimensions; ++i) sum += variant.dimensions[i].name[0];
    for (int32_t i = 0; i < module.num_inputs; ++i) read(variant.inputs[i]);
    for (int32_t i = 0; i < module.num_outputs; ++i) read(variant.outputs[i]);
    for (int32_t s = 0; s < variant.num_steps; ++s) {
      const tessera_module_step& step = variant.steps[s];
      for (int32_t o = 0; o < step.num_operands; ++o) {
        const tessera_module_buffer& buffer = variant.buffers[step.operands[o]];
        if (buffer.kind == TESSERA_BUFFER_INPUT) sum += variant.inputs[buffer.index].size_bytes;
        if (buffer.kind == TESSERA_BUFFER_OUTPUT) sum += variant.outputs[buffer.index].size_bytes;
        if (buffer.kind == TESSERA_BUFFER_ARENA) EXPECT_LE(buffer.offset + buffer.size_bytes, variant.arena_bytes);
        if (buffer.kind == TESSERA_BUFFER_PREPARED) {
          const int64_t limit = module.preparation->variants->outputs[buffer.index].size_bytes;
          EXPECT_LE(buffer.offset + buffer.size_bytes, limit);
        }
        if (buffer.kind == TESSERA_BUFFER_WEIGHT) EXPECT_LE(buffer.offset + buffer.size_bytes, module.weights_bytes);
      }
      for (int32_t p = 0; p < step.num_phases; ++p) EXPECT_EQ(step.phases[p].fn, &kernel);
    }
  }
  if (module.preparation) sum += readAll(*module.preparation);
  return sum;
}

TEST(ModuleCheck, RandomDamageIsRefusedOrHarmless) {
  std::mt19937_64 random(11);
  int refused = 0, accepted = 0;
  for (int i = 0; i < 60'000; ++i) {
    Tables tables;
    tables.module.num_variants = 1 + static_cast<int32_t>(random() % 2);
    if (random() % 2) tables.prepare();
    const int words = 1 + static_cast<int>(random() % 3);
    for (int w = 0; w < words; ++w) {
      // Replaces a word, or half of one, by a small number, a random one, or a pointer into the tables or just past
      // them.
      const size_t size = random() % 2 ? 8 : 4;
      const size_t at = random() % (sizeof(Tables) / size) * size;
      const uint64_t kinds[] = {random() % 5, random(),
                                reinterpret_cast<uintptr_t>(&tables) + random() % (sizeof(Tables) + 64),
                                static_cast<uint64_t>(-1) - random() % 3};
      const uint64_t value = kinds[random() % 4];
      std::memcpy(reinterpret_cast<char*>(&tables) + at, &value, size);
    }
    if (tables.check().ok()) {
      ++accepted;
      readAll(tables.module);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_GT(accepted, 1'000);  // otherwise no accepted tables were read
}

}  // namespace
}  // namespace tessera::compiler
