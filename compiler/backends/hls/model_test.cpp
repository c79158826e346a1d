// The cost model against the simulated processes, and resources against the emitted sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "compiler/backends/hls/emit.h"
#include "compiler/backends/hls/stages.h"
#include "compiler/backends/hls/testing/operators.h"
#include "compiler/backends/hls/tree.h"
#include "compiler/schedule/text.h"
#include "compiler/target/target.h"

namespace tessera::compiler::hls {
namespace {

using ::testing::HasSubstr;

Device deviceNamed(const char* name) { return Device::of(*findBuiltinTarget(name)).value(); }

Program programOf(const testing::Case& each, const Device& device) {
  auto program = designKernel(testing::kernelOfCase(each).value(), each.name, device);
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

/// Layers of networks: large enough that the pipeline's ends do not dominate.
std::vector<testing::Case> layers() {
  return {{"first", "O[n, k, p, q] += I[n, c, 2 * p + r, 2 * q + s] * W[k, c, r, s]", {1, 64, 112, 112, 3, 7, 7}},
          {"middle", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {1, 256, 28, 28, 256, 3, 3}},
          {"odd", "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]", {1, 97, 29, 31, 53, 3, 3}},
          {"bytes",
           "O[n, k, p, q] += I[n, c, p + r, q + s] * W[k, c, r, s]",
           {1, 128, 28, 28, 128, 3, 3},
           v1::DATA_TYPE_I8},
          {"depthwise", "O[n, c, p, q] += I[n, c, p + r, q + s] * W[c, r, s]", {1, 128, 56, 56, 3, 3}},
          {"product", "O[i, j] += A[i, k] * B[k, j]", {512, 512, 512}},
          {"vector", "O[i] += A[i, k] * B[k]", {1000, 2048}},
          {"sum", "O[i, j] = A[i, j] + B[i, j]", {1000, 1000}}};
}

TEST(Model, PredictsTheSimulatedProcessesWithinFivePercent) {
  // One chip a layer, so that the test stays short; all layers of all chips are within the bound as well.
  int turn = 0;
  static constexpr const char* kChips[] = {"vu9p", "zcu104", "u280"};
  for (const char* chip : kChips) {
    const Device device = deviceNamed(chip);
    for (const testing::Case& each : layers()) {
      if (++turn % 2 == 0) continue;
      const Program program = programOf(each, device);
      EXPECT_EQ(program.resources.exceeding(device.limits()), "") << each.name << " on " << chip;
      for (const Design& design : program.designs) {
        const auto simulated = simulateStages(design, device);
        ASSERT_TRUE(simulated.ok()) << simulated.status();
        EXPECT_NEAR(design.cycles / simulated->cycles, 1, 0.05)
            << each.name << " on " << chip << ": " << design.cycles << " predicted, " << simulated->cycles
            << " simulated in " << simulated->steps << " steps\n"
            << printTileLine(treeOf(design, device, 0));
        EXPECT_NEAR(movedBytes(design, device) / simulated->bytes, 1, 1e-12) << each.name;
        // A process runs one step at a time.
        EXPECT_GE(simulated->cycles, std::max({simulated->reading, simulated->computing, simulated->writing}));
      }
    }
  }
}

/// The product of the factors in all matches of a pattern.
int64_t productOf(const std::string& text, const std::string& pattern) {
  int64_t product = 1;
  const std::regex regex(pattern);
  for (auto match = std::sregex_iterator(text.begin(), text.end(), regex); match != std::sregex_iterator(); ++match)
    product *= std::stoll((*match)[1]);
  return product;
}

/// Counts block RAMs, ultra RAMs and processing elements in the text of one engine, from its declarations and pragmas.
struct Counted {
  int64_t bram = 0, uram = 0, elements = 1;
};
Counted count(const std::string& text) {
  Counted counted;
  static const std::regex declaration(R"((TESSERA_TILE|static) (float|int8_t|int32_t) (\w+)((?:\[\d+\])+);)");
  for (auto match = std::sregex_iterator(text.begin(), text.end(), declaration); match != std::sregex_iterator();
       ++match) {
    const std::string name = (*match)[3], type = (*match)[2];
    std::vector<int64_t> shape;
    std::stringstream dimensions((*match)[4]);
    char bracket = 0;
    for (int64_t extent = 0; dimensions >> bracket >> extent >> bracket;) shape.push_back(extent);
    // Pragmas follow the declaration.
    std::string pragmas = text.substr(static_cast<size_t>(match->position() + match->length()));
    int64_t memories = (*match)[1] == "TESSERA_TILE" ? 2 : 1, depth = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::smatch found;
      int64_t factor = 1;
      const std::string of = absl::StrCat("array_partition variable=", name, " type=");
      if (std::regex_search(pragmas, found, std::regex(absl::StrCat(of, "cyclic factor=(\\d+) dim=", d + 1, "\n"))))
        factor = std::stoll(found[1]);
      else if (std::regex_search(pragmas, std::regex(absl::StrCat(of, "complete dim=", d + 1, "\n"))))
        factor = shape[d];
      memories *= factor;
      depth *= (shape[d] + factor - 1) / factor;
    }
    std::smatch storage;
    if (!std::regex_search(pragmas, storage,
                           std::regex(absl::StrCat("bind_storage variable=", name, " type=ram_t2p impl=(\\w+)\n"))))
      continue;
    const int64_t bits = type == "int8_t" ? 8 : 32;
    if (storage[1] == "bram") counted.bram += memories * (bits == 8 ? (depth + 2047) / 2048 : (depth + 511) / 512);
    if (storage[1] == "uram") counted.uram += memories * ((depth + 4095) / 4096);
  }
  counted.elements = productOf(text, R"(for \(int \w+_u = 0; \w+_u < (\d+);)");
  return counted;
}

TEST(Model, ResourcesAreThoseOfTheEmittedSources) {
  const Device device = deviceNamed("vu9p");
  for (const testing::Case& each : layers()) {
    const Program program = programOf(each, device);
    ASSERT_EQ(program.designs.size(), 1U) << each.name;
    const Design& design = program.designs[0];
    const auto files = sourcesOf(program, device);
    ASSERT_TRUE(files.ok()) << files.status();
    const Counted counted = count((*files)[1].text);
    const auto ports = static_cast<int64_t>(design.buffers.size());
    EXPECT_EQ(counted.bram + ports * device.port().bram, design.resources.bram) << each.name;
    EXPECT_EQ(counted.uram, design.resources.uram) << each.name;
    EXPECT_EQ(counted.elements, design.processingElements()) << each.name;
    // f32: a multiplier of 3 DSPs and an adder of 2; bytes: one fused operator.
    const int64_t dsp = each.name == "sum" ? 2 : each.type == v1::DATA_TYPE_I8 ? 1 : 5;
    EXPECT_EQ(counted.elements * dsp, design.resources.dsp) << each.name;
    EXPECT_LE(design.resources.dsp, device.limits().dsp) << each.name;
  }
}

TEST(Model, WhatDoesNotFitIsRefusedWithTheResource) {
  const Device device = deviceNamed("zcu104");
  const Program program = programOf(layers()[1], device);
  const Form& form = program.forms[0];
  Tiling tiling = program.designs[0].tiling;
  tiling.tile = form.nest->extents();
  tiling.unroll = {1, 64, 1, 1, 32, 1, 1};
  EXPECT_THAT(std::string(designOf(form, tiling, device, device.limits()).status().message()),
              HasSubstr("needs more DSP than zcu104 has left: DSP 10240"));
  tiling.unroll = {1, 16, 1, 1, 16, 1, 1};
  EXPECT_THAT(std::string(designOf(form, tiling, device, device.limits()).status().message()),
              HasSubstr("needs more BRAM"));
  tiling.unroll[0] = 2;
  EXPECT_THAT(std::string(designOf(form, tiling, device, device.limits()).status().message()),
              HasSubstr("loop n: unrolled by 2 in a tile of 1"));
}

TEST(Trees, StateTheDesignAndAreReadBack) {
  const Device device = deviceNamed("vu9p");
  const Program program = programOf(layers()[2], device);
  const Design& design = program.designs[0];
  const v1::Schedule schedule = scheduleOf(program, device);
  const auto parsed = parseSchedule(printSchedule(schedule));
  ASSERT_TRUE(parsed.ok()) << parsed.status() << printSchedule(schedule);
  EXPECT_EQ(printSchedule(*parsed), printSchedule(schedule));
  const auto tiling = tilingOf(parsed->phases(0), program.forms[0], device, 0, device.limits());
  ASSERT_TRUE(tiling.ok()) << tiling.status();
  EXPECT_EQ(*tiling, design.tiling);
  // Every field of the tree matters.
  for (const auto& change : std::vector<std::function<void(v1::Tile&)>>{
           [](v1::Tile& tile) { tile.set_join(v1::Tile::SEQ); }, [](v1::Tile& tile) { tile.set_level("on-chip"); },
           [](v1::Tile& tile) { tile.mutable_stages(0)->set_strides(0, 3); },
           [](v1::Tile& tile) { tile.mutable_stages(0)->set_distance(3); },
           [](v1::Tile& tile) { tile.mutable_stages(1)->set_ahead(0); },
           [](v1::Tile& tile) { tile.mutable_stages(1)->set_order(0, "registers"); },
           [](v1::Tile& tile) { tile.mutable_children(0)->mutable_kernel()->set_nest(1); },
           [](v1::Tile& tile) { tile.mutable_children(0)->mutable_loops()->RemoveLast(); }}) {
    v1::Tile changed = schedule.phases(0);
    change(changed);
    EXPECT_FALSE(tilingOf(changed, program.forms[0], device, 0, device.limits()).ok()) << printTileLine(changed);
  }
}

TEST(Search, BeatsOneTilingForAllAndTriesDesignsThatDoNotFit) {
  const Device device = deviceNamed("zcu104");
  const Program program = programOf(layers()[1], device);
  EXPECT_GT(program.count.fitting, 100U);
  Tiling plain{.tile = {1, 16, 28, 28, 16, 3, 3}, .unroll = {1, 16, 1, 1, 16, 1, 1}};
  const auto fixed = designOf(program.forms[0], plain, device, device.limits());
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_LT(program.cycles, fixed->cycles);
}

}  // namespace
}  // namespace tessera::compiler::hls
