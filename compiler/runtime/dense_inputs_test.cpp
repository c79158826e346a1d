#include "compiler/runtime/dense_inputs.h"

#include <gtest/gtest.h>

#include <numeric>

#include "compiler/runtime/tessera.h"

namespace tessera::compiler {
namespace {

/// An input f32[3, 2, 4] whose first and last dimensions are ranges, and another one without ranges.
struct Inputs {
  int64_t shape[3] = {3, 2, 4};
  int32_t ranges[3] = {0, -1, 1};
  tessera_module_tensor tensors[3] = {{"n", TESSERA_F32, 3, shape, 96, nullptr},
                                      {"x", TESSERA_F32, 3, shape, 96, ranges},
                                      {"z", TESSERA_F32, 3, shape, 96, ranges}};
  tessera_module_variant variant = {};
  alignas(64) float memory[64] = {};

  Inputs() { variant.inputs = tensors; }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(memory); }
};

std::vector<float> counted(size_t size, float first) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(DenseInputs, ElementsLieAsKernelsReadThem) {
  Inputs inputs;
  DenseInputs dense(inputs.variant, 3);
  EXPECT_EQ(dense.bytes(), 256);  // two of 96, each at a multiple of 64
  const std::vector<int64_t> extents = {2, 2, 3};
  const std::vector<float> values = counted(12, 1);
  EXPECT_EQ(dense.place(inputs.bytes(), 2, values.data(), extents), inputs.bytes() + 128);
  const float* placed = inputs.memory + 32;
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 2; ++b)
      for (int c = 0; c < 4; ++c)
        EXPECT_EQ(placed[(a * 2 + b) * 4 + c], a < 2 && c < 3 ? values[static_cast<size_t>((a * 2 + b) * 3 + c)] : 0);
}

TEST(DenseInputs, NothingOfALargerRunIsLeftBehind) {
  Inputs inputs;
  DenseInputs dense(inputs.variant, 3);
  const std::vector<float> many = counted(24, 1), few = counted(2, 7), none;
  dense.place(inputs.bytes(), 1, many.data(), std::vector<int64_t>{3, 2, 4});
  dense.place(inputs.bytes(), 1, few.data(), std::vector<int64_t>{1, 2, 1});
  for (int i = 0; i < 24; ++i) EXPECT_EQ(inputs.memory[i], i == 0 ? 7 : i == 4 ? 8 : 0) << i;
  dense.place(inputs.bytes(), 1, none.data(), std::vector<int64_t>{0, 2, 4});
  for (int i = 0; i < 24; ++i) EXPECT_EQ(inputs.memory[i], 0) << i;
}

}  // namespace
}  // namespace tessera::compiler
