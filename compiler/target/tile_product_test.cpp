#include "compiler/target/tile_product.h"

#include <gtest/gtest.h>

#include <functional>

#include "compiler/target/dot_product.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/target.h"

namespace tessera::compiler {
namespace {

std::vector<TileProduct> tilesOf(const std::string& target) {
  return tileProducts(usableInstructions(*findBuiltinTarget(target)));
}

TEST(TileProduct, IsFoundByWhatItComputesAndHowItsTilesMove) {
  google::protobuf::RepeatedPtrField<v1::Intrinsic> all;
  v1::Intrinsic& mine = *all.Add() = findInstructionSet("amx-int8")->intrinsics(0);
  mine.set_name("mine");
  ASSERT_EQ(tileProducts(all).size(), 1U);
  const TileProduct found = tileProducts(all)[0];
  EXPECT_EQ(found.name, "mine");
  EXPECT_EQ(std::tuple(found.rows, found.columns, found.depth, found.group), std::tuple(16, 16, 64, 4));
  EXPECT_FALSE(found.first_signed || found.floating || !found.second_signed);
  EXPECT_EQ(found.load, "llvm.x86.tileloadd64");
  EXPECT_EQ(found.store, "llvm.x86.tilestored64");
  EXPECT_EQ(found.cycles, 16);

  const v1::Intrinsic whole = mine;
  const auto isNone = [&](const std::function<void(v1::Intrinsic&)>& change) {
    mine = whole;
    change(mine);
    return tileProducts(all).empty();
  };
  EXPECT_TRUE(isNone([](auto& each) { each.mutable_arithmetic()->set_overflow(v1::Intrinsic::Arithmetic::SATURATE); }));
  EXPECT_TRUE(isNone([](auto& each) { each.mutable_operands(0)->set_dtype(v1::DATA_TYPE_I16); }));
  EXPECT_TRUE(isNone([](auto& each) { each.mutable_operands(1)->set_dtype(v1::DATA_TYPE_BF16); }));
  EXPECT_TRUE(isNone([](auto& each) { each.mutable_operands(2)->mutable_subscripts()->SwapElements(0, 1); }));
  EXPECT_TRUE(isNone([](auto& each) { each.mutable_emission()->mutable_arguments()->SwapElements(1, 2); }));
  EXPECT_TRUE(isNone([](auto& each) { each.mutable_emission()->mutable_arguments(0)->set_type("x86_amx"); }));
  EXPECT_TRUE(isNone([](auto& each) { each.mutable_transfers()->DeleteSubrange(0, 2); }));
  EXPECT_FALSE(isNone([](auto&) {}));
}

TEST(TileProduct, TargetsHaveThoseThatTheirCodeRequires) {
  std::vector<std::string> names;
  for (const TileProduct& each : tilesOf("sapphirerapids")) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tdpbf16ps", "tdpbusd", "tdpbssd", "tdpbsud", "tdpbuud"}));
  for (const char* other : {"znver5", "neoverse-v2", "sm_80", "ascend-910-like"})
    EXPECT_TRUE(tilesOf(other).empty()) << other;
}

}  // namespace
}  // namespace tessera::compiler
