#include "compiler/backends/cpu/pin_addresses.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/target_machine.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace tessera::compiler::codegen {
namespace {

/// Sums of `rows` elements of a, 64 bytes apart, times vectors of b, over 1,000 steps; each product's element has
/// `uses` uses.
std::string sums(int rows, int uses = 1) {
  std::string text = "define void @sums(ptr %a, ptr %b, ptr %c) #0 {\nentry:\n  br label %loop\nloop:\n";
  const auto last = [&](int row) { return absl::StrCat("%s", row, "_", uses - 1); };
  absl::StrAppend(&text, "  %i = phi i64 [ 0, %entry ], [ %n, %loop ]\n");
  for (int row = 0; row < rows; ++row)
    absl::StrAppend(&text, "  %acc", row, " = phi <16 x float> [ zeroinitializer, %entry ], [ ", last(row),
                    ", %loop ]\n");
  absl::StrAppend(&text, "  %x = getelementptr float, ptr %a, i64 %i\n  %j = mul i64 %i, 16\n",
                  "  %y = getelementptr float, ptr %b, i64 %j\n  %v = load <16 x float>, ptr %y, align 4\n");
  for (int row = 0; row < rows; ++row) {
    absl::StrAppend(&text, "  %p", row, " = getelementptr i8, ptr %x, i64 ", 64 * row, "\n  %e", row,
                    " = load float, ptr %p", row, ", align 4\n  %t", row,
                    " = insertelement <16 x float> poison, float %e", row, ", i64 0\n  %w", row,
                    " = shufflevector <16 x float> %t", row, ", <16 x float> poison, <16 x i32> zeroinitializer\n");
    for (int use = 0; use < uses; ++use)
      absl::StrAppend(&text, "  %s", row, "_", use, " = call <16 x float> @llvm.fma.v16f32(<16 x float> %w", row,
                      ", <16 x float> %v, <16 x float> ",
                      use == 0 ? absl::StrCat("%acc", row) : absl::StrCat("%s", row, "_", use - 1), ")\n");
  }
  absl::StrAppend(&text, "  %n = add nuw nsw i64 %i, 1\n  %more = icmp slt i64 %n, 1000\n",
                  "  br i1 %more, label %loop, label %end\nend:\n");
  for (int row = 0; row < rows; ++row)
    absl::StrAppend(&text, "  %o", row, " = getelementptr i8, ptr %c, i64 ", 64 * row, "\n  store <16 x float> ",
                    last(row), ", ptr %o", row, ", align 4\n");
  return absl::StrCat(
      text, "  ret void\n}\ndeclare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)\n",
      "attributes #0 = { \"target-cpu\"=\"cascadelake\" \"prefer-vector-width\"=\"512\" }\n");
}

struct Operands {
  int by_index = 0, by_base = 0;  ///< multiply-adds with a memory operand, by kind of address
};

Operands operandsOf(const std::string& text, bool held) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  auto module = llvm::parseAssemblyString(text, error, context);
  EXPECT_TRUE(module) << error.getMessage().str() << "\n" << text;
  v1::CodeForm code;
  code.set_triple("x86_64-unknown-linux-gnu");
  code.set_cpu("cascadelake");
  auto machine = targetMachineOf(code);
  EXPECT_TRUE(machine.ok()) << machine.status();
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  if (held) pinAddresses(*module->getFunction("sums"));
  EXPECT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  EXPECT_FALSE((*machine)->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile));
  passes.run(*module);
  const std::string assembly(bytes.begin(), bytes.end());
  const auto count = [&](const std::regex& pattern) {
    return static_cast<int>(std::distance(std::sregex_iterator(assembly.begin(), assembly.end(), pattern), {}));
  };
  return {count(std::regex(R"(vfm\w+\s+-?\w*\(%\w+,%\w+)")), count(std::regex(R"(vfm\w+\s+-?\w*\(%\w+\))"))};
}

// LLVM adds the counter in every access. If that changes, or if LLVM learns to undo the pass, the pass has lost its
// purpose.
TEST(HeldAddresses, MultiplyAddsReadAtARegister) {
  for (const int rows : {8, 12, 28}) {
    const Operands before = operandsOf(sums(rows), false), after = operandsOf(sums(rows), true);
    EXPECT_EQ(before.by_index, rows);
    EXPECT_EQ(after.by_index, 0);
    EXPECT_EQ(after.by_base, rows);
  }
}

TEST(HeldAddresses, FewReadsAreLeft) { EXPECT_EQ(operandsOf(sums(7), true).by_index, 7); }

TEST(HeldAddresses, ElementsThatSeveralReadAreInRegistersAlready) {
  const Operands before = operandsOf(sums(12, 2), false), after = operandsOf(sums(12, 2), true);
  EXPECT_EQ(before.by_index + before.by_base, 0);
  EXPECT_EQ(after.by_index + after.by_base, 0);
}

}  // namespace
}  // namespace tessera::compiler::codegen
