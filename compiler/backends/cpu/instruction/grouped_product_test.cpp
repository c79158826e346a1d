// Products of 8-bit integers, whose sums are exact with every instruction that sums groups of them, and of bf16, whose
// sums are rounded once or twice for each pair.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/backends/cpu/codegen.h"
#include "compiler/backends/cpu/loaded_unit.h"
#include "compiler/backends/cpu/testing/check_workload.h"
#include "compiler/backends/cpu/testing/product_tree.h"
#include "compiler/backends/cpu/testing/workload_text.h"
#include "compiler/schedule/text.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/host.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"

namespace tessera::compiler::codegen::testing {
namespace {

/// sum + read(a) * read(b); `flip` inverts the sign bit of the first operand before.
std::string body(const std::string& first, const std::string& second, bool flip = false) {
  return absl::StrCat(flip ? "%bit = arith.constant -128 : i8\n    %f = arith.xori %i0, %bit : i8\n    " : "",
                      "%a = arith.", first, flip ? " %f" : " %i0", " : i8 to i32\n    %b = arith.", second,
                      " %i1 : i8 to i32\n    %m = arith.muli %a, %b : i32\n    %r = arith.addi %o, %m : i32");
}

enum Form { kRows, kInterleaved };  ///< of the right side: [n, k], or [k / 4, n, 4]

std::string product(int64_t m, int64_t n, int64_t k, const std::string& body, Form form) {
  WorkloadText text;
  const Tensor a = text.argument(form == kRows ? std::vector<int64_t>{m, k} : std::vector<int64_t>{m, k / 4, 4}, "i8");
  const Tensor b = text.argument(form == kRows ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k / 4, n, 4}, "i8");
  const Tensor c = text.fill({m, n}, "0", "i32");
  return text.finish({form == kRows
                          ? text.generic({a, b}, {"d0, d2", "d1, d2", "d0, d1"}, c, 3, "ppr", body)
                          : text.generic({a, b}, {"d0, d2, d3", "d2, d1, d3", "d0, d1"}, c, 4, "pprr", body)});
}

/// The same for 16-bit integers; [k / 2, n, 2] if interleaved.
std::string wideProduct(int64_t m, int64_t n, int64_t k, Form form) {
  WorkloadText text;
  const bool rows = form == kRows;
  const Tensor a = text.argument(rows ? std::vector<int64_t>{m, k} : std::vector<int64_t>{m, k / 2, 2}, "i16");
  const Tensor b = text.argument(rows ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k / 2, n, 2}, "i16");
  const Tensor c = text.fill({m, n}, "0", "i32");
  const std::string body =
      "%a = arith.extsi %i0 : i16 to i32\n    %b = arith.extsi %i1 : i16 to i32\n    %m = arith.muli %a, %b : i32\n    "
      "%r = arith.addi %o, %m : i32";
  return text.finish({rows ? text.generic({a, b}, {"d0, d2", "d1, d2", "d0, d1"}, c, 3, "ppr", body)
                           : text.generic({a, b}, {"d0, d2, d3", "d2, d1, d3", "d0, d1"}, c, 4, "pprr", body)});
}

/// The same for bf16, summed in f32; [k / 2, n, 2] if interleaved.
std::string halfProduct(int64_t m, int64_t n, int64_t k, Form form, const std::string& followed = "") {
  const std::string body =
      "%a = arith.extf %i0 : bf16 to f32\n    %b = arith.extf %i1 : bf16 to f32\n    %m = arith.mulf %a, %b : f32\n    "
      "%r = arith.addf %o, %m : f32";
  WorkloadText text;
  const Tensor a =
      text.argument(form == kRows ? std::vector<int64_t>{m, k} : std::vector<int64_t>{m, k / 2, 2}, "bf16");
  const Tensor b =
      text.argument(form == kRows ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k / 2, n, 2}, "bf16");
  const Tensor c = text.fill({m, n}, "0.0", "f32");
  Tensor sum = form == kRows ? text.generic({a, b}, {"d0, d2", "d1, d2", "d0, d1"}, c, 3, "ppr", body)
                             : text.generic({a, b}, {"d0, d2, d3", "d2, d1, d3", "d0, d1"}, c, 4, "pprr", body);
  if (!followed.empty()) sum = text.generic({sum}, {"d0, d1", "d0, d1"}, text.empty({m, n}, "bf16"), 2, "", followed);
  return text.finish({sum});
}

std::string instructionOf(const std::string& ir, const std::function<void(v1::BuildUnit&)>& adjust = nullptr) {
  v1::BuildUnit unit = hostUnit(ir);
  if (adjust) adjust(unit);
  auto schedule = defaultSchedule(unit);
  EXPECT_TRUE(schedule.ok()) << schedule.status().message();
  return schedule.ok() ? productLeaf(*schedule).kernel().instruction() : "";
}

/// Compiles for `target`, restricted to code that this machine can run.
std::function<void(v1::BuildUnit&)> forTarget(const std::string& name) {
  return [name](v1::BuildUnit& unit) {
    const v1::Target* target = findBuiltinTarget(name);
    ASSERT_NE(target, nullptr);
    *unit.mutable_code() = target->code();
    *unit.mutable_registers() = target->registers();
    *unit.mutable_memory() = target->memory();
    *unit.mutable_intrinsics() = usableInstructions(*target);
  };
}

TEST(GroupedProduct, IsExactForEverySignShapeAndLayout) {
  unsigned seed = 0;
  for (const Form form : {kRows, kInterleaved})
    for (auto [m, n, k] : {std::tuple(1, 1, 4), {1, 33, 8}, {5, 16, 12}, {7, 50, 64}, {33, 64, 36}, {40, 7, 256}})
      for (const auto& [first, second] :
           {std::pair("extui", "extsi"), {"extsi", "extui"}, {"extsi", "extsi"}, {"extui", "extui"}})
        checkWorkload(product(m, n, k, body(first, second), form), {.seed = ++seed, .integer_range = 128});
  checkWorkload(product(9, 48, 128, body("extui", "extsi", true), kInterleaved), {.seed = 1, .integer_range = 128});
  checkWorkload(product(9, 48, 126, body("extui", "extsi"), kRows), {.seed = 1, .integer_range = 128});
}

TEST(GroupedProduct, OfHalvesIsWithinTheBoundOfSumsInSingleForEveryShapeAndLayout) {
  unsigned seed = 0;
  for (const Form form : {kRows, kInterleaved})
    for (auto [m, n, k] :
         {std::tuple(1, 1, 2), {1, 33, 8}, {5, 16, 6}, {7, 50, 64}, {33, 64, 38}, {40, 7, 254}, {3, 97, 2}})
      checkWorkload(halfProduct(m, n, k, form), {.seed = ++seed});
  checkWorkload(halfProduct(9, 48, 127, kRows), {.seed = 1});  // a step without a neighbour
  checkWorkload(halfProduct(14, 48, 128, kInterleaved, "%r = arith.truncf %i0 : f32 to bf16"), {.seed = 1});
}

// Without a matching instruction, a row's products of bytes are summed lane by lane, then across lanes.
TEST(GroupedProduct, RowsWithoutAnInstructionAreExactForEverySignAndLength) {
  unsigned seed = 0;
  for (const int64_t k : {4, 8, 16, 17, 32, 64, 80})
    for (const auto& [first, second] :
         {std::pair("extui", "extsi"), {"extsi", "extui"}, {"extsi", "extsi"}, {"extui", "extui"}})
      checkWorkload(
          product(1, 30, k, body(first, second), kRows),
          {.seed = ++seed * 4, .integer_range = 128, .adjust = [](v1::BuildUnit& unit) { unit.clear_intrinsics(); }});
}

/// The same with the attribute for weights that rarely saturate.
std::string narrowPairs(const std::string& ir) {
  return absl::StrReplaceAll(ir, {{"\"reduction\"]}", "\"reduction\"], tessera.narrow_pairs}"}});
}

// 255 * -128 twice is below the range of 16-bit integers, so instructions that saturate pairs would give wrong results.
TEST(GroupedProduct, SumsOfExtremesAreExact) {
  for (const auto& [target, narrow] : {std::pair("", false), {"x86-64-v3", false}, {"x86-64-v3", true}}) {
    WorkloadText text;
    const Tensor a = text.fill({4, 16, 4}, "-1", "i8"), b = text.fill({16, 32, 4}, "-128", "i8");
    const Tensor x = text.generic({text.argument({4, 16, 4}, "i8"), a}, {"d0, d1, d2", "d0, d1, d2", "d0, d1, d2"},
                                  text.empty({4, 16, 4}, "i8"), 3, "", "%r = arith.ori %i0, %i1 : i8");
    const Tensor c = text.generic({x, b}, {"d0, d2, d3", "d2, d1, d3", "d0, d1"}, text.fill({4, 32}, "0", "i32"), 4,
                                  "pprr", body("extui", "extsi"));
    CheckOptions options{.seed = 1, .integer_range = 128};
    if (*target) options.adjust = forTarget(target);
    const std::string ir = text.finish({c});
    checkWorkload(narrow ? narrowPairs(ir) : ir, options);
  }
}

TEST(GroupedProduct, UsesWhatTheTargetHas) {
  const std::string ir = product(64, 64, 64, body("extui", "extsi"), kInterleaved);
  EXPECT_EQ(instructionOf(ir, forTarget("cascadelake")), "vpdpbusd.512");
  EXPECT_EQ(instructionOf(ir, forTarget("x86-64-v3")), "vpmaddwd.256");
  EXPECT_EQ(instructionOf(ir, [](v1::BuildUnit& unit) { unit.clear_intrinsics(); }), "");
  // Both signed: no 8-bit instruction accepts them directly; widened to 16 bits, signs no longer differ.
  EXPECT_EQ(instructionOf(product(64, 64, 64, body("extsi", "extsi"), kInterleaved), forTarget("cascadelake")),
            "vpdpwssd.512");
}

TEST(GroupedProduct, MatrixInstructionsAreUsedWhereTheyAreCheaper) {
  const auto used = [](const std::string& ir, const char* target) {
    return instructionOf(ir, [target](v1::BuildUnit& unit) {
      forTarget(target)(unit);
      unit.set_family(v1::Target::AARCH64);
      *unit.mutable_units() = findBuiltinTarget(target)->units();
    });
  };
  const std::string ir = product(64, 64, 64, body("extsi", "extsi"), kInterleaved);
  EXPECT_EQ(used(ir, "neoverse-n1"), "sdot.128");
  EXPECT_EQ(used(ir, "neoverse-v1"), "smmla.128");
  EXPECT_EQ(used(product(64, 64, 64, body("extui", "extsi"), kInterleaved), "neoverse-v1"), "usmmla.128");
  EXPECT_EQ(used(product(64, 64, 64, body("extsi", "extui"), kInterleaved), "neoverse-v1"), "usmmla.128");
  EXPECT_EQ(used(halfProduct(64, 64, 64, kInterleaved), "neoverse-v1"), "bfmmla.128");
  EXPECT_EQ(used(product(1, 64, 64, body("extsi", "extsi"), kInterleaved), "neoverse-v1"), "sdot.128") << "half empty";
}

TEST(GroupedProduct, AnInstructionUnlikeItsIntrinsicIsRefused) {
  v1::BuildUnit unit = hostUnit(product(16, 16, 16, body("extsi", "extsi"), kInterleaved));
  forTarget("neoverse-v1")(unit);
  unit.clear_intrinsics();
  *unit.add_intrinsics() = findInstructionSet("i8mm")->intrinsics(0);
  EXPECT_TRUE(defaultSchedule(unit).ok());
  v1::BuildUnit weaker = unit;
  weaker.mutable_code()->set_cpu("neoverse-n1");
  weaker.mutable_code()->clear_features();
  EXPECT_NE(defaultSchedule(weaker).status().message().find("needs the feature i8mm"), std::string::npos)
      << defaultSchedule(weaker).status();
  // Another intrinsic, of registers of half the width.
  unit.mutable_intrinsics(0)->set_emit("llvm.aarch64.neon.sdot.v2i32.v8i8");
  const absl::Status status = defaultSchedule(unit).status();
  EXPECT_EQ(failureOf(status).reason(), v1::Failure::INVALID_TARGET) << status;
  EXPECT_NE(status.message().find("smmla.128"), std::string::npos) << status;
}

TEST(GroupedProduct, HalvesAreLeftToInstructionsForHalves) {
  EXPECT_EQ(instructionOf(halfProduct(64, 64, 64, kInterleaved), forTarget("znver4")), "vdpbf16ps.512");
  EXPECT_EQ(instructionOf(halfProduct(64, 64, 64, kInterleaved), forTarget("cascadelake")), "");
  EXPECT_EQ(instructionOf(product(64, 64, 64, body("extui", "extsi"), kInterleaved), forTarget("znver4")),
            "vpdpbusd.512");
  EXPECT_EQ(instructionOf(halfProduct(64, 64, 63, kRows), forTarget("znver4")), "");
}

TEST(GroupedProduct, UnsignedOperandsOf16BitsGetNoSignedElements) {
  const auto unsignedFirst = [](v1::BuildUnit& unit) {
    forTarget("x86-64-v3")(unit);
    for (v1::Intrinsic& each : *unit.mutable_intrinsics()) each.mutable_operands(1)->set_dtype(v1::DATA_TYPE_U16);
  };
  EXPECT_EQ(instructionOf(product(64, 64, 64, body("extsi", "extui"), kInterleaved), unsignedFirst), "vpmaddwd.256");
  EXPECT_EQ(instructionOf(product(64, 64, 64, body("extsi", "extsi"), kInterleaved), unsignedFirst), "");
}

// A chip's new instruction is text: code generation only reads another name for the same intrinsic.
TEST(GroupedProduct, NeedsNoCodeForAnInstructionThatATargetDescribes) {
  const std::string ir = product(16, 32, 64, body("extui", "extsi"), kInterleaved);
  EXPECT_EQ(instructionOf(ir,
                          [](v1::BuildUnit& unit) {
                            forTarget("cascadelake")(unit);
                            for (v1::Intrinsic& each : *unit.mutable_intrinsics()) each.set_name("mine." + each.name());
                          }),
            "mine.vpdpbusd.512");
}

TEST(GroupedProduct, PairsAreTakenWhereTheyPay) {
  const std::string ir = product(64, 64, 64, body("extui", "extsi"), kInterleaved);
  EXPECT_EQ(instructionOf(narrowPairs(ir), forTarget("x86-64-v3")), "vpmaddubsw.256");
  EXPECT_EQ(instructionOf(ir, forTarget("x86-64-v3")), "vpmaddwd.256");
  EXPECT_EQ(instructionOf(narrowPairs(ir), forTarget("skylake-avx512")), "vpmaddubsw.512");
  EXPECT_EQ(instructionOf(narrowPairs(ir), forTarget("cascadelake")), "vpdpbusd.512");
  EXPECT_EQ(
      instructionOf(narrowPairs(product(64, 64, 64, body("extsi", "extsi"), kInterleaved)), forTarget("x86-64-v3")),
      "vpmaddwd.256");
}

// A quarter of the pairs of full range could saturate, and no pair within 64 could: the attribute must not change
// results.
TEST(GroupedProduct, PairsThatSaturateAreExactToo) {
  unsigned seed = 0;
  for (const int64_t range : {128, 90, 64, 2})
    for (const Form form : {kRows, kInterleaved})
      for (auto [m, n, k] : {std::tuple(1, 1, 4), {1, 33, 8}, {7, 50, 64}, {33, 64, 36}, {40, 7, 252}, {11, 16, 12}})
        checkWorkload(narrowPairs(product(m, n, k, body("extui", "extsi"), form)),
                      {.seed = ++seed, .integer_range = range, .adjust = forTarget("x86-64-v3")});
  for (const char* target : {"x86-64-v3", "skylake-avx512"}) {
    if (!hostProblems(findBuiltinTarget(target)->code(), hostInfo()).empty()) continue;
    const CheckOptions options{.seed = 1, .integer_range = 128, .adjust = forTarget(target)};
    checkWorkload(narrowPairs(product(9, 48, 128, body("extui", "extsi", true), kInterleaved)), options);
    checkWorkload(narrowPairs(product(9, 48, 128, body("extsi", "extui"), kInterleaved)), options);
  }
}

// Widened bytes range from -128 to 255; a sum of 254 products of full range needs all 32 bits and wraps.
TEST(GroupedProduct, IntegersOf16BitsAreExactForEveryShapeAndLayout) {
  unsigned seed = 0;
  for (const char* target : {"x86-64-v3", "skylake-avx512", "cascadelake"}) {
    if (!hostProblems(findBuiltinTarget(target)->code(), hostInfo()).empty()) continue;
    for (const int64_t range : {256, 32768})
      for (const Form form : {kRows, kInterleaved})
        for (auto [m, n, k] :
             {std::tuple(1, 1, 2), {1, 33, 8}, {5, 16, 6}, {7, 50, 64}, {33, 64, 38}, {40, 7, 254}, {3, 97, 2}})
          checkWorkload(wideProduct(m, n, k, form),
                        {.seed = ++seed, .integer_range = range, .adjust = forTarget(target)});
    checkWorkload(wideProduct(9, 48, 127, kRows), {.seed = 1, .adjust = forTarget(target)});
  }
}

TEST(GroupedProduct, IntegersOf16BitsTakeInstructionsFor16Bits) {
  const std::string ir = wideProduct(64, 64, 64, kInterleaved);
  EXPECT_EQ(instructionOf(ir, forTarget("x86-64-v3")), "vpmaddwd.256");
  EXPECT_EQ(instructionOf(ir, forTarget("skylake-avx512")), "vpmaddwd.512");
  EXPECT_EQ(instructionOf(ir, forTarget("cascadelake")), "vpdpwssd.512");
  EXPECT_EQ(instructionOf(narrowPairs(ir), forTarget("x86-64-v3")), "vpmaddwd.256") << "no bytes, whatever the mark";
  EXPECT_EQ(instructionOf(ir, [](v1::BuildUnit& unit) { unit.clear_intrinsics(); }), "");
}

// Extreme values of quantized networks: activations 255 and 0, weights -128 and 127.
TEST(GroupedProduct, ExtremesOfWidenedBytesAreExact) {
  for (const char* weight : {"-128", "127"}) {
    WorkloadText text;
    const Tensor x = text.generic({text.argument({5, 18, 2}, "i16")}, {"d0, d1, d2", "d0, d1, d2"},
                                  text.empty({5, 18, 2}, "i16"), 3, "",
                                  "%c255 = arith.constant 255 : i16\n    %c0 = arith.constant 0 : i16\n    "
                                  "%p = arith.cmpi sgt, %i0, %c0 : i16\n    %r = arith.select %p, %c255, %c0 : i16");
    const Tensor w = text.fill({18, 35, 2}, weight, "i16");
    const Tensor y =
        text.generic({x, w}, {"d0, d2, d3", "d2, d1, d3", "d0, d1"}, text.fill({5, 35}, "0", "i32"), 4, "pprr",
                     "%a = arith.extsi %i0 : i16 to i32\n    %b = arith.extsi %i1 : i16 to i32\n    "
                     "%m = arith.muli %a, %b : i32\n    %r = arith.addi %o, %m : i32");
    checkWorkload(text.finish({y}), {.seed = 3, .adjust = forTarget("x86-64-v3")});
  }
}

TEST(GroupedProduct, TreesThatNameNoSuchInstructionAreRefused) {
  v1::BuildUnit unit = hostUnit(product(16, 32, 64, body("extui", "extsi"), kInterleaved));
  forTarget("cascadelake")(unit);
  auto schedule = defaultSchedule(unit);
  ASSERT_TRUE(schedule.ok());
  auto again = parseSchedule(printSchedule(*schedule));
  ASSERT_TRUE(again.ok()) << again.status();
  *unit.mutable_schedule() = *again;
  EXPECT_TRUE(checkSchedule(unit).ok());
  std::string text = printSchedule(*schedule);
  text.replace(text.find("vpdpbusd.512"), 12, "vpdpbusd.513");
  auto wrong = parseSchedule(text);
  ASSERT_TRUE(wrong.ok());
  *unit.mutable_schedule() = *wrong;
  const absl::Status status = checkSchedule(unit);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("vpdpbusd.513"), std::string::npos) << status;
}

}  // namespace
}  // namespace tessera::compiler::codegen::testing
