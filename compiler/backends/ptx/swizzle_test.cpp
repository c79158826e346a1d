#include "compiler/backends/ptx/swizzle.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera::compiler::ptx {
namespace {

TEST(Swizzle, ColumnsOfChunksLieInDifferentBanksAndNoTwoBytesInOnePlace) {
  const Banks banks{32, 4};
  for (const int64_t row_bytes : {16, 32, 64, 128, 256, 512}) {
    const Swizzle swizzle = swizzleOf(row_bytes, 16, banks);
    std::set<int64_t> places;
    for (int64_t row = 0; row < 64; ++row) {
      for (int64_t byte = 0; byte < row_bytes; ++byte) places.insert(swizzle.addressOf(row, byte));
    }
    EXPECT_EQ(places.size(), static_cast<size_t>(64 * row_bytes));
    EXPECT_EQ(*places.rbegin(), 64 * row_bytes - 1);
    for (int64_t first = 0; first < 64; first += 8) {
      for (int64_t byte = 0; byte < row_bytes; byte += 16) {
        std::vector<int64_t> column;
        for (int64_t row = first; row < first + 8; ++row) column.push_back(swizzle.addressOf(row, byte));
        EXPECT_EQ(cyclesOf(column, 16, banks), 1) << row_bytes << " " << first << " " << byte;
      }
    }
  }
}

TEST(Swizzle, RowsAsTheyAreMeetInOneBank) {
  const Banks banks{32, 4};
  EXPECT_EQ(cyclesOf({0, 128, 256, 384, 512, 640, 768, 896}, 16, banks), 8);
  EXPECT_EQ(cyclesOf({0, 64, 128, 192}, 16, banks), 2);
  EXPECT_EQ(cyclesOf({4, 4, 4}, 4, banks), 1);
  EXPECT_EQ(cyclesOf({0, 4, 8}, 4, Banks{}), 1);
}

}  // namespace
}  // namespace tessera::compiler::ptx
