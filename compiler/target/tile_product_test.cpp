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

// Names become assembly text, and shapes must be those of registers.
TEST(TileProduct, NamesInstructionsOfTilesAndFitsTheirRegisters) {
  google::protobuf::RepeatedPtrField<v1::Intrinsic> all;
  const v1::Intrinsic whole = findInstructionSet("amx-int8")->intrinsics(0);
  v1::Intrinsic& mine = *all.Add();
  const auto isOne = [&](const std::function<void(v1::Intrinsic&)>& change) {
    mine = whole;
    change(mine);
    return !tileProducts(all).empty();
  };
  for (const char* emit : {"llvm.x86.cast.tile.to.vector.x: .incbin \"/x\" #", "llvm.x86.tdpbusd\n ud2", "llvm.x86.",
                           "llvm.x86.tdpbusd ", "llvm.x86.tilezero", "llvm.tdpbusd", "tdpbusd", ""}) {
    EXPECT_FALSE(isOne([&](auto& each) { each.set_emit(emit); })) << emit;
    for (int transfer = 0; transfer < whole.transfers_size(); ++transfer)
      EXPECT_EQ(isOne([&](auto& each) { each.mutable_transfers(transfer)->set_emit(emit); }),
                whole.transfers(transfer).operand() == "c" && whole.transfers(transfer).to() == "registers")
          << emit << transfer;
  }
  EXPECT_TRUE(isOne([](auto& each) {
    for (int transfer : {1, 2}) each.mutable_transfers(transfer)->set_emit("llvm.x86.tileloaddt164");
  }));
  const auto isOneOf = [&](int64_t rows, int64_t columns, int64_t depth) {
    return isOne([&](auto& each) {
      each.mutable_iterations(0)->set_extent(rows);
      each.mutable_iterations(1)->set_extent(columns);
      each.mutable_iterations(2)->set_extent(depth);
    });
  };
  EXPECT_TRUE(isOneOf(16, 16, 64));
  EXPECT_TRUE(isOneOf(1, 3, 4));
  for (auto [rows, columns, depth] :
       {std::tuple(32, 32, 64), {17, 16, 64}, {16, 17, 64}, {16, 16, 68}, {0, 16, 64}, {16, -1, 64}, {16, 16, 0}})
    EXPECT_FALSE(isOneOf(rows, columns, depth)) << rows << " " << columns << " " << depth;
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
