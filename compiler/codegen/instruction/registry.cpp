#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/instruction/grouped_product.h"
#include "compiler/schedule/fault.h"

namespace tessera::compiler::codegen {
namespace {

/// All kinds of instructions, those that nests take up first in front.
constexpr std::array kKinds = {groupedProducts};

}  // namespace

std::vector<std::unique_ptr<const ProductInstruction>> productInstructions(const Chip& chip) {
  std::vector<std::unique_ptr<const ProductInstruction>> all;
  for (const auto kind : kKinds)
    for (auto& instruction : kind(chip)) all.push_back(std::move(instruction));
  return all;
}

void chooseInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  const auto instructions = productInstructions(chip);
  for (Phase& phase : list.phases) {
    if (!phase.plans.empty()) continue;  // panels of a region
    for (Nest& nest : phase.nests)
      for (const auto& instruction : instructions)
        if (instruction->takeUp(builder, nest, chip).empty()) break;
  }
}

absl::Status followInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip, const FollowedTree& tree) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  const auto instructions = productInstructions(chip);
  for (auto [phase, followed] : llvm::zip_equal(list.phases, tree.phases)) {
    if (followed.sequential) continue;
    for (auto [nest, leaf] : llvm::zip_equal(phase.nests, followed.leaves)) {
      const std::string& name = leaf.tile->kernel().instruction();
      if (name.empty()) continue;
      const auto found = llvm::find_if(instructions, [&](const auto& each) { return each->name() == name; });
      if (found == instructions.end()) {
        const std::string all = absl::StrJoin(
            instructions, ", ", [](std::string* out, const auto& each) { absl::StrAppend(out, each->name()); });
        return scheduleFault(leaf.path, "the target has no such instruction for products", name,
                             all.empty() ? "none" : all);
      }
      if (std::string reason = (*found)->takeUp(builder, nest, chip); !reason.empty())
        return scheduleFault(leaf.path, absl::StrCat("an instruction that the nest cannot use: ", reason), name,
                             "no instruction");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
