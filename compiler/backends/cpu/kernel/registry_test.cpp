// Properties of every micro-kernel and every product instruction; no test depends on a specific one. A new one is
// tested by adding a workload that it runs.
#include "compiler/backends/cpu/kernel/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "compiler/backends/cpu/apply/apply.h"
#include "compiler/backends/cpu/bufferize.h"
#include "compiler/backends/cpu/decide/decide.h"
#include "compiler/backends/cpu/instruction/product_instruction.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/native.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/product_tree.h"
#include "compiler/backends/cpu/testing/tile_emulation.h"
#include "compiler/backends/cpu/testing/winograd_text.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/summary.h"
#include "compiler/target/target.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr char kAdd[] = "%r = arith.addf %i0, %o : f32";
constexpr char kMultiplyAdd[] = "%m = arith.mulf %i0, %i1 : f32\n    %r = arith.addf %o, %m : f32";

std::string product(int64_t m, int64_t n, int64_t k, bool rows) {
  WorkloadText text;
  const Tensor a = text.argument({m, k}), b = text.argument(rows ? std::vector{n, k} : std::vector{k, n});
  return text.finish({text.generic({a, b}, {"d0, d2", rows ? "d1, d2" : "d2, d1", "d0, d1"}, text.fill({m, n}, "0.0"),
                                   3, "ppr", kMultiplyAdd)});
}

std::string sum(int64_t rows, int64_t columns, bool of_rows) {
  WorkloadText text;
  const std::vector<int64_t> shape{of_rows ? rows : columns};
  return text.finish({text.generic({text.argument({rows, columns})}, {"d0, d1", of_rows ? "d0" : "d1"},
                                   text.fill(shape, "0.0"), 2, of_rows ? "pr" : "rp", kAdd)});
}

std::string window(int64_t side, int64_t channels) {
  WorkloadText text;
  const Tensor image = text.argument({1, side, side + 2, channels}), filter = text.argument({3, 3, channels});
  return text.finish(
      {text.named("depthwise_conv_2d_nhwc_hwc", {image, filter}, text.fill({1, side - 2, side, channels}, "0.0"),
                  "{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}")});
}

std::string pointwise(const std::string& from, const std::string& element, const std::string& body) {
  WorkloadText text;
  const Tensor a = text.argument({37, 53}, element);
  const bool turned = from != "d0, d1";
  return text.finish({text.generic(
      {a}, {from, "d0, d1"}, text.empty(turned ? std::vector<int64_t>{53, 37} : std::vector<int64_t>{37, 53}, element),
      2, "", body)});
}

std::string transform() {
  WorkloadText text;
  auto matrix = [&](const char* rows, int64_t height) {
    return text.raw(std::string("arith.constant dense<") + rows + "> : tensor<" + std::to_string(height) + "x4xf32>",
                    {height, 4});
  };
  const Tensor to_input =
      matrix("[[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]", 4);
  const Tensor to_output = matrix("[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, -1.0]]", 2);
  return text.finish({WinogradText{2, 1, 3, 3, 5, 16}.write(text, to_input, to_output)});
}

/// sum += x * y of extended elements, both contiguous along the sum: 32-bit integers, or f32.
std::string narrowProduct(const std::string& element, const std::string& first, const std::string& second) {
  const bool real = element == "bf16";
  const std::string wide = real ? "f32" : "i32", operation = real ? "f" : "i";
  WorkloadText text;
  const Tensor a = text.argument({13, 68}, element), b = text.argument({37, 68}, element);
  return text.finish(
      {text.generic({a, b}, {"d0, d2", "d1, d2", "d0, d1"}, text.fill({13, 37}, real ? "0.0" : "0", wide), 3, "ppr",
                    "%a = arith." + first + " %i0 : " + element + " to " + wide + "\n    %b = arith." + second +
                        " %i1 : " + element + " to " + wide + "\n    %m = arith.mul" + operation + " %a, %b : " + wide +
                        "\n    %r = arith.add" + operation + " %o, %m : " + wide)});
}

/// Odd shapes: ones, primes, sizes with a remainder.
std::vector<std::string> workloads() {
  return {product(1, 1, 1, false),
          product(7, 31, 67, false),
          product(33, 17, 130, true),
          product(97, 515, 131, false),
          product(5, 1, 259, true),
          product(3, 2, 1021, true),
          sum(13, 61, true),
          sum(61, 13, false),
          window(11, 19),
          window(7, 32),
          pointwise("d0, d1", "f32", "%r = math.exp %i0 : f32"),
          pointwise("d0, d1", "f32", "%r = arith.negf %i0 : f32"),
          pointwise("d1, d0", "f32", "%r = arith.negf %i0 : f32"),
          pointwise("d1, d0", "bf16", "%r = arith.negf %i0 : bf16"),
          pointwise("d1, d0", "i8", "%c = arith.constant 7 : i8\n    %r = arith.xori %i0, %c : i8"),
          pointwise("d0, d1", "i32",
                    "%c = arith.constant 1 : i32\n    %d = arith.ori %i0, %c : i32\n    "
                    "%r = arith.divsi %c, %d : i32"),
          transform(),
          narrowProduct("i8", "extui", "extsi")};
}

v1::BuildUnit unitFor(const std::string& ir, const v1::Target& target) {
  v1::BuildUnit unit = hostUnit(ir);
  unit.set_family(target.family());
  *unit.mutable_code() = target.code();
  *unit.mutable_registers() = target.registers();
  *unit.mutable_memory() = target.memory();
  *unit.mutable_units() = target.units();
  *unit.mutable_cost_parameters() = target.cost_parameters();
  *unit.mutable_intrinsics() = usableInstructions(target);
  return unit;
}

/// The owners of a bufferized workload.
struct Planned {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

void bufferized(const v1::BuildUnit& unit, Planned& planned, mlir::func::FuncOp& func) {
  mlir::DialectRegistry registry;
  registerCodegenDialects(registry);
  planned.context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  planned.context->loadAllAvailableDialects();
  auto module = parseWorkload(*planned.context, unit.ir());
  ASSERT_TRUE(module.ok()) << module.status();
  planned.module = std::move(*module);
  func = *planned.module->getOps<mlir::func::FuncOp>().begin();
  ASSERT_TRUE(normalizeTensors(func).ok());
  ASSERT_TRUE(bufferizeWorkload(func).ok());
}

void expectPromises(const Nest& nest, const TilePlan& plan, const Chip& chip) {
  ASSERT_NE(plan.kernel, nullptr);
  const MicroKernel& kernel = *plan.kernel;
  SCOPED_TRACE(std::string(kernel.traits().name));
  EXPECT_EQ(kernelNamed(kernel.traits().name), &kernel);
  EXPECT_FALSE(kernel.report(nest).empty());
  EXPECT_EQ(kernel.refusal(nest, plan), "") << "what a kernel plans it runs";
  EXPECT_EQ(kernel.fits(nest, plan), kernel.traits().runs == KernelTraits::Runs::kNest);
  EXPECT_GE(kernel.registers(nest, chip, plan), 0);
  EXPECT_LE(kernel.registers(nest, chip, plan), chip.vectorRegisters());
  const double cycles = kernel.cycles(nest, chip, plan);
  EXPECT_TRUE(cycles > 0 && std::isfinite(cycles)) << cycles;
  const double instructions = kernel.instructions(nest, plan);
  EXPECT_TRUE(instructions > 0 && std::isfinite(instructions)) << instructions;
  // Results are m by n, the sum is k, and each loop is in one of them only.
  const MicroKernel::Iterations iterations = kernel.iterations(nest, plan);
  std::multiset<int> matched;
  for (const auto* loops : {&iterations.m, &iterations.n, &iterations.k}) matched.insert(loops->begin(), loops->end());
  int64_t points = 1;
  for (const auto* loops : {&iterations.m, &iterations.n})
    for (int loop : *loops) {
      EXPECT_FALSE(nest.reduction[loop]);
      points *= pointsAlong(plan, loop);
    }
  EXPECT_EQ(points, pointsOf(nest, plan)) << "the tile is m by n";
  for (int loop = 0; loop < nest.loops(); ++loop) EXPECT_LE(matched.count(loop), 1) << loop;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (nest.reduction[loop]) EXPECT_TRUE(llvm::is_contained(iterations.k, loop)) << loop;
}

TEST(MicroKernels, KeepTheirPromisesOnEveryChip) {
  std::set<std::string_view> seen;
  for (const char* name : {"x86-64-v3", "znver4", "cascadelake", "sapphirerapids", "neoverse-n1", "neoverse-v1"}) {
    const v1::Target* target = findBuiltinTarget(name);
    ASSERT_NE(target, nullptr) << name;
    for (const std::string& ir : workloads()) {
      SCOPED_TRACE(std::string(name) + "\n" + ir);
      const v1::BuildUnit unit = unitFor(ir, *target);
      auto chip = chipOf(unit);
      ASSERT_TRUE(chip.ok()) << chip.status();
      Planned planned;
      mlir::func::FuncOp func;
      bufferized(unit, planned, func);
      const WorkloadAnalysis workload = analyze(func);
      auto schedule = decideSchedule(workload, *chip, {.row_regions = false});
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      auto list = applySchedule(workload, *chip, *schedule);
      ASSERT_TRUE(list.ok()) << list.status();
      for (const Phase& phase : list->phases)
        for (auto [nest, plan] : llvm::zip_equal(phase.nests, phase.plans)) {
          expectPromises(nest, plan, *chip);
          seen.insert(plan.kernel->traits().name);
        }
    }
  }
  for (const MicroKernel* kernel : microKernels())
    EXPECT_TRUE(seen.contains(kernel->traits().name)) << "no workload here runs " << kernel->traits().name;
}

TEST(MicroKernels, ComputeWhatTheInterpreterDoes) {
  unsigned seed = 0;
  std::set<std::string> seen;
  for (const std::string& ir : workloads()) {
    auto schedule = defaultSchedule(hostUnit(ir));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    for (const v1::Tile* leaf : leavesOf(*schedule)) seen.insert(leaf->kernel().variant());
    checkWorkload(ir, {.seed = ++seed});
  }
  // Tiles, if this machine or the emulation has them.
  v1::BuildUnit unit = hostUnit(narrowProduct("i8", "extui", "extsi"));
  const bool tiles = addTileInstructions(unit, true);
  if (tiles) {
    auto schedule = defaultSchedule(unit);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    seen.insert(productLeaf(*schedule).kernel().variant());
    const TileEmulation emulation;
    checkWorkload(unit.ir(), {.adjust = [](v1::BuildUnit& each) { addTileInstructions(each, true); }});
  }
  for (const MicroKernel* kernel : microKernels())
    if (tiles || kernel->traits().name != words::kTiles)
      EXPECT_TRUE(seen.contains(std::string(kernel->traits().name))) << kernel->traits().name;
}

TEST(MicroKernels, TurnSquaresOfNarrowTypesInPartsOfVectors) {
  const v1::Target* target = findBuiltinTarget("znver4");
  ASSERT_NE(target, nullptr);
  for (const auto& [element, body] : {std::pair{"f32", "%r = arith.negf %i0 : f32"},
                                      {"bf16", "%r = arith.negf %i0 : bf16"},
                                      {"i8", "%r = arith.addi %i0, %i0 : i8"}}) {
    auto schedule = defaultSchedule(unitFor(pointwise("d1, d0", element, body), *target));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const auto leaves = leavesOf(*schedule);
    ASSERT_EQ(leaves.size(), 1U);
    EXPECT_EQ(leaves[0]->kernel().variant(), words::kTransposed) << element;
    EXPECT_EQ(leaves[0]->kernel().lanes(), 16) << element;
  }
}

// A kernel that runs the same nests with the same tiles can replace another one in a tree, and computes the same.
TEST(MicroKernels, StandForEachOther) {
  unsigned seed = 1;  // in steps of four: other seeds compile for other registers, where the default tree differs
  for (const std::string& ir : workloads()) {
    auto schedule = defaultSchedule(hostUnit(ir));
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    for (int p = 0; p < schedule->phases_size(); ++p) {
      const KernelTraits& traits = traitsOf(schedule->phases(p).kernel().variant());
      if (traits.instead.empty()) continue;
      EXPECT_EQ(traitsOf(traits.instead).instead, traits.name);
      v1::BuildUnit unit = hostUnit(ir);
      *unit.mutable_schedule() = *schedule;
      unit.mutable_schedule()->mutable_phases(p)->mutable_kernel()->set_variant(std::string(traits.instead));
      if (!checkSchedule(unit).ok()) continue;  // its tile is too small, say
      checkWorkload(ir, {.seed = seed += 4, .edit = [&](v1::Schedule& edited) { edited = unit.schedule(); }});
    }
  }
  EXPECT_GT(seed, 1U);
}

TEST(MicroKernels, HaveARowOfTraitsEachAndRowsThatRunNestsAKernel) {
  std::set<std::string_view> named;
  for (const MicroKernel* kernel : microKernels()) EXPECT_TRUE(named.insert(kernel->traits().name).second);
  for (const KernelTraits& each : kKernels) {
    if (each.runs == KernelTraits::Runs::kNest) EXPECT_TRUE(named.contains(each.name)) << each.name;
    EXPECT_EQ(&traitsOf(each.name), &each);
  }
  EXPECT_EQ(kernelNamed("no-such-kernel"), nullptr);
}

TEST(ProductInstructions, AreEachTakenUpBySomeNestOfEveryChip) {
  const std::vector<std::string> products = {
      narrowProduct("i8", "extui", "extsi"), narrowProduct("i8", "extsi", "extsi"),
      narrowProduct("i8", "extui", "extui"), narrowProduct("i8", "extsi", "extui"),
      narrowProduct("bf16", "extf", "extf")};
  size_t instructions = 0;
  for (const v1::Target& target : builtinTargets()) {
    if (target.code().triple().empty() || target.registers().vector_bits() == 0) continue;
    auto chip = chipOf(unitFor(products[0], target));
    if (!chip.ok()) continue;  // LLVM knows no such processor
    for (const auto& instruction : productInstructions(*chip)) {
      ++instructions;
      SCOPED_TRACE(target.name() + " " + instruction->name());
      const auto [m, n, k] = instruction->iterations();
      EXPECT_GT(m * n * k, 1);
      bool taken = false;
      for (const std::string& ir : products) {
        const v1::BuildUnit unit = unitFor(ir, target);
        Planned planned;
        mlir::func::FuncOp func;
        bufferized(unit, planned, func);
        WorkloadAnalysis workload = analyze(func);
        completeNests(workload.items);
        mlir::OpBuilder builder(func.getContext());
        builder.setInsertionPointToStart(&func.getBody().front());
        for (Nest& nest : workload.items.back().nests()) {
          const Nest before = nest;
          Chip narrow = *chip;
          // As in a schedule of narrower vectors: an instruction with fewer lanes then applies.
          for (; narrow.vectorBits() > 64 && !instruction->rewriteFor(builder, nest, narrow).empty();)
            narrow.narrowVectors(narrow.vectorBits() / 2);
          if (!nest.statements[0].step) {
            EXPECT_EQ(nest.iterations(), before.iterations()) << "a nest that takes nothing up is not changed";
            continue;
          }
          taken = true;
          EXPECT_EQ(nest.statements[0].step->name(), instruction->name());
          const ProductInstructionStep& step = *nest.statements[0].step;
          EXPECT_EQ(step.lanes(), step.tiles() ? 0 : lanesOf(nest, narrow));
          EXPECT_LT(nest.iterations(), before.iterations());
          EXPECT_TRUE(isContraction(nest));
          // The remainder at an edge of slices must run as well, with another kernel if this one lacks a loop.
          for (int loop = 0; loop < nest.loops(); ++loop) {
            if (nest.reduction[loop]) continue;
            Nest slice = nest;
            slice.extents[loop] = 1;
            expectPromises(slice, planTile(slice, narrow), narrow);
          }
          EXPECT_FALSE(instruction->rewriteFor(builder, nest, narrow).empty()) << "steps are taken up once";
        }
      }
      EXPECT_TRUE(taken);
    }
  }
  EXPECT_GE(instructions, 6U);
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
