#include "compiler/backends/cpu/codegen.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/target_machine.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/product_tree.h"
#include "compiler/schedule/text.h"
#include "compiler/target/target.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Target/TargetMachine.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr char kConvReluPad[] = R"(
#in = affine_map<(n, k, h, w, ki, c, kh, kw, ci) -> (n, c, h + kh, w + kw, ci)>
#filter = affine_map<(n, k, h, w, ki, c, kh, kw, ci) -> (k, c, kh, kw, ci, ki)>
#out = affine_map<(n, k, h, w, ki, c, kh, kw, ci) -> (n, k, h, w, ki)>
#id = affine_map<(n, k, h, w, ki) -> (n, k, h, w, ki)>
#bias = affine_map<(n, k, h, w, ki) -> (k, ki)>
func.func @conv(%in: tensor<1x2x9x9x16xf32>, %filter: tensor<3x2x3x3x16x16xf32>, %bias: tensor<3x16xf32>)
    -> tensor<1x3x9x9x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3x7x7x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x7x7x16xf32>) -> tensor<1x3x7x7x16xf32>
  %c = linalg.generic {indexing_maps = [#in, #filter, #out],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "reduction"]}
      ins(%in, %filter : tensor<1x2x9x9x16xf32>, tensor<3x2x3x3x16x16xf32>) outs(%f : tensor<1x3x7x7x16xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %acc, %m : f32
      linalg.yield %s : f32
  } -> tensor<1x3x7x7x16xf32>
  %e2 = tensor.empty() : tensor<1x3x7x7x16xf32>
  %r = linalg.generic {indexing_maps = [#id, #bias, #id],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%c, %bias : tensor<1x3x7x7x16xf32>, tensor<3x16xf32>) outs(%e2 : tensor<1x3x7x7x16xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.addf %a, %b : f32
      %m = arith.maximumf %s, %zero : f32
      linalg.yield %m : f32
  } -> tensor<1x3x7x7x16xf32>
  %p = tensor.pad %r low[0, 0, 1, 1, 0] high[0, 0, 1, 1, 0] {
    ^bb0(%i0: index, %i1: index, %i2: index, %i3: index, %i4: index):
      tensor.yield %zero : f32
  } : tensor<1x3x7x7x16xf32> to tensor<1x3x9x9x16xf32>
  return %p : tensor<1x3x9x9x16xf32>
}
)";

TEST(Codegen, ConvolutionWithBiasReluAndHaloIsOnePhaseWithoutTemporaries) {
  const v1::KernelInfo info = checkWorkload(kConvReluPad);
  EXPECT_EQ(info.phases_size(), 1);
  EXPECT_EQ(info.workspace_bytes(), 0);
  EXPECT_EQ(info.strategy(), "contraction");
}

/// A phase cannot pass a value read outside of all loops to another phase, so everything runs in one phase.
TEST(Codegen, ScalarsReadOutsideOfLoopsKeepTheWorkloadTogether) {
  const v1::KernelInfo info = checkWorkload(R"(
#id = affine_map<(i) -> (i)>
func.func @scaled(%x: tensor<37xf32>, %factors: tensor<2xf32>) -> (tensor<37xf32>, tensor<37xf32>) {
  %c1 = arith.constant 1 : index
  %read = tensor.extract %factors[%c1] : tensor<2xf32>
  %factor = arith.addf %read, %read : f32
  %e = tensor.empty() : tensor<37xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<37xf32>) outs(%e : tensor<37xf32>) {
    ^bb0(%a: f32, %o: f32):
      %m = arith.mulf %a, %factor : f32
      linalg.yield %m : f32
  } -> tensor<37xf32>
  %e2 = tensor.empty() : tensor<37xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%y : tensor<37xf32>) outs(%e2 : tensor<37xf32>) {
    ^bb0(%a: f32, %o: f32):
      %s = arith.addf %a, %factor : f32
      linalg.yield %s : f32
  } -> tensor<37xf32>
  return %y, %z : tensor<37xf32>, tensor<37xf32>
}
)");
  EXPECT_EQ(info.phases_size(), 1);
  EXPECT_EQ(info.strategy(), "scalar-loops");
}

TEST(Codegen, SoftmaxOverRows) {
  checkWorkload(R"(
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @softmax(%x: tensor<5x37xf32>) -> tensor<5x37xf32> {
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %r = tensor.empty() : tensor<5xf32>
  %e = tensor.empty() : tensor<5x37xf32>
  %m0 = linalg.fill ins(%lowest : f32) outs(%r : tensor<5xf32>) -> tensor<5xf32>
  %m = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<5x37xf32>) outs(%m0 : tensor<5xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %v = arith.maximumf %acc, %a : f32
      linalg.yield %v : f32
  } -> tensor<5xf32>
  %p = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %m : tensor<5x37xf32>, tensor<5xf32>) outs(%e : tensor<5x37xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      %v = math.exp %d : f32
      linalg.yield %v : f32
  } -> tensor<5x37xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%r : tensor<5xf32>) -> tensor<5xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<5x37xf32>) outs(%s0 : tensor<5xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %v = arith.addf %a, %acc : f32
      linalg.yield %v : f32
  } -> tensor<5xf32>
  %q = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %s : tensor<5x37xf32>, tensor<5xf32>) outs(%e : tensor<5x37xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %v = arith.divf %a, %b : f32
      linalg.yield %v : f32
  } -> tensor<5x37xf32>
  return %q : tensor<5x37xf32>
})");
}

/// Products of three groups (group, pixel, channel) whose results are permuted; `map` gives the source index.
std::string shuffled(const std::string& map, const std::string& shape) {
  return absl::StrCat(R"(
#in = affine_map<(i, j, k) -> )",
                      map, R"(>
#out = affine_map<(i, j, k) -> (i, j, k)>
func.func @shuffle(%a: tensor<3x29x37xf32>, %b: tensor<3x37x20xf32>) -> tensor<)",
                      shape, R"(xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x29x20xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x29x20xf32>) -> tensor<3x29x20xf32>
  %c = linalg.batch_matmul ins(%a, %b : tensor<3x29x37xf32>, tensor<3x37x20xf32>) outs(%f : tensor<3x29x20xf32>) -> tensor<3x29x20xf32>
  %t = tensor.empty() : tensor<)",
                      shape, R"(xf32>
  %r = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%c : tensor<3x29x20xf32>) outs(%t : tensor<)",
                      shape, R"(xf32>) {
    ^bb0(%x: f32, %o: f32):
      %m = arith.maximumf %x, %zero : f32
      linalg.yield %m : f32
  } -> tensor<)",
                      shape, R"(xf32>
  return %r : tensor<)",
                      shape, R"(xf32>
})");
}

TEST(Codegen, ResultsThatWouldBeStoredOneByOneAreTurnedByAPassOfTheirOwn) {
  const auto operations = [](const std::string& ir) {
    v1::BuildUnit unit = hostUnit(ir);
    auto schedule = defaultSchedule(unit);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    return schedule.ok() ? printSchedule(*schedule) : "";
  };
  const std::string groups_inside = shuffled("(k, i, j)", "29x20x3"), groups_between = shuffled("(j, i, k)", "29x3x20");
  EXPECT_NE(operations(groups_inside).find("nest 1"), std::string::npos) << "three groups are next to each other";
  EXPECT_EQ(operations(groups_between).find("nest 1"), std::string::npos) << "twenty channels stay so";
  checkWorkload(groups_inside);
  checkWorkload(groups_between);
}

TEST(Codegen, MatmulOfOddSizes) {
  checkWorkload(R"(
func.func @mm(%a: tensor<13x29xf32>, %b: tensor<29x45xf32>) -> tensor<13x45xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<13x45xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<13x45xf32>) -> tensor<13x45xf32>
  %c = linalg.matmul ins(%a, %b : tensor<13x29xf32>, tensor<29x45xf32>) outs(%f : tensor<13x45xf32>) -> tensor<13x45xf32>
  return %c : tensor<13x45xf32>
})");
}

TEST(Codegen, OtherMachinesAreCompiledByDataAlone) {
  struct Machine {
    const char *triple, *cpu;
    int bits, registers;
  };
  for (const Machine& machine : {Machine{"x86_64-unknown-linux-gnu", "haswell", 256, 16},
                                 Machine{"x86_64-unknown-linux-gnu", "cascadelake", 512, 32},
                                 Machine{"x86_64-unknown-linux-gnu", "x86-64-v3", 256, 16},
                                 Machine{"aarch64-unknown-linux-gnu", "neoverse-n1", 128, 32}}) {
    v1::BuildUnit unit = hostUnit(kConvReluPad);
    unit.mutable_code()->set_triple(machine.triple);
    unit.mutable_code()->set_cpu(machine.cpu);
    unit.clear_intrinsics();  // this host's, which the machine may lack
    unit.mutable_registers()->set_vector_bits(machine.bits);
    unit.mutable_registers()->set_vector_count(machine.registers);
    auto schedule = defaultSchedule(unit);
    ASSERT_TRUE(schedule.ok()) << schedule.status().message();
    const auto [rows, vectors] = registerTile(productLeaf(*schedule));
    EXPECT_LE(rows * vectors + vectors + 1, machine.registers) << machine.cpu;
    EXPECT_GE(rows * vectors, machine.registers / 2) << machine.cpu;
    *unit.mutable_schedule() = *schedule;
    EXPECT_TRUE(buildObject(unit).ok()) << machine.cpu;
  }
}

TEST(Codegen, AnElementwiseStepMayWriteOverItsOperand) {
  auto built = buildByDefault(hostUnit(R"(
func.func @square(%x: tensor<7x53xf32>, %y: tensor<53xf32>) -> tensor<7x53xf32> {
  %e = tensor.empty() : tensor<7x53xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<7x53xf32>, tensor<53xf32>) outs(%e : tensor<7x53xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %s = arith.mulf %a, %a : f32
      %t = arith.subf %s, %b : f32
      linalg.yield %t : f32
  } -> tensor<7x53xf32>
  return %r : tensor<7x53xf32>
})"));
  ASSERT_TRUE(built.ok()) << built.status().message();
  auto loaded = LoadedUnit::load(*built);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<float> x(7 * 53), y(53, 1.0F);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  (*loaded)->run({x.data(), y.data(), x.data()}, 3);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], static_cast<float>(i * i) - 1) << i;
}

TEST(Codegen, UndecidedUnitsAreRefused) {
  auto built = buildObject(hostUnit(kConvReluPad));
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(failureOf(built.status()).reason(), v1::Failure::INVALID_SCHEDULE);
}

TEST(Codegen, UnknownTargetsAreNamed) {
  v1::BuildUnit unit = hostUnit(kConvReluPad);
  unit.mutable_code()->set_cpu("z80");
  auto built = buildByDefault(unit);
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(failureOf(built.status()).reason(), v1::Failure::INVALID_TARGET);
  EXPECT_EQ(failureOf(built.status()).found(), "z80");
}

TEST(Codegen, BrokenWorkloadsAreErrors) {
  for (const char* ir : {"", "module {}", "func.func @f(", "func.func private @f()",
                         "func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"}) {
    auto built = buildByDefault(hostUnit(ir));
    ASSERT_FALSE(built.ok()) << ir;
    EXPECT_FALSE(built.status().message().empty());
  }
}

TEST(Codegen, EqualUnitsGiveEqualBytes) {
  const v1::BuildUnit unit = hostUnit(kConvReluPad);
  auto first = buildByDefault(unit), second = buildByDefault(unit);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->SerializeAsString(), second->SerializeAsString());
}

/// Contexts and target machines are reused; earlier compilations must not affect the result.
TEST(Codegen, WhatWasCompiledBeforeShowsNowhere) {
  constexpr char kExp[] = R"(
func.func @exponential(%x: tensor<5xf32>) -> tensor<5xf32> {
  %e = tensor.empty() : tensor<5xf32>
  %y = linalg.exp ins(%x : tensor<5xf32>) outs(%e : tensor<5xf32>) -> tensor<5xf32>
  return %y : tensor<5xf32>
}
)";
  std::vector<v1::BuildUnit> units = {hostUnit(kExp), hostUnit(kExp), hostUnit(kConvReluPad)};
  units[1].mutable_code()->set_cpu("x86-64-v2");
  units[1].mutable_code()->clear_features();
  units[1].clear_intrinsics();
  if (units[1].code().triple().find("x86_64") == std::string::npos) units[1].mutable_code()->set_cpu("cortex-a53");
  std::vector<std::string> alone;
  for (const v1::BuildUnit& unit : units) {
    auto built = buildByDefault(unit);
    ASSERT_TRUE(built.ok()) << built.status();
    alone.push_back(built->SerializeAsString());
  }
  EXPECT_NE(alone[0], alone[1]);
  ASSERT_FALSE(buildByDefault(hostUnit("func.func @f(")).ok());
  std::vector<std::vector<std::string>> again(2);
  {
    std::vector<std::jthread> threads;
    for (auto& each : again) {
      threads.emplace_back([&] {
        for (size_t i = 0; i < 140; ++i) {  // enough to replace a context twice in each of the two passes
          auto built = buildByDefault(units[i % 64 == 0 ? 2 : i % 2]);
          each.push_back(built.ok() ? built->SerializeAsString() : std::string(built.status().message()));
        }
      });
    }
  }
  for (const auto& each : again) {
    for (size_t i = 0; i < each.size(); ++i) EXPECT_EQ(each[i], alone[i % 64 == 0 ? 2 : i % 2]) << i;
  }
}

// A target lists the features that a host must have. The features that LLVM derives from the target's cpu beyond these
// must not affect plain code: LLVM emits shuffles of SSE4a, which Zen has and no Intel chip.
TEST(Builtins, ListTheFeaturesThatTheirCpuMakesCodeUse) {
  for (const v1::Target& target : builtinTargets()) {
    if (target.family() != v1::Target::X86_64) continue;
    const auto machine = targetMachineOf(target.code());
    ASSERT_TRUE(machine.ok()) << machine.status();
    const std::set<std::string> listed(target.code().features().begin(), target.code().features().end());
    for (const char* feature :
         {"sse3",       "ssse3",      "sse4.1",      "sse4.2",       "sse4a",          "xop",        "fma4",
          "tbm",        "avx",        "avx2",        "avxvnni",      "avxvnniint8",    "f16c",       "fma",
          "bmi",        "bmi2",       "lzcnt",       "popcnt",       "movbe",          "gfni",       "avx512f",
          "avx512bw",   "avx512cd",   "avx512dq",    "avx512vl",     "avx512vnni",     "avx512bf16", "avx512fp16",
          "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq"})
      if ((*machine)->getMCSubtargetInfo()->checkFeatures(absl::StrCat("+", feature)))
        EXPECT_TRUE(listed.contains(feature)) << target.name() << " " << feature;
  }
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
