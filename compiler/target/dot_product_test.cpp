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

/// smmla, with subscripts of the sources in any order.
v1::Intrinsic matrices(const std::string& first, const std::string& second) {
  return intrinsic(absl::StrCat(R"(
      name: "matrices" emit: "llvm.aarch64.neon.smmla.v4i32.v16i8"
      iterations { name: "i" extent: 2 } iterations { name: "j" extent: 2 } iterations { name: "r" extent: 8 reduction: true }
      operands { name: "acc" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "j" }
      operands { name: "a" dtype: DATA_TYPE_I8 )",
                                first, R"( } operands { name: "b" dtype: DATA_TYPE_I8 )", second, " }"));
}

TEST(DotProduct, OfSmallMatricesSayWhichElementEachLaneHolds) {
  const std::string rows = R"(subscripts: "i" subscripts: "r")", columns = R"(subscripts: "j" subscripts: "r")";
  google::protobuf::RepeatedPtrField<v1::Intrinsic> all;
  *all.Add() = matrices(rows, columns);
  *all.Add() = matrices(rows, R"(subscripts: "r" subscripts: "j")");
  const std::vector<DotProduct> found = dotProducts(all);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FALSE(found[0].isByLane());
  EXPECT_EQ(found[0].lanes, 4);
  EXPECT_EQ(found[0].depth, 8);
  EXPECT_EQ(found[0].products(), 32);
  const auto& [from_first, from_second] = found[0].placements;
  EXPECT_EQ(from_first.rows, 2);
  EXPECT_EQ(from_first.columns, 2);
  EXPECT_EQ(from_first.sums, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(from_second.sums, (std::vector<int>{0, 2, 1, 3})) << "rows from the second source: transposed";
  EXPECT_EQ(from_first.column_source[9], 9);
  EXPECT_EQ(found[1].placements[0].column_source[9], 12) << "element [4, 1]: step 4 of column 1";
}

TEST(DotProduct, OfMatricesNeedsEveryElementInARegister) {
  const std::string rows = R"(subscripts: "i" subscripts: "r")";
  google::protobuf::RepeatedPtrField<v1::Intrinsic> all;
  *all.Add() = matrices(rows, R"(subscripts: "r")");                                  // no source has "j"
  *all.Add() = matrices(rows, R"(subscripts: "j")");                                  // sums run over both
  *all.Add() = matrices(rows, R"(subscripts: "j" subscripts: "r + 1")");              // beyond the register
  *all.Add() = matrices(rows, R"(subscripts: "j" subscripts: "j" subscripts: "r")");  // twice
  *all.Add() = matrices(rows, R"(subscripts: "i" subscripts: "j" subscripts: "r")");  // a wider register
  v1::Intrinsic in_memory = matrices(rows, R"(subscripts: "j" subscripts: "r")");
  in_memory.mutable_operands(1)->set_memory("L1");
  *all.Add() = in_memory;
  v1::Intrinsic endless = matrices(rows, R"(subscripts: "j" subscripts: "r")");
  for (v1::Intrinsic::IterDim& each : *endless.mutable_iterations()) each.set_extent(1 << 30);
  *all.Add() = endless;
  EXPECT_TRUE(dotProducts(all).empty());
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
  EXPECT_EQ(best("neoverse-n1"), "sdot.128");
  EXPECT_EQ(best("neoverse-v1"), "smmla.128");
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
