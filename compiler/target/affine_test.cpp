#include "compiler/target/affine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/target/stride.h"

namespace tessera::compiler {
namespace {

using ::testing::HasSubstr;

std::string read(std::string_view text) {
  const absl::StatusOr<Affine> affine = parseAffine(text);
  return affine.ok() ? print(*affine) : std::string(affine.status().message());
}

TEST(Affine, IsReadAndPrintedBack) {
  EXPECT_EQ(read("2*h+r"), "2 * h + r");
  EXPECT_EQ(read(" r + h * 2 - 1 "), "r + 2 * h - 1");
  EXPECT_EQ(read("-i + 3"), "-i + 3");
  EXPECT_EQ(read("i + i - 2 * i"), "0");
  EXPECT_EQ(read("i.outer + 7 + 1"), "i.outer + 8");
}

TEST(Affine, FaultsNameTheColumnAndWhatIsAccepted) {
  EXPECT_THAT(read("2 * h + "), HasSubstr("column 9: found the end"));
  EXPECT_THAT(read("h $ 2"), HasSubstr("column 3: found '$ 2'"));
  EXPECT_THAT(read("h * r"), HasSubstr("column 5"));
  EXPECT_THAT(read("2 * 3 * h"), HasSubstr("column 5"));
  EXPECT_THAT(read("99999999999"), HasSubstr("below 2^31"));
  EXPECT_THAT(read(std::string(300, 'a')), HasSubstr("at most 256"));
}

TEST(Affine, BoundsAreDifferencesBelowZero) {
  EXPECT_EQ(print(parseBound("i + 2 * r < 16").value()), "i + 2 * r - 16");
  EXPECT_EQ(print(parseBound("i < j + i").value()), "-j");
  EXPECT_THAT(std::string(parseBound("i > 3").status().message()), HasSubstr("accepted is '<'"));
}

TEST(Stride, PartsAreFastestFirst) {
  EXPECT_EQ(parseStride("free").value().outer, Stride::kFree);
  EXPECT_EQ(parseStride("16").value().outer, 16);
  const Stride rows = parseStride("4:1,free").value();
  EXPECT_EQ(rows.inner, (std::vector<Stride::Part>{{4, 1}}));
  EXPECT_EQ(rows.outer, Stride::kFree);
  for (const char* text : {"", "fre", "-1", "4:1", "4,free", "0:1,free", "1:1,1:1,1:1,1:1,1"}) {
    EXPECT_THAT(std::string(parseStride(text).status().message()), HasSubstr("is no stride")) << text;
  }
}

}  // namespace
}  // namespace tessera::compiler
