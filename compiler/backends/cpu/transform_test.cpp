#include <random>

#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/winograd_text.h"
#include "gtest/gtest.h"

namespace tessera::compiler::codegen {
namespace {

using testing::checkWorkload;
using testing::kTransformBody;
using testing::Tensor;
using testing::WorkloadText;

/// A matrix of small integers, many of them zero; neighbouring rows and columns often differ in signs only.
Tensor matrix(WorkloadText& text, int64_t rows, int64_t columns, std::mt19937& random) {
  std::string values;
  for (int64_t row = 0; row < rows; ++row) {
    values += row == 0 ? "[" : "], [";
    for (int64_t column = 0; column < columns; ++column) {
      values += (column == 0 ? "" : ", ") + std::to_string(static_cast<int>(random() % 5) - 2) + ".0";
    }
  }
  return text.raw("arith.constant dense<[" + values + "]]> : tensor<" + std::to_string(rows) + "x" +
                      std::to_string(columns) + "xf32>",
                  {rows, columns});
}

std::vector<std::string> strategies(const v1::KernelInfo& info) {
  std::vector<std::string> found;
  for (const v1::KernelInfo::Phase& phase : info.phases()) found.push_back(phase.strategy());
  return found;
}

/// A convolution of random size in its three stages, bias and ReLU; with a border of zeros of this width.
std::string convolutionInStages(std::mt19937& random, int64_t m, int64_t down, int64_t across, int64_t border) {
  const auto inputs = static_cast<int64_t>(1 + random() % 3), outputs = static_cast<int64_t>(1 + random() % 3);
  const int64_t block = random() % 4 == 0 ? 8 : 16;
  const testing::WinogradText convolution{m, inputs, outputs, down, across, block};
  WorkloadText text;
  const Tensor to_input = matrix(text, m + 2, m + 2, random), to_output = matrix(text, m, m + 2, random);
  const Tensor z = convolution.write(text, to_input, to_output);
  return text.finish({border == 0 ? z : text.pad(z, {0, border, 1, 0}, {0, 1, 2, 0}, "0.0")});
}

class Transforms : public ::testing::TestWithParam<unsigned> {};

TEST_P(Transforms, ConvolutionInThreeStages) {
  std::mt19937 random(GetParam());
  const int64_t m = 2 + random() % 3, down = 1 + random() % 4, across = 2 + random() % 5;
  const v1::KernelInfo info = checkWorkload(convolutionInStages(random, m, down, across, 0), {.seed = GetParam()});
  EXPECT_EQ(strategies(info), (std::vector<std::string>{"transform", "contraction", "transform"}));
}

// A few rows of blocks at a time: one phase, with a border that ends where a slice ends.
TEST_P(Transforms, ConvolutionInSlices) {
  std::mt19937 random(GetParam());
  const int64_t m = 2 + random() % 3, down = 2 + random() % 4, across = 2 + random() % 5;
  const int64_t rows = 1 + random() % 2;
  ScheduleRequest slices;
  slices.slices.add_order("d1");
  slices.slices.add_tile(rows * m);
  const std::string text = convolutionInStages(random, m, down, across, random() % 2 == 0 ? 0 : m);
  const v1::KernelInfo info = checkWorkload(text, {.seed = GetParam(), .request = slices});
  EXPECT_EQ(strategies(info).size(), 1);
  EXPECT_TRUE(strategies(info).back().starts_with("region")) << strategies(info).back();
}

// Planes after the stages, of whole blocks or with a remainder where the image ends within blocks: a separate pass
// transposes squares of pixels and channels. Fused with the transform, its vectors would be stored element by element.
TEST_P(Transforms, PlanesBehindTheStages) {
  std::mt19937 random(GetParam());
  const int64_t m = 2 + random() % 3, down = 2 + random() % 4, across = 2 + random() % 5;
  const int64_t rows = 1 + random() % 2, cut_rows = random() % m, cut_columns = random() % m;
  const auto inputs = static_cast<int64_t>(1 + random() % 3), outputs = static_cast<int64_t>(1 + random() % 3);
  const testing::WinogradText convolution{m, inputs, outputs, down, across, 16};
  WorkloadText text;
  const Tensor to_input = matrix(text, m + 2, m + 2, random), to_output = matrix(text, m, m + 2, random);
  Tensor z = convolution.write(text, to_input, to_output);
  if (cut_rows + cut_columns > 0) {
    std::vector<int64_t> left = z.shape;
    left[1] -= cut_rows;
    left[2] -= cut_columns;
    const std::string to = "tensor<" + testing::join(left, "x") + "xf32>";
    z = text.raw("tensor.extract_slice " + z.name + "[0, 0, 0, 0] [" + testing::join(left) +
                     "] [1, 1, 1, 1] : " + z.type() + " to " + to,
                 left);
  }
  const Tensor planes =
      text.generic({z}, {"d0, d2, d3, d1", "d0, d1, d2, d3"}, text.empty({z.shape[0], 16, z.shape[1], z.shape[2]}), 4,
                   "", "%r = arith.addf %i0, %i0 : f32");
  const std::string workload = text.finish({planes});
  const v1::KernelInfo whole = checkWorkload(workload, {.seed = GetParam()});
  ASSERT_EQ(strategies(whole).size(), 4) << testing::join({m, down, across});
  EXPECT_EQ(strategies(whole)[2], "transform");
  ScheduleRequest slices;
  slices.slices.add_order("d2");
  slices.slices.add_tile(rows * m);
  const v1::KernelInfo info = checkWorkload(workload, {.seed = GetParam(), .request = slices});
  EXPECT_EQ(strategies(info).size(), 1);
  EXPECT_TRUE(strategies(info).back().starts_with("region")) << strategies(info).back();
}
INSTANTIATE_TEST_SUITE_P(Seeds, Transforms, ::testing::Range(0U, 24U));

// With several images, the first ones are a prefix of the grid in both transforms, wherever they write.
TEST(Transforms, ImagesComeBeforeTheirChannels) {
  std::mt19937 random(5);
  WorkloadText text;
  const Tensor to_input = matrix(text, 6, 6, random), to_output = matrix(text, 4, 6, random);
  const Tensor x = text.argument({5, 3, 18, 18, 16});
  const Tensor v =
      text.generic({to_input, to_input, x},
                   {"d0, d7", "d1, d8", "d3, d2, d4 * 4 + d7, d5 * 4 + d8, d6", "d0, d1, d2, d3, d4, d5, d6"},
                   text.fill({6, 6, 3, 5, 4, 4, 16}, "0.0"), 9, "ppppppprr", kTransformBody);
  const Tensor y =
      text.generic({to_output, to_output, v},
                   {"d3, d7", "d5, d8", "d7, d8, d1, d0, d2, d4, d6", "d0, d1, d2 * 4 + d3, d4 * 4 + d5, d6"},
                   text.fill({5, 3, 16, 16, 16}, "0.0"), 9, "ppppppprr", kTransformBody);
  const v1::KernelInfo info = checkWorkload(text.finish({y}));
  EXPECT_EQ(strategies(info), (std::vector<std::string>{"transform", "transform"}));
  for (const v1::KernelInfo::Phase& phase : info.phases()) {
    ASSERT_EQ(phase.walks_size(), 1);
    const v1::KernelInfo::Walk& walk = phase.walks(0);
    ASSERT_GE(walk.levels_size(), 1);
    EXPECT_EQ(walk.extents(walk.levels(0).loop()), 5) << phase.DebugString();
  }
}

// Matrices that are arguments do not form a transform.
TEST(Transforms, MatricesFromOutsideAreAReduction) {
  WorkloadText text;
  const Tensor left = text.argument({4, 4}), right = text.argument({4, 4}), x = text.argument({10, 10, 16});
  const Tensor v =
      text.generic({left, right, x}, {"d0, d5", "d1, d6", "d2 * 2 + d5, d3 * 2 + d6, d4", "d0, d1, d2, d3, d4"},
                   text.fill({4, 4, 4, 4, 16}, "0.0"), 7, "ppppprr", kTransformBody);
  for (const std::string& strategy : strategies(checkWorkload(text.finish({v})))) EXPECT_NE(strategy, "transform");
}

// Nor does a sum that starts from another tensor.
TEST(Transforms, SumsOntoAnotherTensorAreAReduction) {
  std::mt19937 random(3);
  WorkloadText text;
  const Tensor x = text.argument({6, 6, 16}), start = text.argument({4, 4, 2, 2, 16});
  const Tensor to_input = matrix(text, 4, 4, random);
  const Tensor v =
      text.generic({to_input, to_input, x}, {"d0, d5", "d1, d6", "d2 * 2 + d5, d3 * 2 + d6, d4", "d0, d1, d2, d3, d4"},
                   start, 7, "ppppprr", kTransformBody);
  for (const std::string& strategy : strategies(checkWorkload(text.finish({v})))) EXPECT_NE(strategy, "transform");
}

}  // namespace
}  // namespace tessera::compiler::codegen
