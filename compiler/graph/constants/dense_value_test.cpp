// Large constants: copies on all cores, values beyond the memory window, columns on all cores, 16-bit floats.
#include "compiler/graph/constants/dense_value.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <vector>

#include "compiler/graph/constants/constant_evaluator.h"
#include "compiler/graph/constants/element_arithmetic.h"
#include "compiler/graph/constants/folded_memory.h"
#include "llvm/ADT/APFloat.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

namespace tessera::compiler {
namespace {

using Extents = llvm::SmallVector<int64_t>;

/// A tensor whose elements all differ, as far as their width allows.
DenseValue counted(const Extents& shape, int64_t width) {
  char* data = nullptr;
  DenseValue value = makeDense(shape, width, &data);
  for (int64_t i = 0; i < value.elements(); ++i) {
    const uint64_t number = static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15;
    std::memcpy(data + i * width, &number, width);
  }
  return value;
}

struct Permutation {
  Extents shape;
  llvm::SmallVector<int> order;  ///< dimension d of the result is dimension order[d] of the source
};

TEST(CopyStrided, TransposesOfAllSizesElementByElement) {
  for (const Permutation& each : std::vector<Permutation>{{{1031, 1033}, {1, 0}},
                                                          {{1031, 1033}, {0, 1}},
                                                          {{7, 613, 251}, {2, 0, 1}},
                                                          {{64, 17, 1009}, {1, 0, 2}},
                                                          {{2, 1, 524'289}, {2, 1, 0}},
                                                          {{5, 3}, {1, 0}},
                                                          {{1, 1}, {1, 0}}}) {
    for (const int64_t width : {1, 2, 4, 8}) {
      const DenseValue from = counted(each.shape, width);
      const Extents strides = rowMajorStrides(each.shape);
      Extents extents;
      StridedAccess read;
      for (int dim : each.order) {
        extents.push_back(each.shape[dim]);
        read.strides.push_back(strides[dim]);
      }
      char* to = nullptr;
      const DenseValue result = makeDense(extents, width, &to);
      copyStrided(extents, width, from.data, read, to, {0, rowMajorStrides(extents)});
      Extents index(extents.size(), 0);
      for (int64_t i = 0; i < result.elements(); ++i) {
        int64_t rest = i, at = 0;
        for (size_t d = extents.size(); d-- > 0; rest /= extents[d]) at += rest % extents[d] * read.strides[d];
        ASSERT_EQ(std::memcmp(to + i * width, from.data + at * width, width), 0) << i << " of width " << width;
      }
    }
  }
}

TEST(CopyStrided, WhatOverlapsIsNotShared) {
  EXPECT_EQ(parallelLoop({100, 10}, {10, 1}), 0);
  EXPECT_EQ(parallelLoop({10, 100}, {1, 10}), 1);
  EXPECT_EQ(parallelLoop({100, 11}, {10, 1}), -1) << "the last of a row is the first of the next";
  EXPECT_EQ(parallelLoop({100, 10}, {0, 0}), -1);
  EXPECT_EQ(parallelLoop({1, 10}, {10, 1}), 1);
  EXPECT_EQ(parallelLoop({1}, {1}), -1);
  EXPECT_EQ(parallelLoop({}, {}), -1);
}

TEST(FoldedWeightStorage, KeepsBytesBeyondTheWindowInAFileWithoutAName) {
  const std::string folder = testing::TempDir() + "folded_memory";
  std::filesystem::create_directory(folder);
  const FoldedWeightStorage window(folder, 3 * kMappedBytes);
  const int64_t before = denseBytesInMemory();
  std::vector<DenseValue> kept;
  for (const int64_t elements :
       {int64_t{0}, int64_t{7}, kMappedBytes, 2 * kMappedBytes + 3, kMappedBytes, kMappedBytes}) {
    kept.push_back(window.keep(counted({elements}, 1)));
    EXPECT_LE(denseBytesInMemory() - before, 4 * kMappedBytes) << "the window and one more";
    for (const DenseValue& value : kept) {
      const DenseValue same = counted(value.shape, 1);
      EXPECT_EQ(std::memcmp(value.data, same.data, value.bytes()), 0);
    }
  }
  EXPECT_LE(denseBytesInMemory() - before, 3 * kMappedBytes + 3);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  kept.clear();
  EXPECT_EQ(denseBytesInMemory(), before);
  const FoldedWeightStorage nowhere(folder + "/absent", 0);
  EXPECT_EQ(std::memcmp(nowhere.keep(counted({kMappedBytes}, 1)).data, counted({kMappedBytes}, 1).data, kMappedBytes),
            0);
}

TEST(Halves, ConvertAsAPFloatDoes) {
  mlir::MLIRContext context;
  for (const mlir::Type type :
       {mlir::Type(mlir::Float16Type::get(&context)), mlir::Type(mlir::BFloat16Type::get(&context))}) {
    const llvm::fltSemantics& semantics = mlir::cast<mlir::FloatType>(type).getFloatSemantics();
    for (uint32_t bits = 0; bits < 65'536; ++bits) {
      llvm::APFloat half(semantics, llvm::APInt(16, bits));
      bool lossy = false;
      half.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      const float wide = widened(type, static_cast<uint16_t>(bits));
      ASSERT_EQ(std::bit_cast<uint32_t>(wide), static_cast<uint32_t>(half.bitcastToAPInt().getZExtValue())) << bits;
      // Around each value, halfway to the next, and next to that.
      const auto from = std::bit_cast<uint32_t>(wide);
      for (const uint32_t more : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0x1800U, 0xffffffffU}) {
        llvm::APFloat narrow(std::bit_cast<float>(from + more));
        narrow.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lossy);
        ASSERT_EQ(narrowed(type, std::bit_cast<float>(from + more)), narrow.bitcastToAPInt().getZExtValue())
            << bits << " + " << more;
      }
    }
    // All exponents, with many fractions: those of f16's subnormals and beyond its range as well.
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 12'289) {
      llvm::APFloat narrow(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      bool lossy = false;
      narrow.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lossy);
      ASSERT_EQ(narrowed(type, std::bit_cast<float>(static_cast<uint32_t>(bits))),
                narrow.bitcastToAPInt().getZExtValue())
          << bits;
    }
  }
}

TEST(ConstantEvaluator, LargeElementwiseAndSumsOnAllCoresElementByElement) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::tensor::TensorDialect>();
  constexpr int64_t kRows = 1031, kColumns = 1033;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"mlir(
    #row = affine_map<(d0, d1) -> (d0)>
    #both = affine_map<(d0, d1) -> (d0, d1)>
    func.func @main(%w: tensor<1031x1033xf32>, %s: tensor<1031xf32>) -> (tensor<1031x1033xf32>, tensor<1031xf32>) {
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<1031x1033xf32>
      %scaled = linalg.generic {indexing_maps = [#both, #row, #both], iterator_types = ["parallel", "parallel"]}
          ins(%w, %s : tensor<1031x1033xf32>, tensor<1031xf32>) outs(%empty : tensor<1031x1033xf32>) {
      ^bb0(%a: f32, %b: f32, %o: f32):
        %p = arith.mulf %a, %b : f32
        linalg.yield %p : f32
      } -> tensor<1031x1033xf32>
      %none = tensor.empty() : tensor<1031xf32>
      %start = linalg.fill ins(%zero : f32) outs(%none : tensor<1031xf32>) -> tensor<1031xf32>
      %sums = linalg.generic {indexing_maps = [#both, #row], iterator_types = ["parallel", "reduction"]}
          ins(%scaled : tensor<1031x1033xf32>) outs(%start : tensor<1031xf32>) {
      ^bb0(%a: f32, %o: f32):
        %p = arith.addf %o, %a : f32
        linalg.yield %p : f32
      } -> tensor<1031xf32>
      return %scaled, %sums : tensor<1031x1033xf32>, tensor<1031xf32>
    })mlir",
                                                        &context);
  ASSERT_TRUE(module);
  auto main = *module->getOps<mlir::func::FuncOp>().begin();
  char *weights = nullptr, *scales = nullptr;
  const DenseValue w = makeDense({kRows, kColumns}, 4, &weights), s = makeDense({kRows}, 4, &scales);
  auto* a = reinterpret_cast<float*>(weights);
  auto* b = reinterpret_cast<float*>(scales);
  for (int64_t i = 0; i < kRows * kColumns; ++i) a[i] = static_cast<float>(i % 1009) * 0.37F - 100;
  for (int64_t i = 0; i < kRows; ++i) b[i] = static_cast<float>(i % 13) - 6.1F;
  ConstantEvaluator evaluator;
  evaluator.define(main.getArgument(0), w);
  evaluator.define(main.getArgument(1), s);
  int64_t budget = int64_t{1} << 32;
  mlir::Operation* end = main.getBody().front().getTerminator();
  const auto scaled = evaluator.evaluate(end->getOperand(0), budget),
             sums = evaluator.evaluate(end->getOperand(1), budget);
  ASSERT_TRUE(scaled && sums);
  for (int64_t r = 0; r < kRows; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < kColumns; ++c) {
      const float wanted = a[r * kColumns + c] * b[r];
      float found = 0;
      std::memcpy(&found, scaled->data + (r * kColumns + c) * 4, 4);
      ASSERT_EQ(found, wanted) << r << " " << c;
      sum += wanted;
    }
    float found = 0;
    std::memcpy(&found, sums->data + r * 4, 4);
    ASSERT_EQ(found, sum) << r;
  }
}

}  // namespace
}  // namespace tessera::compiler
