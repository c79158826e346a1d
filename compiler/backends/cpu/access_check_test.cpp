// Kernels that leave their memory: checkAccesses refuses those whose access functions show it, and guarded runs name
// the others.
#include "compiler/backends/cpu/access_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/backends/cpu/bufferize.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler::codegen::testing {
namespace {

using ::testing::HasSubstr;
using Box = std::pair<int64_t, int64_t>;

Box boxOf(const Access& access, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> tile = {},
          llvm::ArrayRef<std::pair<int64_t, int64_t>> slices = {}) {
  const TouchedBox box = touchedBox(access, extents, tile, slices);
  return {box.first, box.last};
}

TEST(AccessCheck, BoxesAreTheLastIterations) {
  Access access;
  access.offset = 5;
  access.strides = {10, 0, 1};
  EXPECT_EQ(boxOf(access, {3, 7, 10}), Box(5, 34));
  access.strides = {10, 0, -1};
  EXPECT_EQ(boxOf(access, {3, 7, 6}), Box(0, 25));
  access.strides = {10, 0, 1};
  access.slice = {30, -2};
  EXPECT_EQ(boxOf(access, {3, 1, 10}, {}, {{1, 4}, {0, 2}}), Box(5 + 30 - 4, 34 + 120));
}

TEST(AccessCheck, PanelsEndWithTheirLastTile) {
  Access access;  // [ceil(n / 4)][k][4]
  access.strides = {1, 4};
  access.panel = {7, 4};  // k = 7
  EXPECT_EQ(boxOf(access, {12, 7}, {4, 1}), Box(0, 3 * 7 * 4 - 1));
  // The third panel is read in two columns only, so its last row ends two elements earlier.
  EXPECT_EQ(boxOf(access, {10, 7}, {4, 1}), Box(0, 3 * 7 * 4 - 1 - 2));
  EXPECT_EQ(boxOf(access, {3, 7}, {4, 1}), Box(0, 7 * 4 - 1 - 1));
}

class BrokenNests : public ::testing::Test {
 protected:
  BrokenNests() {
    mlir::DialectRegistry registry;
    registerCodegenDialects(registry);
    context_.appendDialectRegistry(registry);
    context_.loadAllAvailableDialects();
    module_ = mlir::parseSourceString<mlir::ModuleOp>(R"mlir(
      func.func @w(%x: memref<10x10xf32>, %y: memref<10x10xf32>) {
        %t = memref.alloc() : memref<10x10xf32>
        linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                        iterator_types = ["parallel", "parallel"]}
            ins(%x : memref<10x10xf32>) outs(%y : memref<10x10xf32>) {
        ^bb0(%a: f32, %old: f32):
          %r = arith.addf %a, %old : f32
          linalg.yield %r : f32
        }
        linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                        iterator_types = ["parallel", "parallel"]}
            ins(%x : memref<10x10xf32>) outs(%t : memref<10x10xf32>) {
        ^bb0(%a: f32, %old: f32):
          linalg.yield %a : f32
        }
        return
      })mlir",
                                                      &context_);
    module_->walk([&](mlir::linalg::LinalgOp op) { nests_.push_back(*nestOf(op)); });
  }
  absl::Status checkNest(const Nest& nest, const TilePlan& plan = {}) {
    Phase phase;
    phase.nests.push_back(nest);
    phase.plans.push_back(plan);
    phase.plans[0].tile = {1, 1};
    PhaseList list;
    list.phases.push_back(phase);
    list.temporaries = temporaries_;
    return checkAccesses(list);
  }
  /// Checks a nest of 10 x 10 iterations that accesses a buffer of 10 x 10 with this offset and these strides.
  absl::Status check(int64_t offset, llvm::ArrayRef<int64_t> strides, bool output = false) {
    Nest nest = nests_[0];
    Operand& operand = output ? nest.statements[0].outputs[0] : nest.statements[0].inputs[0];
    operand.access.offset = offset;
    operand.access.strides.assign(strides.begin(), strides.end());
    return checkNest(nest);
  }
  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::vector<Nest> nests_;  ///< adds to its output; then writes an allocation without reading it
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> temporaries_;
};

TEST_F(BrokenNests, AreNamedWithTheirBox) {
  EXPECT_TRUE(check(0, {10, 1}).ok());
  EXPECT_TRUE(check(99, {-10, -1}).ok());
  EXPECT_THAT(std::string(check(1, {10, 1}).message()),
              HasSubstr("phase 0, nest 0, input 0 of statement 0, walks elements 1 to 100 of a buffer of 100"));
  EXPECT_THAT(std::string(check(98, {-10, -1}, true).message()),
              HasSubstr("output 0 of statement 0, walks elements -1 to 98 of a buffer of 100"));
}

TEST_F(BrokenNests, WhatIsNotTouchedHasNoBox) {
  Nest& adds = nests_[0];
  Statement& statement = adds.statements[0];
  statement.outputs[0].access.strides = {30, 1};
  EXPECT_FALSE(checkNest(adds).ok());
  statement.stored[0] = false;
  EXPECT_FALSE(checkNest(adds).ok());  // it reads the old values
  statement.init[0] = statement.op->getOperand(0);
  EXPECT_TRUE(checkNest(adds).ok());
  statement.inputs[0].access.strides = {30, 1};
  EXPECT_FALSE(checkNest(adds).ok());
  statement.inputs[0].from = RegisterRef{};
  EXPECT_TRUE(checkNest(adds).ok());
}

TEST_F(BrokenNests, WhatIsCopiedBlockByBlockIsWalkedWithinABlock) {
  Nest& adds = nests_[0];
  adds.statements[0].inputs[0].access.offset = 60;
  TilePlan plan;
  plan.levels = {{0, 4}, {0, 1}, {1, 1}};
  plan.copy_level = 1;
  EXPECT_FALSE(checkNest(adds, plan).ok()) << "nothing is copied";
  plan.copies.emplace_back();  // of input 0, four rows at a time
  EXPECT_TRUE(checkNest(adds, plan).ok());
  adds.statements[0].inputs[0].access.offset = 61;
  EXPECT_THAT(std::string(checkNest(adds, plan).message()), HasSubstr("walks elements 61 to 100"));
}

TEST_F(BrokenNests, WhatHasNoPlaceMayNotBeTouched) {
  Nest& writes = nests_[1];
  Statement& statement = writes.statements[0];
  EXPECT_THAT(std::string(checkNest(writes).message()), HasSubstr("output 0 of statement 0, walks elements 0 to 99"));
  temporaries_.emplace_back(statement.outputs[0].access.root, 0);
  EXPECT_TRUE(checkNest(writes).ok());
  temporaries_.clear();
  statement.stored[0] = false;
  EXPECT_TRUE(checkNest(writes).ok());
}

/// A kernel that needs 100 elements, given memory for fewer.
std::string leftMemory(int64_t argument_bytes, int64_t result_bytes, GuardedMemory::End end) {
  WorkloadText text;
  const Tensor x = text.argument({10, 10});
  const Tensor y = text.generic({x}, {"d0, d1", "d0, d1"}, text.empty({10, 10}), 2, "", "%r = math.absf %i0 : f32");
  auto built = buildByDefault(hostUnit(text.finish({y})));
  EXPECT_TRUE(built.ok()) << built.status().message();
  auto loaded = LoadedUnit::load(*built);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  std::vector<GuardedMemory> operands(2);
  EXPECT_TRUE(operands[0].allocate(argument_bytes, 4) && operands[1].allocate(result_bytes, 4));
  for (GuardedMemory& operand : operands) operand.place(end);
  return (*loaded)->runGuarded(operands, 1, end);
}

TEST(GuardedUnit, NamesThePhaseThatLeavesItsMemory) {
  EXPECT_EQ(leftMemory(400, 400, GuardedMemory::End::kBack), "");
  EXPECT_EQ(leftMemory(400, 400, GuardedMemory::End::kFront), "");
  EXPECT_THAT(leftMemory(396, 400, GuardedMemory::End::kBack), HasSubstr("SIGSEGV in kernel unit_p0"));
  EXPECT_THAT(leftMemory(396, 400, GuardedMemory::End::kBack), HasSubstr("behind operand 0 of 396 bytes"));
  EXPECT_THAT(leftMemory(400, 396, GuardedMemory::End::kBack), HasSubstr("behind operand 1 of 396 bytes"));
  EXPECT_THAT(leftMemory(400, 396, GuardedMemory::End::kFront), HasSubstr("unit_p0 wrote 1 bytes behind operand 1"));
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
