#include "compiler/measure/kernels.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tessera::compiler {
namespace {

/// Increasing elements, aligned like vectors.
class Memory {
 public:
  explicit Memory(int64_t elements) : elements(elements), values_(static_cast<size_t>(elements) + 16) {
    while (reinterpret_cast<uintptr_t>(&values_[first_]) % 64 != 0) ++first_;
    std::iota(&values_[first_], &values_[first_] + elements, 0.0F);
  }
  float& operator[](int64_t at) { return values_[first_ + static_cast<size_t>(at)]; }
  const int64_t elements;

 private:
  std::vector<float> values_;
  size_t first_ = 0;
};

// For every width of this machine: the times are meaningful only if the loops do what they claim.
class KernelsTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    kernels = kernelsFor(GetParam());
    if (!kernels || kernels->lanes * 32 != GetParam()) GTEST_SKIP() << "not on this machine";
  }
  const Kernels* kernels = nullptr;
};

TEST_P(KernelsTest, TurningIsATransposition) {
  constexpr int64_t kRows = 48, kColumns = 80, kFromRow = 96, kToRow = 64;
  Memory from(kRows * kFromRow), to(kColumns * kToRow);
  for (int64_t i = 0; i < to.elements; ++i) to[i] = -1;
  kernels->turn(&from[0], kFromRow, &to[0], kToRow, kRows, kColumns);
  for (int64_t column = 0; column < kColumns; ++column)
    for (int64_t row = 0; row < kToRow; ++row)
      ASSERT_EQ(to[column * kToRow + row], row < kRows ? from[row * kFromRow + column] : -1) << column << " " << row;
}

TEST_P(KernelsTest, CopiesAndWritesAreWhole) {
  Memory from(1024), to(1040);
  kernels->copy(&from[0], &to[0], 1024);
  for (int64_t i = 0; i < 1040; ++i) ASSERT_EQ(to[i], static_cast<float>(i));
  kernels->write(&to[0], 1024);
  for (int64_t i = 0; i < 1040; ++i) ASSERT_EQ(to[i], i < 1024 ? 1 : static_cast<float>(i));
}

TEST_P(KernelsTest, LanesAreStoredApart) {
  Memory to(16 * 20);
  for (int64_t i = 0; i < to.elements; ++i) to[i] = -1;
  kernels->storeLanes(&to[0], 20, 3);
  for (int64_t i = 0; i < to.elements; ++i) ASSERT_EQ(to[i], i / 20 < kernels->lanes && i % 20 < 3 ? 1 : -1) << i;
}

INSTANTIATE_TEST_SUITE_P(Widths, KernelsTest, testing::Values(128, 256, 512));

}  // namespace
}  // namespace tessera::compiler
