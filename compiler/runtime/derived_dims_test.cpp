#include "compiler/runtime/derived_dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tessera::compiler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// past is at most 63, tokens is 2, a mask is as long as both together, and another range is half of past.
struct Decoder {
  tessera_module_dimension dimensions[4] = {{"past + tokens", -65}, {"past", -63}, {"tokens", 2}, {"past/2", -31}};
  int64_t shape[1] = {65};
  int32_t ranges[1] = {0};
  tessera_module_tensor inputs[2] = {{"x", 1, 0, nullptr, 4, nullptr}, {"mask", 1, 1, shape, 260, ranges}};
  tessera_module_variant variant{};
  Decoder() {
    variant.dimensions = dimensions;
    variant.num_dimensions = 4;
  }
};

TEST(DerivedDims, AreThoseOfTheirNames) {
  const Decoder decoder;
  const DerivedDims derived(decoder.variant);
  EXPECT_FALSE(derived.empty());
  EXPECT_TRUE(derived.has(0));
  EXPECT_FALSE(derived.has(1));
  EXPECT_FALSE(derived.has(2));
  EXPECT_TRUE(derived.check(std::vector<int64_t>{6, 4, 2, 2}, decoder.inputs).ok());
  EXPECT_TRUE(derived.check(std::vector<int64_t>{2, 0, 2, 0}, decoder.inputs).ok());
}

TEST(DerivedDims, ThatAreOthersAreRefusedByTheInput) {
  const Decoder decoder;
  const DerivedDims derived(decoder.variant);
  const RuntimeStatus longer = derived.check(std::vector<int64_t>{8, 4, 2, 2}, decoder.inputs);
  EXPECT_EQ(longer.code(), TESSERA_INVALID_ARGUMENT);
  EXPECT_THAT(longer.message(), HasSubstr("input 'mask' has 8 along 'past + tokens', which is 6 for past=4, tokens=2"));
  const RuntimeStatus half = derived.check(std::vector<int64_t>{6, 4, 2, 3}, decoder.inputs);
  EXPECT_THAT(half.message(), HasSubstr("input 'past/2' has 3 along 'past/2', which is 2 for past=4"));
  const RuntimeStatus odd = derived.check(std::vector<int64_t>{7, 5, 2, 2}, decoder.inputs);
  EXPECT_EQ(odd.code(), TESSERA_INVALID_ARGUMENT);
  EXPECT_THAT(odd.message(), HasSubstr("dimension 'past/2' has no size for past=5"));
}

TEST(DerivedDims, CompleteWhatIsNotKnown) {
  Decoder decoder;
  std::vector<int64_t> sizes = {-1, 4, -1, -1};
  EXPECT_TRUE(DerivedDims(decoder.variant).complete(sizes).ok());
  EXPECT_THAT(sizes, ElementsAre(6, 4, 2, 2));
  sizes = {9, 4, 2, -1};  // refusing it is the task of check()
  EXPECT_TRUE(DerivedDims(decoder.variant).complete(sizes).ok());
  EXPECT_THAT(sizes, ElementsAre(9, 4, 2, 2));
  sizes = {-1, -1, -1, -1};
  const RuntimeStatus odd = DerivedDims(decoder.variant).complete(sizes);
  EXPECT_THAT(odd.message(), HasSubstr("'past/2' has no size for past=63"));
  decoder.dimensions[3] = {"half", -31};
  sizes = {-1, -1, -1, -1};
  EXPECT_TRUE(DerivedDims(decoder.variant).complete(sizes).ok());
  EXPECT_THAT(sizes, ElementsAre(65, 63, 2, 31));
}

TEST(DerivedDims, WhatIsNoRangeFollowsNothing) {
  Decoder decoder;
  decoder.dimensions[0].size = 65;
  decoder.dimensions[3].size = 31;
  EXPECT_TRUE(DerivedDims(decoder.variant).empty());
}

}  // namespace
}  // namespace tessera::compiler
