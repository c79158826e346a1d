// Workloads of several passes over the same rows run slice by slice without a request.
#include <gtest/gtest.h>

#include <random>

#include "compiler/backends/cpu/testing/chain_text.h"
#include "compiler/backends/cpu/testing/check_workload.h"

namespace tessera::compiler::codegen::testing {
namespace {

constexpr char kId[] = "d0, d1, d2", kRow[] = "d0, d1";

void expectRegion(const v1::KernelInfo& info) {
  ASSERT_EQ(info.phases_size(), 1);
  EXPECT_NE(info.phases(0).strategy().find("region of"), std::string::npos) << info.phases(0).strategy();
  EXPECT_EQ(info.workspace_bytes(), 0);
}

/// (x - mean) / sqrt(variance + epsilon) * scale over the last dimension.
std::string layerNormalization(const std::vector<int64_t>& shape) {
  WorkloadText text;
  const std::vector<int64_t> rows{shape[0], shape[1]};
  const Tensor x = text.argument(shape), scale = text.argument({shape[2]});
  const std::string count = "%n = arith.constant " + std::to_string(shape[2]) + ".0 : f32\n    ";
  const Tensor sum = text.generic({x}, {kId, kRow}, text.fill(rows, "0.0"), 3, "ppr", "%r = arith.addf %o, %i0 : f32");
  const Tensor centered = text.generic({x, sum}, {kId, kRow, kId}, text.empty(shape), 3, "",
                                       count + "%m = arith.divf %i1, %n : f32\n    %r = arith.subf %i0, %m : f32");
  const Tensor squares = text.generic({centered}, {kId, kRow}, text.fill(rows, "0.0"), 3, "ppr",
                                      "%q = arith.mulf %i0, %i0 : f32\n    %r = arith.addf %o, %q : f32");
  const Tensor y = text.generic(
      {centered, squares, scale}, {kId, kRow, "d2", kId}, text.empty(shape), 3, "",
      count +
          "%e = arith.constant 1.0e-5 : f32\n    %v = arith.divf %i1, %n : f32\n    %w = arith.addf %v, %e : f32\n    "
          "%s = math.sqrt %w : f32\n    %d = arith.divf %i0, %s : f32\n    %r = arith.mulf %d, %i2 : f32");
  return text.finish({y});
}

TEST(RowRegion, Softmax) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{4, 33, 100}, {2, 3, 1000}, {1, 128, 128}, {12, 64, 64}, {7, 1, 13}}) {
    WorkloadText text;
    const Tensor y = softmax(text, text.argument(shape));
    expectRegion(checkWorkload(text.finish({y})));
  }
}

TEST(RowRegion, SoftmaxOfDoubles) {
  WorkloadText text;
  const Tensor y = softmax(text, text.argument({5, 9, 77}, "f64"));
  expectRegion(checkWorkload(text.finish({y})));
}

TEST(RowRegion, SoftmaxOverTheMiddle) {
  WorkloadText text;
  const std::vector<int64_t> shape{6, 21, 130}, rows{6, 130};
  const Tensor x = text.argument(shape);
  const std::string row = "d0, d2";
  const Tensor maximum =
      text.generic({x}, {kId, row}, text.fill(rows, "0xFF800000"), 3, "prp", "%r = arith.maximumf %i0, %o : f32");
  const Tensor powers = text.generic({x, maximum}, {kId, row, kId}, text.empty(shape), 3, "",
                                     "%d = arith.subf %i0, %i1 : f32\n    %r = math.exp %d : f32");
  const Tensor sum =
      text.generic({powers}, {kId, row}, text.fill(rows, "0.0"), 3, "prp", "%r = arith.addf %i0, %o : f32");
  const Tensor y =
      text.generic({powers, sum}, {kId, row, kId}, text.empty(shape), 3, "", "%r = arith.divf %i0, %i1 : f32");
  expectRegion(checkWorkload(text.finish({y})));
}

TEST(RowRegion, LogSoftmax) {
  WorkloadText text;
  const std::vector<int64_t> shape{3, 17, 61}, rows{3, 17};
  const Tensor x = text.argument(shape);
  const Tensor maximum =
      text.generic({x}, {kId, kRow}, text.fill(rows, "0xFF800000"), 3, "ppr", "%r = arith.maximumf %i0, %o : f32");
  const Tensor sum = text.generic({x, maximum}, {kId, kRow, kRow}, text.fill(rows, "0.0"), 3, "ppr",
                                  "%d = arith.subf %i0, %i1 : f32\n    %p = math.exp %d : f32\n    "
                                  "%r = arith.addf %o, %p : f32");
  const Tensor y = text.generic({x, maximum, sum}, {kId, kRow, kRow, kId}, text.empty(shape), 3, "",
                                "%d = arith.subf %i0, %i1 : f32\n    %l = math.log %i2 : f32\n    "
                                "%r = arith.subf %d, %l : f32");
  expectRegion(checkWorkload(text.finish({y})));
}

TEST(RowRegion, LayerNormalization) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1, 128, 768}, {2, 31, 97}, {3, 1, 5}, {1, 300, 64}})
    expectRegion(checkWorkload(layerNormalization(shape)));
}

TEST(RowRegion, RandomShapes) {
  std::mt19937 random(5);
  for (unsigned seed = 0; seed < 16; ++seed) {
    const std::vector<int64_t> shape{1 + static_cast<int64_t>(random() % 5), 1 + static_cast<int64_t>(random() % 70),
                                     1 + static_cast<int64_t>(random() % 300)};
    checkWorkload(layerNormalization(shape), {.seed = seed});
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(RowRegion, SumsOverAllRowsStayInPhases) {
  WorkloadText text;
  const std::vector<int64_t> shape{1, 1, 200000};
  const Tensor x = text.argument(shape);
  const Tensor sum =
      text.generic({x}, {kId, kRow}, text.fill({1, 1}, "0.0"), 3, "ppr", "%r = arith.addf %o, %i0 : f32");
  const Tensor y = text.generic({x, sum}, {kId, kRow, kId}, text.empty(shape), 3, "", "%r = arith.divf %i0, %i1 : f32");
  const auto info = checkWorkload(text.finish({y}), {.low = 0.5});
  EXPECT_EQ(info.phases_size(), 2) << "one slice would be all of it, on one thread";
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
