// Workloads lowered to loop nests for a described chip, scheduled, and run by the simulator beside the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "compiler/backends/backend.h"
#include "compiler/backends/spatial_kernel.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"
#include "tessera/v1/spatial.pb.h"

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::BuildUnit unitOf(const std::string& ir) {
  const v1::Target& target = *findBuiltinTarget("ascend-910-like");
  v1::BuildUnit unit;
  unit.set_workload_hash("hash");
  unit.set_symbol("k");
  unit.set_ir(ir);
  unit.set_family(target.family());
  *unit.mutable_memory() = target.memory();
  *unit.mutable_units() = target.units();
  *unit.mutable_intrinsics() = spatialBackend().instructions(target);
  return unit;
}

v1::SpatialKernel kernelOf(const std::string& ir) {
  absl::StatusOr<v1::SpatialKernel> kernel = spatial::kernelOf(unitOf(ir));
  EXPECT_EQ(kernel.status(), absl::OkStatus());
  return kernel.ok() ? *kernel : v1::SpatialKernel();
}

std::vector<std::string> namesOf(const v1::SpatialKernel& kernel) {
  std::vector<std::string> names;
  for (const v1::SpatialKernel::Nest& nest : kernel.nests()) names.push_back(nest.name());
  return names;
}

/// Proposes a schedule, builds and compares with the interpreter, with instructions and without.
void expectRight(const std::string& ir) {
  for (const bool scalar : {false, true}) {
    v1::BuildUnit unit = unitOf(ir);
    absl::StatusOr<v1::Schedule> schedule = spatialBackend().propose(unit, {.scalar = scalar});
    ASSERT_EQ(schedule.status(), absl::OkStatus()) << ir;
    *unit.mutable_schedule() = *schedule;
    EXPECT_EQ(spatialBackend().validate(unit), absl::OkStatus()) << ir;
    const absl::StatusOr<v1::BuiltObject> built = spatialBackend().build(unit);
    ASSERT_EQ(built.status(), absl::OkStatus()) << ir;
    const auto steps = spatialBackend().verify(unit, *built);
    ASSERT_EQ(steps.status(), absl::OkStatus()) << ir;
    for (const v1::VerifiedStep& step : *steps) EXPECT_EQ(step.skipped(), "") << step.step();
  }
}

/// y = relu(x * w + b) with factors of 16 bits.
std::string layer(int rows, int columns, int depth) {
  const auto tensor = [](int a, int b, const char* type) {
    return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "x" + type + ">";
  };
  const std::string x = tensor(rows, depth, "f16"), w = tensor(depth, columns, "f16"), y = tensor(rows, columns, "f32");
  const std::string b = "tensor<" + std::to_string(columns) + "xf32>";
  return "func.func @k(%x: " + x + ", %w: " + w + ", %b: " + b + ") -> " + y + R"( {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : )" +
         y + R"(
  %init = linalg.fill ins(%zero : f32) outs(%empty : )" +
         y + ") -> " + y + R"(
  %sum = linalg.generic {indexing_maps = [affine_map<(i, j, r) -> (i, r)>, affine_map<(i, j, r) -> (r, j)>, affine_map<(i, j, r) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : )" +
         x + ", " + w + ") outs(%init : " + y + R"() {
  ^bb0(%a: f16, %c: f16, %o: f32):
    %e = arith.extf %a : f16 to f32
    %f = arith.extf %c : f16 to f32
    %p = arith.mulf %e, %f : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> )" +
         y + R"(
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%sum, %b : )" +
         y + ", " + b + ") outs(%empty : " + y + R"() {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.addf %a, %c : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
  } -> )" +
         y + R"(
  return %y : )" +
         y + "\n}\n";
}

TEST(SpatialKernel, ALayerIsThreeNestsOverItsOperands) {
  const v1::SpatialKernel kernel = kernelOf(layer(5, 7, 9));
  EXPECT_EQ(kernel.operands(), 4);
  EXPECT_EQ(kernel.results(), 1);
  EXPECT_THAT(namesOf(kernel), ElementsAre("fill", "mulf + addf", "addf + maximumf"));
  const v1::SpatialKernel::Nest& product = kernel.nests(1);
  EXPECT_EQ(product.outputs(), 1);
  ASSERT_EQ(product.accesses_size(), 3);
  EXPECT_EQ(product.loops(2).name(), "r0");
  EXPECT_THAT(product.accesses(1).subscripts(), ElementsAre("i0", "r0"));
  EXPECT_THAT(product.accesses(1).strides(), ElementsAre(9, 1));
  EXPECT_THAT(product.accesses(2).strides(), ElementsAre(7, 1));
}

TEST(SpatialKernel, LayersOfEvenAndOddSizesAreRight) {
  for (const auto& [rows, columns, depth] : {std::tuple(16, 32, 64), {5, 7, 9}, {1, 33, 17}, {47, 1, 31}})
    expectRight(layer(rows, columns, depth));
}

TEST(SpatialKernel, AWindowOfAPaddedOperandReadsTheBorder) {
  const std::string ir = R"(
func.func @k(%x: tensor<1x3x9x7xf16>, %w: tensor<5x3x3x3xf16>) -> tensor<1x5x5x4xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.0 : f16
  %p = tensor.pad %x low[0, 0, 1, 1] high[0, 0, 1, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %half : f16
  } : tensor<1x3x9x7xf16> to tensor<1x3x11x9xf16>
  %empty = tensor.empty() : tensor<1x5x5x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x5x5x4xf32>) -> tensor<1x5x5x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, f, h, w, c, r, s) -> (n, c, 2 * h + r, 2 * w + s)>, affine_map<(n, f, h, w, c, r, s) -> (f, c, r, s)>, affine_map<(n, f, h, w, c, r, s) -> (n, f, h, w)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : tensor<1x3x11x9xf16>, tensor<5x3x3x3xf16>) outs(%init : tensor<1x5x5x4xf32>) {
  ^bb0(%a: f16, %b: f16, %o: f32):
    %e = arith.extf %a : f16 to f32
    %f = arith.extf %b : f16 to f32
    %q = arith.mulf %e, %f : f32
    %s = arith.addf %o, %q : f32
    linalg.yield %s : f32
  } -> tensor<1x5x5x4xf32>
  return %y : tensor<1x5x5x4xf32>
})";
  const v1::SpatialKernel kernel = kernelOf(ir);
  EXPECT_THAT(kernel.nests(kernel.nests_size() - 1).accesses(1).subscripts(),
              ElementsAre("i0", "r0", "2 * i2 + r1", "2 * i3 + r2"));
  expectRight(ir);
}

TEST(SpatialKernel, QuotientsBecomeSubscriptsOrLoads) {
  const std::string ir = R"(
func.func @k(%x: tensor<4x6xf32>) -> (tensor<24xf32>, tensor<24xf32>) {
  %empty = tensor.empty() : tensor<24xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(i) -> (i floordiv 6, i mod 6)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4x6xf32>) outs(%empty : tensor<24xf32>) {
  ^bb0(%e: f32, %o: f32):
    linalg.yield %e : f32
  } -> tensor<24xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(i) -> ((i floordiv 6 + i mod 3) mod 4, (i * 5) mod 6)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4x6xf32>) outs(%empty : tensor<24xf32>) {
  ^bb0(%e: f32, %o: f32):
    linalg.yield %e : f32
  } -> tensor<24xf32>
  return %a, %b : tensor<24xf32>, tensor<24xf32>
})";
  const v1::SpatialKernel kernel = kernelOf(ir);
  ASSERT_EQ(kernel.nests_size(), 2);
  EXPECT_THAT(kernel.nests(0).accesses(1).subscripts(), ElementsAre("i0 / 6", "i0 % 6"));
  EXPECT_EQ(kernel.nests(1).accesses_size(), 1) << "a remainder of a sum with a quotient is a load";
  expectRight(ir);
}

TEST(SpatialKernel, ElementsAtComputedPlacesAndPositionsAreRight) {
  expectRight(R"(
func.func @k(%x: tensor<7x5xf32>, %at: tensor<3xi64>) -> tensor<3x5xf32> {
  %empty = tensor.empty() : tensor<3x5xf32>
  %c0 = arith.constant 0 : index
  %c6 = arith.constant 6 : index
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%at : tensor<3xi64>) outs(%empty : tensor<3x5xf32>) {
  ^bb0(%i: i64, %o: f32):
    %row = arith.index_cast %i : i64 to index
    %low = arith.maxsi %row, %c0 : index
    %high = arith.minsi %low, %c6 : index
    %j = linalg.index 1 : index
    %e = tensor.extract %x[%high, %j] : tensor<7x5xf32>
    %k = arith.index_cast %j : index to i32
    %f = arith.sitofp %k : i32 to f32
    %s = arith.addf %e, %f : f32
    linalg.yield %s : f32
  } -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
})");
}

TEST(SpatialKernel, SeveralResultsAndFunctionsAreRight) {
  expectRight(R"(
func.func @k(%x: tensor<3x13xf32>) -> (tensor<3xf32>, tensor<3x13xf32>) {
  %low = arith.constant 0xFF800000 : f32
  %row = tensor.empty() : tensor<3xf32>
  %all = tensor.empty() : tensor<3x13xf32>
  %init = linalg.fill ins(%low : f32) outs(%row : tensor<3xf32>) -> tensor<3xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
    ins(%x : tensor<3x13xf32>) outs(%init : tensor<3xf32>) {
  ^bb0(%e: f32, %o: f32):
    %s = arith.maximumf %e, %o : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x, %m : tensor<3x13xf32>, tensor<3xf32>) outs(%all : tensor<3x13xf32>) {
  ^bb0(%e: f32, %f: f32, %o: f32):
    %d = arith.subf %e, %f : f32
    %s = math.exp %d : f32
    %c = arith.cmpf olt, %s, %f : f32
    %t = arith.select %c, %s, %d : f32
    linalg.yield %t : f32
  } -> tensor<3x13xf32>
  return %m, %y : tensor<3xf32>, tensor<3x13xf32>
})");
}

TEST(SpatialKernel, WhatNoNestExpressesIsNamed) {
  const absl::StatusOr<v1::SpatialKernel> kernel = spatial::kernelOf(unitOf(R"(
func.func @k(%x: tensor<9xf32>) -> tensor<9xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %empty = tensor.empty() : tensor<9xf32>
  %zero = arith.constant 0.0 : f32
  %y, %s = scf.for %i = %c0 to %c9 step %c1 iter_args(%t = %empty, %sum = %zero) -> (tensor<9xf32>, f32) {
    %e = tensor.extract %x[%i] : tensor<9xf32>
    %n = arith.addf %e, %sum : f32
    %u = tensor.insert %n into %t[%i] : tensor<9xf32>
    scf.yield %u, %n : tensor<9xf32>, f32
  }
  return %y : tensor<9xf32>
})"));
  ASSERT_FALSE(kernel.ok());
  const v1::Failure failure = failureOf(kernel.status());
  EXPECT_EQ(failure.reason(), v1::Failure::UNSUPPORTED_OPERATOR);
  EXPECT_EQ(failure.op_type(), "scf.for");
  EXPECT_THAT(failure.message(), HasSubstr("loop nests cannot express it"));
}

TEST(SpatialBackend, AKernelSaysWhyItMultipliesOnAVectorUnit) {
  const std::string ir = layer(16, 32, 64);
  v1::BuildUnit unit = unitOf(ir);
  const auto builtOf = [](v1::BuildUnit& unit) {
    const absl::StatusOr<v1::Schedule> schedule = spatialBackend().propose(unit, {});
    EXPECT_EQ(schedule.status(), absl::OkStatus());
    if (schedule.ok()) *unit.mutable_schedule() = *schedule;
    const absl::StatusOr<v1::BuiltObject> built = spatialBackend().build(unit);
    EXPECT_EQ(built.status(), absl::OkStatus());
    v1::SpatialKernel kernel;
    EXPECT_TRUE(built.ok() && kernel.ParseFromString(built->object()));
    return kernel;
  };
  EXPECT_EQ(builtOf(unit).refusal(), "");
  // No instruction multiplies f32.
  v1::BuildUnit wide = unitOf(absl::StrReplaceAll(ir, {{"    %e = arith.extf %a : f16 to f32\n", ""},
                                                       {"    %f = arith.extf %c : f16 to f32\n", ""},
                                                       {"%e, %f", "%a, %c"},
                                                       {"f16", "f32"}}));
  EXPECT_THAT(builtOf(wide).refusal(), HasSubstr("mulf + addf"));
}

TEST(SpatialBackend, FactsFollowFromTheInstructions) {
  const CodeFacts cube = spatialBackend().facts(*findBuiltinTarget("ascend-910-like"), false);
  EXPECT_EQ(cube.factors, v1::DATA_TYPE_F16);
  ASSERT_EQ(cube.bytes.size(), 1U);
  EXPECT_TRUE(cube.bytes[0].first_signed && cube.bytes[0].second_signed);
  EXPECT_FALSE(cube.register_tiles);
  EXPECT_EQ(spatialBackend().facts(*findBuiltinTarget("ascend-910-like"), true).factors, v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(backendOf(v1::Target::NVPTX), nullptr);
  EXPECT_EQ(backendOf(v1::Target::SPATIAL), &spatialBackend());
}

}  // namespace
}  // namespace tessera::compiler
