#include "compiler/runtime/output_extents.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::compiler {
namespace {

/// A tensor of `bounds` whose elements are their own offsets, packed to `extents`.
std::vector<int32_t> packed(const std::vector<int64_t>& bounds, const std::vector<int64_t>& extents) {
  int64_t count = 1, kept = 1;
  for (int64_t bound : bounds) count *= bound;
  for (int64_t extent : extents) kept *= extent;
  std::vector<int32_t> data(static_cast<size_t>(count));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(i);
  packDense(data.data(), sizeof(int32_t), bounds, extents);
  data.resize(static_cast<size_t>(kept));
  return data;
}

TEST(PackDense, TheOutermostDimensionNeedsNoMove) {
  EXPECT_EQ(packed({4, 3}, {2, 3}), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(packed({5}, {3}), (std::vector<int32_t>{0, 1, 2}));
}

TEST(PackDense, InnerDimensionsCloseUp) {
  EXPECT_EQ(packed({2, 4}, {2, 3}), (std::vector<int32_t>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(packed({2, 3, 4}, {2, 2, 4}),
            (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT_EQ(packed({2, 3, 4}, {2, 2, 1}), (std::vector<int32_t>{0, 4, 12, 16}));
  EXPECT_EQ(packed({3, 3}, {2, 2}), (std::vector<int32_t>{0, 1, 3, 4}));
}

TEST(PackDense, NothingAndEverything) {
  EXPECT_EQ(packed({4, 3}, {0, 3}), std::vector<int32_t>{});
  EXPECT_EQ(packed({4, 3}, {4, 0}), std::vector<int32_t>{});
  EXPECT_EQ(packed({2, 2}, {2, 2}), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(packed({}, {}), (std::vector<int32_t>{0}));
}

}  // namespace
}  // namespace tessera::compiler
