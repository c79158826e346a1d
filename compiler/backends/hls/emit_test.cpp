// Emitted designs, compiled as plain C++ and compared with the nests run element by element.
#include "compiler/backends/hls/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/backends/hls/testing/compiled_program.h"
#include "compiler/backends/hls/testing/operators.h"
#include "compiler/backends/spatial/nest_execution.h"
#include "compiler/target/element_text.h"
#include "compiler/target/target.h"
#include "proto/messages/element_size.h"

namespace tessera::compiler::hls {
namespace {

using testing::CompiledPrograms;

using Buffers = std::vector<std::string>;

/// Random contents: numbers of few digits, so that f32 sums stay close in every order.
Buffers randomBuffers(const Program& program, std::mt19937& random) {
  Buffers buffers;
  const int arguments = program.kernel.operands() - program.kernel.results();
  for (size_t b = 0; b < program.checked.elements.size(); ++b) {
    const v1::DataType type = program.checked.types[b];
    std::string bytes(static_cast<size_t>(program.checked.bytesOf(static_cast<int>(b))), '\x7f');
    if (static_cast<int>(b) < arguments) {
      for (int64_t i = 0; i < program.checked.elements[b]; ++i) {
        char* at = bytes.data() + i * elementBytes(type);
        if (type == v1::DATA_TYPE_F32) {
          const float value = static_cast<float>(static_cast<int>(random() % 129) - 64) / 64;
          std::memcpy(at, &value, sizeof value);
        } else {
          for (int64_t byte = 0; byte < elementBytes(type); ++byte) at[byte] = static_cast<char>(random());
        }
      }
    }
    buffers.push_back(std::move(bytes));
  }
  return buffers;
}

std::vector<void*> pointersTo(Buffers& buffers) {
  std::vector<void*> pointers;
  for (std::string& each : buffers) pointers.push_back(each.data());
  return pointers;
}

void runNests(const Program& program, Buffers& buffers) {
  std::vector<uint8_t*> pointers;
  for (std::string& each : buffers) pointers.push_back(reinterpret_cast<uint8_t*>(each.data()));
  for (const simulator::SpatialNest& nest : program.checked.nests)
    ASSERT_TRUE(simulator::runNest(program.checked, nest, pointers).ok());
}

/// Compares the results: equal bytes for integers; for f32 the error of sums in another order.
void expectSame(const Program& program, const Buffers& found, const Buffers& expected) {
  for (int b = program.kernel.operands() - program.kernel.results(); b < program.kernel.operands(); ++b) {
    const auto at = static_cast<size_t>(b);
    if (program.checked.types[at] != v1::DATA_TYPE_F32) {
      EXPECT_EQ(found[at], expected[at]) << program.name << ", buffer " << b;
      continue;
    }
    for (int64_t i = 0; i < program.checked.elements[at]; ++i) {
      float one = 0, other = 0;
      std::memcpy(&one, found[at].data() + 4 * i, 4);
      std::memcpy(&other, expected[at].data() + 4 * i, 4);
      ASSERT_LE(std::fabs(one - other), 2e-5F * (1 + std::fabs(other)))
          << program.name << ", buffer " << b << ", element " << i << ": " << one << " instead of " << other;
    }
  }
}

/// Random tiles and unroll factors of a form.
Tiling randomTiling(const Form& form, std::mt19937& random) {
  Tiling tiling{.tile = form.nest->extents(), .unroll = std::vector<int64_t>(form.loops(), 1)};
  if (!form.direct.empty()) return tiling;
  for (size_t loop = 0; loop < form.loops(); ++loop) {
    if (form.whole[loop]) continue;
    tiling.tile[loop] = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(form.extent(loop)));
    if (form.reduction[loop] && !form.combines()) continue;
    if (random() % 2 == 0)
      tiling.unroll[loop] =
          1 + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min<int64_t>(4, tiling.tile[loop])));
  }
  return tiling;
}

TEST(EmittedDesigns, ComputeWhatTheNestsCompute) {
  const Device device = Device::of(*findBuiltinTarget("vu9p")).value();
  std::mt19937 random(7);
  std::vector<Program> programs;
  std::vector<std::vector<SourceFile>> sources;
  for (const testing::Case& each : testing::cases(random)) {
    const absl::StatusOr<v1::SpatialKernel> kernel = testing::kernelOfCase(each);
    ASSERT_TRUE(kernel.ok()) << each.name << ": " << kernel.status();
    auto program = designKernel(*kernel, each.name, device);
    ASSERT_TRUE(program.ok()) << each.name << ": " << program.status();
    EXPECT_EQ(program->resources.exceeding(device.limits()), "") << each.name;
    // Other tiles than the best ones: edges, reductions in several steps, factors that do not divide.
    for (size_t d = 0; d < program->designs.size(); ++d) {
      auto design = designOf(program->forms[d], randomTiling(program->forms[d], random), device, device.limits());
      ASSERT_TRUE(design.ok()) << each.name << ": " << design.status();
      program->designs[d] = *std::move(design);
    }
    auto files = sourcesOf(*program, device);
    ASSERT_TRUE(files.ok()) << each.name << ": " << files.status();
    sources.push_back(*std::move(files));
    programs.push_back(*std::move(program));
  }
  const auto compiled = CompiledPrograms::compile(sources);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const Program& program : programs) {
    const Buffers start = randomBuffers(program, random);
    Buffers design = start, plain = start, expected = start;
    runNests(program, expected);
    const auto run = (*compiled)->find(program.name + "_run"), loops = (*compiled)->find(program.name + "_reference");
    ASSERT_TRUE(run && loops) << program.name;
    run(pointersTo(design).data());
    expectSame(program, design, expected);
    loops(pointersTo(plain).data());
    expectSame(program, plain, expected);
    EXPECT_NE(expected, start) << program.name << " computes nothing";
  }
}

/// The comparison above must find a fault: here sums start from one.
TEST(EmittedDesigns, AWrongDesignIsFound) {
  const Device device = Device::of(*findBuiltinTarget("vu9p")).value();
  const v1::SpatialKernel kernel =
      testing::kernelOfCase({"wrong", "O[i, j] += A[i, k] * B[k, j]", {7, 5, 11}, v1::DATA_TYPE_I8}).value();
  auto program = designKernel(kernel, "wrong", device);
  ASSERT_TRUE(program.ok()) << program.status();
  auto files = sourcesOf(*program, device);
  ASSERT_TRUE(files.ok());
  std::string& text = (*files)[1].text;
  const size_t start_of_sums = text.find(" ? 0 : ");
  ASSERT_NE(start_of_sums, std::string::npos);
  text.replace(start_of_sums, 7, " ? 1 : ");
  const auto compiled = CompiledPrograms::compile({*files});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  std::mt19937 random(3);
  const Buffers start = randomBuffers(*program, random);
  Buffers design = start, expected = start;
  runNests(*program, expected);
  (*compiled)->find("wrong_run")(pointersTo(design).data());
  EXPECT_NE(design[2], expected[2]);
}

}  // namespace
}  // namespace tessera::compiler::hls
