#include "compiler/loopnest/subscript.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::compiler::loopnest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string read(std::string_view text) {
  std::vector<std::string> names;
  const absl::StatusOr<Subscript> subscript = parseSubscript(text, names);
  return subscript.ok() ? print(*subscript, names) : std::string(subscript.status().message());
}

Subscript of(std::string_view text, std::vector<std::string> names) { return parseSubscript(text, names).value(); }

TEST(Subscript, IsReadAndPrintedBack) {
  EXPECT_EQ(read("2*h+r"), "2 * h + r");
  EXPECT_EQ(read(" r + h * 2 - 1 "), "r + 2 * h - 1");
  EXPECT_EQ(read("-i + 3"), "-i + 3");
  EXPECT_EQ(read("i + i - 2 * i"), "0");
  EXPECT_EQ(read("i.outer + 7 + 1"), "i.outer + 8");
}

TEST(Subscript, DigitsAreReadAndPrintedBack) {
  EXPECT_EQ(read("x/2%3"), "x / 2 % 3");
  EXPECT_EQ(read("(x / 2) % 3"), "x / 2 % 3");
  EXPECT_EQ(read("x % 7 * 3 + y"), "y + 3 * (x % 7)");
  EXPECT_EQ(read("3 * (x % 7)"), "3 * (x % 7)");
  EXPECT_EQ(read("(n * 49 + q) / 16 % 4 - 1"), "(49 * n + q) / 16 % 4 - 1");
  EXPECT_EQ(read("4 - ((x + y - 1) / 2)"), "-(x + y - 1) / 2 + 4");
  for (const char* text : {"x / 2 % 3", "y + 3 * (x % 7)", "(49 * n + q) / 16 % 4 - 1", "2 * ((x + 1) / 2)"})
    EXPECT_EQ(read(text), text);
}

TEST(Subscript, FaultsNameTheColumnAndWhatIsAccepted) {
  EXPECT_THAT(read("2 * h + "), HasSubstr("column 9: found the end"));
  EXPECT_THAT(read("h $ 2"), HasSubstr("column 3: found '$ 2'"));
  EXPECT_THAT(read("h * r"), HasSubstr("column 5"));
  EXPECT_THAT(read("2 * 3 * h"), HasSubstr("column 5"));
  EXPECT_THAT(read("99999999999"), HasSubstr("below 2^31"));
  EXPECT_THAT(read(std::string(300, 'a')), HasSubstr("at most 256"));
  EXPECT_THAT(read("x / 0"), HasSubstr("column 5: found '0', accepted is a number from 1"));
  EXPECT_THAT(read("x / y"), HasSubstr("column 5: found 'y'"));
  EXPECT_THAT(read("(x + 1) / 2 / 3"), HasSubstr("column 13: found '/ 3'"));
  EXPECT_THAT(read("2 * x / 4"), HasSubstr("column 7: found '/ 4'"));
  EXPECT_THAT(read("2 * (x + y)"), HasSubstr("accepted is '/' or '%'"));
  EXPECT_THAT(read("(x / 2 + y) / 3"), HasSubstr("column 8: found '+ y) / 3'"));
  EXPECT_THAT(read(std::string(200, '(')), HasSubstr("column 201: found the end"));
}

TEST(Subscript, UnknownNamesAreAppended) {
  std::vector<std::string> names = {"i", "j"};
  EXPECT_EQ(parseSubscript("j + k % 2", names)->terms, (std::vector<Term>{{1, 1}}));
  EXPECT_THAT(names, ElementsAre("i", "j", "k"));
}

TEST(Subscript, QuotientsRoundDown) {
  const Subscript half = of("(x - 3) / 2", {"x"}), rest = of("(x - 3) % 4", {"x"});
  for (int64_t x = 0; x < 9; ++x) {
    int64_t quotient = -2;  // counted upwards from floor(-3 / 2)
    while (2 * (quotient + 1) <= x - 3) ++quotient;
    EXPECT_EQ(half.at(std::vector<int64_t>{x}), quotient) << x;
    EXPECT_EQ(rest.at(std::vector<int64_t>{x}), (x + 1) % 4) << x;
  }
}

/// Every point of small loops is evaluated and compared with the range.
TEST(Subscript, RangesContainEveryValueAndAreExactForAffineOnes) {
  const std::vector<std::string> names = {"x", "y"};
  for (const char* text : {"x - 2 * y + 3", "(3 * x + y) / 4", "(3 * x + y) % 4", "(x + 8) % 8", "-(x / 2) + y",
                           "x / 2 % 2 - 3 * (y % 3)", "(x - 5) / 3"}) {
    const Subscript subscript = of(text, names);
    const std::vector<int64_t> extents = {6, 4};
    const Range range = rangeOf(subscript, extents);
    Range found{INT64_MAX, INT64_MIN};
    for (int64_t x = 0; x < extents[0]; ++x)
      for (int64_t y = 0; y < extents[1]; ++y) {
        const int64_t value = subscript.at(std::vector<int64_t>{x, y});
        found = {std::min(found.low, value), std::max(found.high, value)};
      }
    EXPECT_LE(range.low, found.low) << text;
    EXPECT_GE(range.high, found.high) << text;
    if (subscript.isAffine()) EXPECT_EQ(range.high - range.low, found.high - found.low) << text;
  }
  EXPECT_EQ(rangeOf(of("(x + 8) % 8", {"x"}), std::vector<int64_t>{6}).high, 5);  // within one period
  EXPECT_EQ(rangeOf(of("2147483647 * x", {"x"}), std::vector<int64_t>{INT64_MAX}).high, INT64_MAX);
}

TEST(Bound, IsADifferenceBelowZero) {
  const auto bound = [](std::string_view text) {
    std::vector<std::string> names;
    const absl::StatusOr<Subscript> read = parseBound(text, names);
    return read.ok() ? print(*read, names) : std::string(read.status().message());
  };
  EXPECT_EQ(bound("i + 2 * r < 16"), "i + 2 * r - 16");
  EXPECT_EQ(bound("i < j + i"), "-j");
  EXPECT_EQ(bound("i < j % 4"), "i - j % 4");
  EXPECT_THAT(bound("i > 3"), HasSubstr("accepted is '<'"));
}

}  // namespace
}  // namespace tessera::compiler::loopnest
