#include "compiler/backends/ptx/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/target.h"

namespace tessera::compiler::ptx {
namespace {

using ::testing::HasSubstr;

constexpr char kProduct[] = "O[i, j] += A[i, k] * B[k, j]";
constexpr char kProductOfColumns[] = "O[i, j] += A[k, i] * B[j, k]";
constexpr char kProductOfRows[] = "O[i, j] += A[i, k] * B[j, k]";
constexpr char kConvolution[] = "O[n, k, p, q] += I[n, c, 2 * p + r, q + s] * W[k, c, r, s]";
constexpr char kChannelsLast[] = "O[n, p, q, k] += I[n, p + r, q + s, c] * W[r, s, c, k]";
constexpr char kGrouped[] = "O[n, g, k, p] += I[n, g, c, p + 2 * r] * W[g, k, c, r]";

loopnest::Nest nestOf(const std::string& text, const std::vector<int64_t>& extents, v1::DataType from,
                      v1::DataType to) {
  loopnest::Nest nest = loopnest::parse("operator", text, extents).value();
  nest.accesses[0].dtype = to;
  nest.accesses[1].dtype = nest.accesses[2].dtype = from;
  return nest;
}

struct Case {
  const char* instruction;
  v1::DataType from, to;
  const char* chip = "sm_80";
};

class OnInstructions : public ::testing::TestWithParam<Case> {};

TEST_P(OnInstructions, TheTextComputesTheOperatorOnOddShapes) {
  const Case& c = GetParam();
  const v1::Target& chip = *findBuiltinTarget(c.chip);
  const std::vector<std::pair<const char*, std::vector<int64_t>>> operators = {{kProduct, {1, 1, 1}},
                                                                               {kProduct, {17, 13, 7}},
                                                                               {kProduct, {64, 80, 96}},
                                                                               {kProduct, {33, 128, 101}},
                                                                               {kProductOfColumns, {40, 24, 64}},
                                                                               {kProductOfColumns, {19, 5, 37}},
                                                                               {kProductOfRows, {72, 50, 144}},
                                                                               {kConvolution, {2, 5, 3, 7, 3, 3, 2}},
                                                                               {kChannelsLast, {2, 5, 3, 24, 2, 3, 16}},
                                                                               {kGrouped, {3, 2, 5, 7, 11, 3}}};
  for (const auto& [text, extents] : operators) {
    // With so many elements copied one by one, a thread would exceed its number of copies.
    const bool wide = absl::StrContains(c.instruction, "n256"), bytes = c.from == v1::DATA_TYPE_I8;
    if (absl::StrContains(c.instruction, "wgmma") &&
        (bytes ? text != kProductOfRows : wide && extents.back() % 32 != 0))
      continue;
    SCOPED_TRACE(absl::StrCat(c.instruction, " ", text, " ", absl::StrJoin(extents, "x")));
    const auto kernel = kernelOf(nestOf(text, extents, c.from, c.to), chip, "kernel", {.instruction = c.instruction});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const auto checked = check(*kernel, chip, 7, int64_t{1} << 40);
    ASSERT_TRUE(checked.ok()) << checked.status() << "\n" << kernel->text;
    EXPECT_EQ(checked->wrong, 0) << checked->first_wrong << "\n" << kernel->text;
    EXPECT_EQ(checked->blocks, kernel->plan.grid());
    EXPECT_GT(checked->results, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Instructions, OnInstructions,
    ::testing::Values(Case{"mma.m16n8k8.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32},
                      Case{"mma.m16n8k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32},
                      Case{"mma.m16n8k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16},
                      Case{"mma.m16n8k16.f16.f16", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16},
                      Case{"mma.m16n8k16.bf16.f32", v1::DATA_TYPE_BF16, v1::DATA_TYPE_F32},
                      Case{"mma.m16n8k16.bf16.f32", v1::DATA_TYPE_BF16, v1::DATA_TYPE_BF16},
                      Case{"mma.m16n8k32.s8.s32", v1::DATA_TYPE_I8, v1::DATA_TYPE_I32},
                      Case{"mma.m16n8k32.u8.s32", v1::DATA_TYPE_U8, v1::DATA_TYPE_I32},
                      Case{"mma.m8n8k4.f64.f64", v1::DATA_TYPE_F64, v1::DATA_TYPE_F64},
                      Case{"wmma.m16n16k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32, "sm_70"},
                      Case{"wmma.m16n16k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_70"},
                      Case{"wmma.m16n16k16.f16.f16", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_70"},
                      Case{"wmma.m32n8k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_70"},
                      Case{"wmma.m32n8k16.f16.f16", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_70"},
                      Case{"wmma.m8n32k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32, "sm_70"},
                      Case{"wmma.m8n32k16.f16.f16", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_70"},
                      Case{"wgmma.m64n64k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32, "sm_90"},
                      Case{"wgmma.m64n128k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_90"},
                      Case{"wgmma.m64n256k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32, "sm_90"},
                      Case{"wgmma.m64n64k16.bf16.f32", v1::DATA_TYPE_BF16, v1::DATA_TYPE_BF16, "sm_90"},
                      Case{"wgmma.m64n64k32.s8.s32", v1::DATA_TYPE_I8, v1::DATA_TYPE_I32, "sm_90"},
                      Case{"wgmma.m64n256k32.s8.s32", v1::DATA_TYPE_I8, v1::DATA_TYPE_I32, "sm_90"}),
    [](const auto& info) {
      std::string name = absl::StrCat(info.param.instruction, "_", info.param.to);
      for (char& letter : name) letter = letter == '.' ? '_' : letter;
      return name;
    });

TEST(Kernel, SwizzledRowsAreFetchedWithoutConflicts) {
  const v1::Target& chip = *findBuiltinTarget("sm_80");
  const loopnest::Nest nest = nestOf(kProduct, {256, 256, 256}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32);
  SharedTraffic fetches[2];
  for (const bool swizzled : {false, true}) {
    const auto kernel = kernelOf(nest, chip, "kernel", {.instruction = "mma.m16n8k16.f16.f32", .swizzled = swizzled});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const auto checked = check(*kernel, chip, 3, 1);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->wrong, 0) << checked->first_wrong;
    EXPECT_EQ(checked->blocks, 1);
    fetches[swizzled] = checked->run.fetches;
    if (swizzled) EXPECT_EQ(checked->run.stores.cycles, checked->run.stores.accesses);
  }
  EXPECT_EQ(fetches[1].cycles, fetches[1].accesses);
  EXPECT_GT(fetches[0].cycles, fetches[0].accesses);
}

TEST(Kernel, ResultsAreStoredInLinesWhereTheyAreNeighbours) {
  for (const char* name : {"sm_80", "sm_90"}) {
    const v1::Target& chip = *findBuiltinTarget(name);
    for (const int64_t columns : {256, 251}) {
      for (const v1::DataType to : {v1::DATA_TYPE_F16, v1::DATA_TYPE_F32}) {
        const loopnest::Nest nest = nestOf(kProduct, {200, columns, 256}, v1::DATA_TYPE_F16, to);
        const auto kernel = kernelOf(nest, chip, "kernel");
        ASSERT_TRUE(kernel.ok()) << kernel.status();
        EXPECT_EQ(kernel->text.find("st.global.v4.b32") != std::string::npos, columns == 256) << name;
        EXPECT_EQ(kernel->text.find("cp.async.cg") != std::string::npos, true) << name;
        const auto checked = check(*kernel, chip, 3, int64_t{1} << 40);
        ASSERT_TRUE(checked.ok()) << checked.status();
        EXPECT_EQ(checked->wrong, 0) << checked->first_wrong;
        EXPECT_EQ(checked->results, 200 * columns);
      }
    }
  }
}

TEST(Kernel, EpiloguesAreOfTheSumsBeforeTheyAreRounded) {
  struct Epilogue {
    const char* operation;
    std::vector<int64_t> extents;
    std::vector<std::string> steps;
  };
  const std::vector<Epilogue> epilogues = {
      {kProduct, {64, 80, 96}, {"+ bias[j]", "relu"}},
      {kProduct, {33, 17, 21}, {"+ bias[i]"}},
      {kProduct, {33, 24, 21}, {"+ bias[j]", "+ residual[i, j]", "relu"}},
      {kProductOfColumns, {40, 24, 64}, {"relu", "+turned[j,i]"}},
      {kConvolution, {2, 5, 3, 7, 3, 3, 2}, {"+ bias[k]", "+ residual[n, k, p, q]", "relu", "+ one[n]"}},
      {kChannelsLast, {2, 5, 3, 24, 2, 3, 16}, {" + bias[k] ", "relu"}},
      {kGrouped, {3, 2, 5, 7, 11, 3}, {"+ bias[g, k]", "relu"}}};
  const std::vector<Case> cases = {{"mma.m16n8k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32},
                                   {"mma.m16n8k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16},
                                   {"mma.m16n8k16.f16.f16", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16},
                                   {"mma.m16n8k16.bf16.f32", v1::DATA_TYPE_BF16, v1::DATA_TYPE_BF16},
                                   {"mma.m16n8k32.s8.s32", v1::DATA_TYPE_I8, v1::DATA_TYPE_I32},
                                   {"mma.m8n8k4.f64.f64", v1::DATA_TYPE_F64, v1::DATA_TYPE_F64},
                                   {"wmma.m16n16k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F32, "sm_70"},
                                   {"wmma.m32n8k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_70"},
                                   {"wmma.m16n16k16.f16.f16", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_70"},
                                   {"wgmma.m64n64k16.f16.f32", v1::DATA_TYPE_F16, v1::DATA_TYPE_F16, "sm_90"}};
  for (const Case& c : cases) {
    const v1::Target& chip = *findBuiltinTarget(c.chip);
    for (const Epilogue& epilogue : epilogues) {
      SCOPED_TRACE(
          absl::StrCat(c.instruction, " ", c.to, " ", epilogue.operation, " ", absl::StrJoin(epilogue.steps, "; ")));
      const auto kernel = kernelOf(nestOf(epilogue.operation, epilogue.extents, c.from, c.to), chip, "kernel",
                                   {.instruction = c.instruction, .swizzled = true, .epilogue = epilogue.steps});
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      const auto checked = check(*kernel, chip, 7, int64_t{1} << 40);
      ASSERT_TRUE(checked.ok()) << checked.status() << "\n" << kernel->text;
      EXPECT_EQ(checked->wrong, 0) << checked->first_wrong << "\n" << kernel->text;
      EXPECT_EQ(checked->blocks, kernel->plan.grid());
    }
  }
}

TEST(Kernel, WhatIsNoNumberStaysSoWhenRectified) {
  const v1::Target& chip = *findBuiltinTarget("sm_80");
  const auto kernel = kernelOf(nestOf(kProduct, {16, 16, 16}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F16), chip, "kernel",
                               {.instruction = {}, .swizzled = true, .epilogue = {"relu"}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  constexpr size_t kBytes = 2 * 16 * 16;
  std::vector<uint8_t> result(kBytes, 0), left(kBytes, 0), right(kBytes, 0);
  left[1] = 0x7E;  // a NaN in the first row
  Launch launch{.threads = kernel->plan.threads(),
                .shared_bytes = kernel->plan.sharedBytes(),
                .blocks = {},
                .tensors = {},
                .banks = {}};
  for (int64_t block = 0; block < kernel->plan.grid(); ++block) launch.blocks.push_back(block);
  launch.tensors = {&result, &left, &right};
  const auto ran = run(kernel->text, launch);
  ASSERT_TRUE(ran.ok()) << ran.status();
  for (size_t e = 0; e < kBytes / 2; ++e) EXPECT_EQ((result[2 * e + 1] & 0x7E) == 0x7E, e < 16) << e;
}

TEST(Kernel, AnEpilogueThatIsNoneIsRefused) {
  const v1::Target& chip = *findBuiltinTarget("sm_80");
  const auto said = [&](const std::vector<std::string>& steps) {
    const auto kernel = kernelOf(nestOf(kProduct, {8, 8, 8}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32), chip, "kernel",
                                 {.instruction = {}, .swizzled = true, .epilogue = steps});
    EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(kernel.status().message());
  };
  EXPECT_THAT(said({"gelu"}), HasSubstr("epilogue 'gelu': accepted are relu and + NAME["));
  EXPECT_THAT(said({"+ bias"}), HasSubstr("accepted are relu and + NAME["));
  EXPECT_THAT(said({"+ bias[k]"}), HasSubstr("'k' is no loop of the result"));
  EXPECT_THAT(said({"+ bias[j, j]"}), HasSubstr("'j' occurs twice"));
  EXPECT_THAT(said({"+ bias[]"}), HasSubstr("'' is no loop of the result"));
  EXPECT_THAT(said({"+ 1[j]"}), HasSubstr("'1' is no name"));
  EXPECT_THAT(said({"+ A[i, j]"}), HasSubstr("A is a tensor already"));
  EXPECT_THAT(said({"relu", "+ b[i]", "+ b[j]"}), HasSubstr("epilogue '+ b[j]': b is a tensor already"));
  EXPECT_THAT(said(std::vector<std::string>(9, "relu")), HasSubstr("9 steps; at most 8"));
}

/// The error of running a kernel of an instruction after a change of its text.
std::string saidOf(const std::string& before, const std::string& after,
                   const std::string& instruction = "wgmma.m64n64k16.f16.f32", const char* name = "sm_90") {
  const v1::Target& chip = *findBuiltinTarget(name);
  const loopnest::Nest nest = nestOf(kProduct, {64, 64, 512}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32);
  auto kernel = kernelOf(nest, chip, "kernel", {.instruction = instruction});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  size_t changed = 0;
  for (size_t at = 0; (at = kernel->text.find(before, at)) != std::string::npos; at += after.size(), ++changed)
    kernel->text.replace(at, before.size(), after);
  EXPECT_GT(changed, 0u) << before << "\n" << kernel->text;
  const auto checked = check(*kernel, chip, 7, int64_t{1} << 40);
  if (!checked.ok()) return std::string(checked.status().message());
  return checked->wrong > 0 ? "wrong" : "right";
}

TEST(Kernel, ProductsThatGoOnAreFencedPublishedAndWaitedFor) {
  EXPECT_EQ(saidOf("bar.sync 0;", "bar.sync 0;"), "right");
  EXPECT_THAT(saidOf("  wgmma.fence.sync.aligned;\n", ""), HasSubstr("registers are not fenced"));
  EXPECT_THAT(saidOf("  fence.proxy.async.shared::cta;\n", ""), HasSubstr("no fence has published"));
  EXPECT_THAT(saidOf("  wgmma.wait_group.sync.aligned 0;\n", ""), HasSubstr("are not waited for"));
  EXPECT_EQ(saidOf("wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 3;"), "wrong");
  EXPECT_THAT(saidOf(", 1073741888;", ", 64;"), HasSubstr("of no layout that is known"));
  EXPECT_NE(saidOf(", 1, 1, 0, 1;", ", 1, 1, 0, 0;"), "right");
}

TEST(Kernel, OpaqueFragmentsAreFetchedAndStoredByAddressAndRowLength) {
  const auto said = [](const std::string& before, const std::string& after) {
    return saidOf(before, after, "wmma.m16n16k16.f16.f32", "sm_70");
  };
  EXPECT_EQ(said("bar.sync 0;", "bar.sync 0;"), "right");
  EXPECT_EQ(said("aligned.row.row.m16n16k16", "aligned.row.col.m16n16k16"), "wrong");
  EXPECT_EQ(said("store.d.sync.aligned.row", "store.d.sync.aligned.col"), "wrong");
  EXPECT_THAT(said("aligned.row.m16n16k16.shared.f16", "aligned.row.m16n16k16.global.f16"), HasSubstr("another level"));
  EXPECT_THAT(said("m16n16k16", "m16n16k8"), HasSubstr("its shape is not known"));
  const v1::Target& chip = *findBuiltinTarget("sm_70");
  // Halves are contiguous along columns of the first source, and along rows of the second one.
  const loopnest::Nest nest = nestOf(kProductOfColumns, {256, 256, 256}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F16);
  SharedTraffic fetches[2];
  for (const bool swizzled : {false, true}) {
    const auto kernel = kernelOf(nest, chip, "kernel", {.instruction = {}, .swizzled = swizzled});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_THAT(kernel->text, HasSubstr("wmma.mma.sync.aligned.col.col.m"));
    EXPECT_THAT(kernel->text, HasSubstr("st.global.v4.b32"));
    const auto checked = check(*kernel, chip, 3, 1);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->wrong, 0) << checked->first_wrong;
    fetches[swizzled] = checked->run.fetches;
  }
  // Rows a multiple of 32 bytes apart conflict pairwise at best.
  EXPECT_LE(fetches[1].cycles, 2 * fetches[1].accesses);
  EXPECT_GT(fetches[0].cycles, 4 * fetches[0].accesses);
}

TEST(Kernel, AWrongFragmentIsFoundByRunningTheText) {
  v1::Target chip = *findBuiltinTarget("sm_80");
  const loopnest::Nest nest = nestOf(kProduct, {16, 16, 16}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32);
  auto kernel = kernelOf(nest, chip, "kernel", {.instruction = "mma.m16n8k16.f16.f32"});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  // Exchanges halves of the sums in the text, which gives a different program.
  const size_t at = kernel->text.find("mma.sync");
  const size_t first = kernel->text.find("%f", at);
  ASSERT_NE(first, std::string::npos);
  kernel->text[first + 2] = kernel->text[first + 2] == '0' ? '1' : '0';
  const auto checked = check(*kernel, chip, 7, int64_t{1} << 40);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_GT(checked->wrong, 0);
}

TEST(Kernel, PlansAreSpreadOverTheOrderOfTheEstimate) {
  const v1::Target& chip = *findBuiltinTarget("sm_80");
  const loopnest::Nest nest = nestOf(kProduct, {48, 40, 72}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32);
  const auto best = kernelOf(nest, chip, "kernel");
  const auto kernels = kernelsOf(nest, chip, "plan", 24);
  ASSERT_TRUE(best.ok() && kernels.ok()) << kernels.status();
  ASSERT_EQ(kernels->size(), 24u);
  EXPECT_EQ(kernels->front().plan.cycles, best->plan.cycles);
  EXPECT_EQ(kernels->back().name, "plan23");
  std::set<std::string> instructions;
  for (size_t i = 0; i < kernels->size(); ++i) {
    const Kernel& kernel = (*kernels)[i];
    if (i > 0) EXPECT_GE(kernel.plan.cycles, (*kernels)[i - 1].plan.cycles);
    EXPECT_GT(kernel.mappings, 1u);
    instructions.insert(kernel.plan.intrinsic.name());
    const auto checked = check(kernel, chip, 5, int64_t{1} << 40);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(checked->wrong, 0) << checked->first_wrong << "\n" << kernel.text;
  }
  EXPECT_GT(kernels->back().plan.cycles, 2 * best->plan.cycles);
  EXPECT_GT(instructions.size(), 1u);
}

TEST(Kernel, WhatHasNoKernelIsSaid) {
  const v1::Target& chip = *findBuiltinTarget("sm_80");
  const auto floats = kernelOf(nestOf(kProduct, {8, 8, 8}, v1::DATA_TYPE_F32, v1::DATA_TYPE_F32), chip, "kernel",
                               {.instruction = "mma.m16n8k16.f16.f32"});
  EXPECT_THAT(std::string(floats.status().message()), HasSubstr("is f32, not f16"));
  const auto none = kernelOf(nestOf(kProduct, {8, 8, 8}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32), chip, "kernel",
                             {.instruction = "mma.none"});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no instruction mma.none"));
  const auto plain =
      kernelOf(nestOf(kProduct, {8, 8, 8}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32), *findBuiltinTarget("sm_90"), "kernel",
               {.instruction = "wgmma.m64n64k16.f16.f32", .swizzled = false});
  EXPECT_THAT(std::string(plain.status().message()), HasSubstr("no plain ones"));
  v1::Target narrow = *findBuiltinTarget("sm_90");
  for (const v1::Intrinsic& intrinsic : instructionsOf(narrow)) {
    if (intrinsic.name() != "wgmma.m64n64k16.f16.f32") continue;
    v1::Intrinsic* own = narrow.add_intrinsics();
    *own = intrinsic;
    own->set_name("narrow");
    for (auto& way : *own->mutable_threads()->mutable_descriptors()) way.set_row_bytes(64);
  }
  const auto rows = kernelOf(nestOf(kProduct, {8, 8, 8}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32), narrow, "kernel",
                             {.instruction = "narrow"});
  EXPECT_THAT(std::string(rows.status().message()), HasSubstr("rows of 128 bytes"));
  const auto opaque = kernelOf(nestOf(kProduct, {8, 8, 8}, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32),
                               *findBuiltinTarget("sm_70"), "kernel", {.instruction = "mma.m8n8k4.f16.f32"});
  EXPECT_THAT(std::string(opaque.status().message()), HasSubstr("not described as threads execute it together"));
}

}  // namespace
}  // namespace tessera::compiler::ptx
