#include "compiler/target/dot_product.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

v1::Intrinsic intrinsic(const std::string& text) {
  v1::Intrinsic parsed;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &parsed));
  return parsed;
}

TEST(DotProduct, IsFoundByWhatItComputesNotByItsName) {
  google::protobuf::RepeatedPtrField<v1::Intrinsic> all;
  *all.Add() = intrinsic(R"(
      name: "pairs" emit: "llvm.x86.avx2.pmadd.wd"
      iterations { name: "i" extent: 8 } iterations { name: "r" extent: 2 reduction: true }
      operands { name: "acc" dtype: DATA_TYPE_I32 subscripts: "i" }
      operands { name: "a" dtype: DATA_TYPE_I16 subscripts: "i" subscripts: "r" }
      operands { name: "b" dtype: DATA_TYPE_I16 subscripts: "i" subscripts: "r" })");
  *all.Add() = intrinsic(R"(
      name: "quads" emit: "llvm.x86.avx512.vpdpbusd.256"
      iterations { name: "x" extent: 8 } iterations { name: "y" extent: 4 reduction: true }
      operands { name: "acc" dtype: DATA_TYPE_I32 subscripts: "x" }
      operands { name: "a" dtype: DATA_TYPE_U8 subscripts: "x" subscripts: "y" }
      operands { name: "b" dtype: DATA_TYPE_I8 subscripts: "x" subscripts: "y" })");
  const std::vector<DotProduct> found = dotProducts(all);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "quads");
  EXPECT_FALSE(found[0].first_signed);
  EXPECT_TRUE(found[0].second_signed);
  EXPECT_EQ(found[0].products(), 32);
  EXPECT_EQ(found[1].bits, 16);
  EXPECT_TRUE(found[0].accumulates);
}

TEST(DotProduct, OthersAreNone) {
  const std::string head = R"(name: "x" emit: "llvm.x" iterations { name: "i" extent: 8 }
      iterations { name: "r" extent: 4 reduction: true } operands { name: "acc" subscripts: "i" dtype: )";
  const std::string a = R"( operands { name: "a" subscripts: "i" subscripts: "r" dtype: )";
  const std::string b = R"( operands { name: "b" subscripts: "i" dtype: DATA_TYPE_I8 )";
  google::protobuf::RepeatedPtrField<v1::Intrinsic> all;
  *all.Add() = intrinsic(head + "DATA_TYPE_I16 }" + a + "DATA_TYPE_I8 }" + b + R"(subscripts: "r" })");  // narrow sums
  *all.Add() = intrinsic(head + "DATA_TYPE_I32 }" + a + "DATA_TYPE_I8 }" + b + "}");  // one operand for all neighbours
  *all.Add() = intrinsic(head + "DATA_TYPE_I32 }" + a + "DATA_TYPE_F16 }" + b + R"(subscripts: "r" })");
  // Integer sums, operands of two types, a group that does not fill a sum.
  for (const auto& [sum, first, second, group] :
       {std::tuple("I32", "BF16", "BF16", 2), {"F32", "BF16", "I16", 2}, {"F32", "BF16", "BF16", 4}})
    *all.Add() = intrinsic(absl::StrCat(
        R"(name: "x" emit: "llvm.x" iterations { name: "i" extent: 8 } iterations { name: "r" reduction: true extent: )",
        group, R"( } operands { name: "acc" subscripts: "i" dtype: DATA_TYPE_)", sum,
        R"( } operands { name: "a" subscripts: "i" subscripts: "r" dtype: DATA_TYPE_)", first,
        R"( } operands { name: "b" subscripts: "i" subscripts: "r" dtype: DATA_TYPE_)", second, " }"));
  EXPECT_TRUE(dotProducts(all).empty());
}

TEST(DotProduct, TargetsHaveThoseOfTheirFeatures) {
  auto best = [](const std::string& name) {
    const v1::Target* target = findBuiltinTarget(name);
    const auto found = target ? dotProducts(usableInstructions(*target)) : std::vector<DotProduct>();
    return found.empty() ? "" : found[0].name;
  };
  EXPECT_EQ(best("cascadelake"), "vpdpbusd.512");
  EXPECT_EQ(best("haswell"), "vpmaddwd.256");
  EXPECT_EQ(best("alderlake"), "vpdpbusd.256");
  EXPECT_EQ(best("sm_80"), "");
  v1::Target without = *findBuiltinTarget("cascadelake");
  without.mutable_code()->clear_features();
  EXPECT_TRUE(usableInstructions(without).empty()) << "code may not use what no host has to have";
}

TEST(DotProduct, OfHalvesWhereTheChipHasThem) {
  auto halves = [](const std::string& name) {
    std::string found;
    for (const DotProduct& each : dotProducts(usableInstructions(*findBuiltinTarget(name))))
      if (each.floating) found = absl::StrCat(each.name, " ", each.lanes, "x", each.group);
    return found;
  };
  EXPECT_EQ(halves("znver4"), "vdpbf16ps.512 16x2");
  EXPECT_EQ(halves("sapphirerapids"), "vdpbf16ps.512 16x2");
  EXPECT_EQ(halves("neoverse-v1"), "bfdot.128 4x2");
  EXPECT_EQ(halves("cascadelake"), "");
  const auto both = dotProducts(usableInstructions(*findBuiltinTarget("znver4")));
  EXPECT_EQ(dotProductGroup(both, 16), 2);
  EXPECT_EQ(dotProductGroup(both, 8), 4);
  EXPECT_EQ(dotProductGroup(dotProducts(usableInstructions(*findBuiltinTarget("cascadelake"))), 16), 0);
}

TEST(DotProduct, PairsThatSaturateStandBesideWhatAddsThemUp) {
  const auto pairs = pairProducts(usableInstructions(*findBuiltinTarget("haswell")));
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].name, "vpmaddubsw.256");
  EXPECT_EQ(pairs[0].operands, (std::vector<int>{1, 2}));
  EXPECT_EQ(pairs[0].sums.name, "vpmaddwd.256");
  EXPECT_TRUE(pairProducts(usableInstructions(*findBuiltinTarget("neoverse-v1"))).empty());
  google::protobuf::RepeatedPtrField<v1::Intrinsic> alone;
  for (const v1::Intrinsic& each : usableInstructions(*findBuiltinTarget("haswell")))
    if (each.name() != "vpmaddwd.256") *alone.Add() = each;
  EXPECT_TRUE(pairProducts(alone).empty()) << "nothing adds up their sums";
}

TEST(DotProduct, NoneSaturates) {
  for (const v1::Target& target : builtinTargets())
    for (const DotProduct& each : dotProducts(usableInstructions(target)))
      EXPECT_EQ(each.name.find("dpbusds"), std::string::npos) << target.name();
}

}  // namespace
}  // namespace tessera::compiler
