#include "clients/cli/shape_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace tessera::client {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseShapeTest, ReadsNameAndExtents) {
  auto shape = parseShape("x=1x3x224x224");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->name(), "x");
  EXPECT_EQ(std::vector<int64_t>(shape->shape().begin(), shape->shape().end()), (std::vector<int64_t>{1, 3, 224, 224}));
}

TEST(ParseShapeTest, NamesMayHoldAnything) {
  auto shape = parseShape("a=b:0=7");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->name(), "a=b:0");
  EXPECT_EQ(shape->shape_size(), 1);
}

TEST(ParseShapeTest, AScalarHasNoExtents) {
  auto shape = parseShape("x=");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->shape_size(), 0);
}

TEST(ParseShapeTest, RefusesWhatIsNoShape) {
  for (const char* text : {"", "x", "=3", "x=3xN", "x=3x", "x=x3", "x=3xx3", "x=-1", "x=1x99999999999999999999"}) {
    EXPECT_EQ(parseShape(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseDimensionTest, ReadsListsAndRanges) {
  EXPECT_THAT(parseDimension("batch=1")->sizes, ElementsAre(1));
  EXPECT_THAT(parseDimension("batch=8,1,4")->sizes, ElementsAre(8, 1, 4));
  EXPECT_THAT(parseDimension("seq=128..512:128")->sizes, ElementsAre(128, 256, 384, 512));
  EXPECT_THAT(parseDimension("n=1..3,8")->sizes, ElementsAre(1, 2, 3, 8));
  EXPECT_THAT(parseDimension("n=3..3")->sizes, ElementsAre(3));
  EXPECT_THAT(parseDimension("n=1..6:4")->sizes, ElementsAre(1, 5));
  EXPECT_EQ(parseDimension("a=b=7")->name, "a=b");
  EXPECT_FALSE(parseDimension("n=1..3,8")->range);
}

TEST(ParseDimensionTest, ADimensionMayFollowFromOthers) {
  const auto parsed = parseDimension("total=past + tokens");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->name, "total=past + tokens");
  EXPECT_THAT(parsed->sizes, ElementsAre(0));
  EXPECT_FALSE(parsed->range);
  EXPECT_EQ(parseDimension("n=floor(m/2)")->name, "n=floor(m/2)");
  for (const char* text : {"n=m", "n=-1", "n=1+2", "n=1..k+1"})
    EXPECT_EQ(parseDimension(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
}

TEST(ParseDimensionTest, ARangeIsItsEndsAndThePowersOfTwoBetween) {
  EXPECT_THAT(parseDimension("n=1..64")->sizes, ElementsAre(1, 2, 4, 8, 16, 32, 64));
  EXPECT_THAT(parseDimension("n=3..9")->sizes, ElementsAre(3, 6, 9));
  EXPECT_THAT(parseDimension("h=7..224")->sizes, ElementsAre(7, 14, 28, 56, 112, 224));
  EXPECT_THAT(parseDimension("n=1..2")->sizes, ElementsAre(1, 2));
  EXPECT_THAT(parseDimension("past=0..5")->sizes, ElementsAre(1, 2, 4, 5));
  EXPECT_TRUE(parseDimension("past=0..5")->range);
  EXPECT_THAT(parseDimension("n=0..1")->sizes, ElementsAre(0, 1));
  EXPECT_FALSE(parseDimension("n=0..5:1")->range);
  EXPECT_TRUE(parseDimension("n=1..1000")->range);
  ShapeFlags flags;
  flags.dimensions = {"n=1..3"};
  v1::CompileSpec spec;
  ASSERT_TRUE(flags.fill(spec).ok());
  ASSERT_EQ(spec.specializations_size(), 3);
  EXPECT_EQ(spec.specializations(1).dimensions(0).size(), -2);
}

TEST(ParseDimensionTest, ARangeMayBeItsGreatestSizeAlone) {
  EXPECT_THAT(parseDimension("n=..64")->sizes, ElementsAre(64));
  EXPECT_THAT(parseDimension("n=..64,..8")->sizes, ElementsAre(8, 64));
  EXPECT_TRUE(parseDimension("n=..8,..64")->range);
  for (const char* text : {"n=..", "n=..0", "n=..-3", "n=..8,64", "n=8,..64", "n=..8,..8", "n=..64:2", "n=...8"})
    EXPECT_EQ(parseDimension(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  v1::CompileSpec spec;
  ASSERT_TRUE((ShapeFlags{{}, {"h=..512", "w=..64"}}).fill(spec).ok());
  EXPECT_EQ(spec.ShortDebugString(), "dimensions { name: \"h\" size: -512 } dimensions { name: \"w\" size: -64 }");
  // Explicitly listed sizes are not thinned.
  spec.Clear();
  ASSERT_TRUE((ShapeFlags{{}, {"h=..8,..16,..32,..64,..128", "w=1..64"}}).fill(spec).ok());
  EXPECT_EQ(spec.specializations_size() % 5, 0);
  EXPECT_LE(spec.specializations_size(), 16);
}

TEST(ShapeFlagsTest, SeveralRangesAreCombinedSparselyAndSaySo) {
  ShapeFlags flags{{}, {"h=32..512", "w=32..500", "c=3"}};
  v1::CompileSpec spec;
  ASSERT_TRUE(flags.fill(spec).ok());
  EXPECT_EQ(spec.dimensions_size(), 1);
  EXPECT_EQ(spec.specializations_size(), 9);
  EXPECT_EQ(spec.specializations(8).ShortDebugString(),
            "dimensions { name: \"h\" size: -512 } dimensions { name: \"w\" size: -500 }");
  EXPECT_THAT(flags.rangesText(), HasSubstr("h=32,128,512 w=32,128,500, 9 combinations"));
  spec.Clear();
  // Few enough variants: nothing is omitted.
  ASSERT_TRUE((ShapeFlags{{}, {"n=1..4", "m=1..8"}}).fill(spec).ok());
  EXPECT_EQ(spec.specializations_size(), 12);
  EXPECT_EQ((ShapeFlags{{}, {"n=1..64"}}).rangesText(), "");
}

TEST(ShapeFlagsTest, OfManyRangesTheLastKeepTheirGreatestSize) {
  v1::CompileSpec spec;
  ASSERT_TRUE((ShapeFlags{{}, {"a=1..8", "b=1..8", "c=1..8", "d=1..8", "e=1..8", "f=1..8"}}).fill(spec).ok());
  ASSERT_EQ(spec.specializations_size(), 16);
  // A range with one remaining size gives this size to all variants.
  ASSERT_EQ(spec.ShortDebugString().substr(0, 74),
            R"(dimensions { name: "e" size: -8 } dimensions { name: "f" size: -8 } specia)");
  std::vector<std::set<int64_t>> sizes(4);
  for (const v1::Specialization& each : spec.specializations()) {
    ASSERT_EQ(each.dimensions_size(), 4);
    for (int d = 0; d < 4; ++d) sizes[d].insert(each.dimensions(d).size());
  }
  EXPECT_THAT(sizes, Each(ElementsAre(-8, -1)));
}

TEST(ParseDimensionTest, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "batch", "=1", "batch=", "batch=x", "batch=-1", "batch=1,", "n=4..1", "n=1..8:0", "n=1..2..3",
        "n=1..1000:1", "n=1,1", "n=1..4,3", "n=99999999999999999999", "n=0..9223372036854775807"}) {
    EXPECT_EQ(parseDimension(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

std::vector<std::string> variantsOf(const v1::CompileSpec& spec) {
  std::vector<std::string> texts;
  for (const auto& variant : spec.specializations()) texts.push_back(variant.ShortDebugString());
  return texts;
}

TEST(ShapeFlagsTest, OneSizeBindsInTheSpecItself) {
  v1::CompileSpec spec;
  ASSERT_TRUE((ShapeFlags{{"x=2x3"}, {"batch=2"}}).fill(spec).ok());
  EXPECT_EQ(spec.specializations_size(), 0);
  EXPECT_EQ(spec.dimensions(0).ShortDebugString(), "name: \"batch\" size: 2");
  EXPECT_EQ(spec.input_shapes(0).ShortDebugString(), "name: \"x\" shape: 2 shape: 3");
}

TEST(ShapeFlagsTest, SeveralSizesAreMultiplied) {
  v1::CompileSpec spec;
  ASSERT_TRUE((ShapeFlags{{"x=2x3"}, {"b=1,4", "fixed=7", "s=8,9"}}).fill(spec).ok());
  EXPECT_EQ(spec.dimensions_size(), 1);
  EXPECT_EQ(spec.input_shapes_size(), 1);
  EXPECT_THAT(variantsOf(spec), ElementsAre("dimensions { name: \"b\" size: 1 } dimensions { name: \"s\" size: 8 }",
                                            "dimensions { name: \"b\" size: 1 } dimensions { name: \"s\" size: 9 }",
                                            "dimensions { name: \"b\" size: 4 } dimensions { name: \"s\" size: 8 }",
                                            "dimensions { name: \"b\" size: 4 } dimensions { name: \"s\" size: 9 }"));
}

TEST(ShapeFlagsTest, RepeatedShapesOfSeveralInputsGoTogether) {
  v1::CompileSpec spec;
  ASSERT_TRUE((ShapeFlags{{"x=1", "y=1", "x=2", "y=2", "z=5"}, {}}).fill(spec).ok());
  EXPECT_EQ(spec.input_shapes(0).name(), "z");
  EXPECT_THAT(variantsOf(spec),
              ElementsAre("input_shapes { name: \"x\" shape: 1 } input_shapes { name: \"y\" shape: 1 }",
                          "input_shapes { name: \"x\" shape: 2 } input_shapes { name: \"y\" shape: 2 }"));
  EXPECT_THAT(std::string((ShapeFlags{{"x=1", "x=2", "y=1", "y=2", "y=3"}, {}}).fill(spec).message()),
              HasSubstr("input 'y' has 3 shapes, an input before has 2"));
}

TEST(ShapeFlagsTest, RefusesTooManyAndTwice) {
  v1::CompileSpec spec;
  EXPECT_THAT(std::string((ShapeFlags{{}, {"b=1..8:1", "s=1..9:1"}}).fill(spec).message()),
              HasSubstr("72 variants (b: 8, s: 9); an artifact holds at most 64"));
  EXPECT_THAT(std::string((ShapeFlags{{}, {"b=1", "b=2"}}).fill(spec).message()), HasSubstr("'b' is bound before"));
  spec.Clear();
  EXPECT_TRUE((ShapeFlags{{}, {"b=1..8:1", "s=1..8:1"}}).fill(spec).ok());
  EXPECT_EQ(spec.specializations_size(), 64);
}

TEST(ShapeFlagsTest, AChoiceHasOneOfEach) {
  auto choice = ShapeFlags{{"x=2x3"}, {"b=4"}}.choice();
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->dimensions(0).size(), 4);
  EXPECT_EQ(choice->input_shapes(0).name(), "x");
  EXPECT_FALSE((ShapeFlags{{}, {"b=4,5"}}).choice().ok());
}

}  // namespace
}  // namespace tessera::client
