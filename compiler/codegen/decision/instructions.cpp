#include "compiler/codegen/decision/instructions.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/instruction/product_instruction.h"
#include "compiler/codegen/kernel/registry.h"
#include "compiler/codegen/tiling/micro_kernel.h"
#include "compiler/schedule/fault.h"

namespace tessera::compiler::codegen {
namespace {

/// Cycles of the nest on one core, as its kernel counts them; infinite where that does not run the instruction.
double priceOf(const Nest& nest, const Chip& chip) {
  const TilePlan plan = planTile(nest, chip);
  if (!plan.kernel->evaluates(*nest.statements[0].step)) return std::numeric_limits<double>::infinity();
  double tiles = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) tiles *= static_cast<double>(nest.extents[loop]) / static_cast<double>(plan.tile[loop]);
  return tiles * plan.kernel->cycles(nest, chip, plan);
}

}  // namespace

void chooseInstructions(mlir::func::FuncOp func, PhaseList& list, const Chip& chip) {
  mlir::OpBuilder builder(func.getContext());
  builder.setInsertionPointToStart(&func.getBody().front());
  const std::vector<ProductInstructions> kinds = kindsOfProductInstructions(chip);
  for (Phase& phase : list.phases) {
    if (!phase.plans.empty()) continue;  // panels of a region
    for (Nest& nest : phase.nests) {
      std::vector<Nest> candidates;
      for (const auto& kind : kinds) {
        Nest candidate = nest;
        const auto taken = [&](const auto& each) { return each->takeUp(builder, candidate, chip).empty(); };
        if (llvm::any_of(kind, taken)) candidates.push_back(std::move(candidate));
      }
      std::vector<double> prices;
      for (const Nest& each : candidates) prices.push_back(priceOf(each, chip));
      const auto best = std::ranges::min_element(prices);
      if (best != prices.end() && std::isfinite(*best)) nest = std::move(candidates[best - prices.begin()]);
    }
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
