#include "compiler/ir/dimension_formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::compiler {
namespace {

using ::testing::Optional;

constexpr std::string_view kNames[] = {"N", "past_sequence_length", "s0", "seq.len", "floor"};

std::optional<DimensionFormula> parse(std::string_view name) { return DimensionFormula::parse(name, kNames); }

/// Evaluates at N = `n`, past_sequence_length = 5, s0 = 7, seq.len = 2, floor = 3.
std::optional<int64_t> at(std::string_view name, int64_t n) {
  const auto formula = parse(name);
  EXPECT_TRUE(formula) << name;
  const int64_t sizes[] = {n, 5, 7, 2, 3};
  return formula ? formula->value(sizes) : std::nullopt;
}

TEST(DimensionFormula, SaysWhatExportersNameDimensionsBy) {
  EXPECT_THAT(at("N + 1", 4), Optional(5));
  EXPECT_THAT(at("past_sequence_length + N", 4), Optional(9));
  EXPECT_THAT(at("1+N+past_sequence_length", 4), Optional(10));
  EXPECT_THAT(at("2*N", 4), Optional(8));
  EXPECT_THAT(at("N*s0", 4), Optional(28));
  EXPECT_THAT(at("2*N - 1", 4), Optional(7));
  EXPECT_THAT(at("-1 + N", 4), Optional(3));
  EXPECT_THAT(at("(N//2)", 5), Optional(2));
  EXPECT_THAT(at("N - 1//2", 5), Optional(5));
  EXPECT_THAT(at("10 - N - 3", 2), Optional(5));
  EXPECT_THAT(at("2*(N + seq.len)*3", 1), Optional(18));
  EXPECT_THAT(at("floor(N/2)", 5), Optional(2));
  EXPECT_THAT(at("ceiling(N/2)", 5), Optional(3));
  EXPECT_THAT(at("floor(N/2 - 1/2) + 1", 5), Optional(3));
  EXPECT_THAT(at("floor(N/2 - 1/2) + 1", 6), Optional(3));
  EXPECT_THAT(at("floor(N/2 - 1/3)", 0), std::nullopt);  // -1
  EXPECT_THAT(at("floor + N", 4), Optional(7));          // a dimension of that name
  EXPECT_THAT(at("N/2 + s0/2", 3), Optional(5));
}

TEST(DimensionFormula, HasNoValueWhereThereIsNoSuchSize) {
  EXPECT_EQ(at("N/2", 5), std::nullopt);
  EXPECT_THAT(at("N/2", 6), Optional(3));
  EXPECT_EQ(at("N - 3", 2), std::nullopt);
  EXPECT_THAT(at("N - 3", 3), Optional(0));
  EXPECT_EQ(at("N*N*N", int64_t{1} << 40), std::nullopt);
  EXPECT_EQ(at("N*N", int64_t{1} << 31), std::nullopt);
  EXPECT_THAT(at("N*N", int64_t{1} << 30), Optional(int64_t{1} << 60));
}

TEST(DimensionFormula, OfOtherNamesIsNone) {
  for (const char* name : {"N",       "s0 ",     "(s0)",   "M",      "N + M",
                           "batch",   "2",       "2 + 3",  "",       " ",
                           "N +",     "+ N",     "N N",    "N + 2x", "N / 0",
                           "N/s0",    "N//s0",   "N % 2",  "N**2",   "Max(N, 1)",
                           "floor(N", "floor N", "(N + 1", "N + 1)", "N + 99999999999",
                           "N + 0.5", "seq-len", "N\n+ 1", "N;DROP"}) {
    EXPECT_FALSE(parse(name)) << name;
  }
}

TEST(DimensionFormula, IsBoundedInItsLength) {
  std::string sum = "N";
  for (int i = 0; i < 30; ++i) sum += " + N";
  EXPECT_TRUE(parse(sum));
  for (int i = 0; i < 30; ++i) sum += " + N";
  EXPECT_FALSE(parse(sum));
  const std::string nested = std::string(100'000, '(') + "N + 1";
  EXPECT_FALSE(parse(nested));
  EXPECT_FALSE(parse(std::string(100'000, '-') + "N"));
  std::vector<std::string_view> names(DimensionFormula::kMaxNames, "N");
  EXPECT_TRUE(DimensionFormula::parse("N + 1", names));
  names.emplace_back("M");
  EXPECT_FALSE(DimensionFormula::parse("N + 1", names));
  std::string deep = "N";  // each operand waits on the stack
  for (int i = 0; i < 20; ++i) deep += " + (N";
  EXPECT_FALSE(parse(deep + std::string(20, ')')));
}

TEST(DimensionFormula, IsAtMostWhatItsBoundsAllow) {
  const DimensionFormula::Bounds bounds[] = {{0, 63}, {1, 1}, {0, 8}, {2, 2}, {0, 0}};
  EXPECT_THAT(parse("N + 1")->greatest(bounds), Optional(64));
  EXPECT_THAT(parse("N + s0*past_sequence_length")->greatest(bounds), Optional(71));
  EXPECT_THAT(parse("N - s0")->greatest(bounds), Optional(63));
  EXPECT_THAT(parse("s0 - N")->greatest(bounds), Optional(8));
  EXPECT_THAT(parse("(s0 - N)*(2 - s0)")->greatest(bounds), Optional(378));  // -63 * -6
  EXPECT_THAT(parse("N/2")->greatest(bounds), Optional(31));
  EXPECT_THAT(parse("ceiling(N/2)")->greatest(bounds), Optional(32));
  EXPECT_THAT(parse("floor - 2")->greatest(bounds), Optional(-2));
  EXPECT_EQ(parse("s0*4294967296*4294967296")->greatest(bounds), std::nullopt);
  EXPECT_TRUE(parse("N + s0")->reads(2));
  EXPECT_FALSE(parse("N + s0")->reads(1));
}

}  // namespace
}  // namespace tessera::compiler
