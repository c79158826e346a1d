#include "compiler/backends/cpu/kernel/nest_instruction.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/cpu/instruction/product_instruction.h"
#include "compiler/backends/cpu/kernel/registry.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "compiler/schedule/fault.h"

namespace tessera::compiler::codegen {
namespace {

/// Cycles of the nest on one core, as its kernel estimates them; nothing if that kernel does not run the instruction.
std::optional<double> priceOf(const Nest& nest, const Chip& chip, const PlanConstraints& wanted) {
  const TilePlan plan = planTile(nest, chip, wanted);
  if (!plan.kernel->evaluates(*nest.statements[0].step)) return std::nullopt;
  double tiles = 1;
  for (int loop = 0; loop < nest.loops(); ++loop)
    if (!nest.reduction[loop]) tiles *= static_cast<double>(nest.extents[loop]) / static_cast<double>(plan.tile[loop]);
  return tiles * plan.kernel->cycles(nest, chip, plan);
}

}  // namespace

std::vector<Nest> instructionVariants(mlir::OpBuilder& builder, const Nest& nest, const Chip& chip,
                                      const PlanConstraints& wanted) {
  std::vector<std::pair<double, Nest>> priced;
  for (const ProductInstructions& kind : kindsOfProductInstructions(chip)) {
    Nest form = nest;
    const auto taken = [&](const auto& each) {
      return each->isProfitable(nest) && each->rewriteFor(builder, form, chip).empty();
    };
    if (!llvm::any_of(kind, taken)) continue;
    const auto price = priceOf(form, chip, wanted);
    if (!price) continue;
    const auto dearer = llvm::find_if(priced, [&](const auto& other) { return other.first > *price; });
    priced.emplace(dearer, *price, std::move(form));
  }
  std::vector<Nest> forms;
  for (auto& [price, form] : priced) forms.push_back(std::move(form));
  return forms;
}

absl::Status rewriteNestFor(mlir::OpBuilder& builder, Nest& nest, const Chip& chip, const std::string& name,
                            const std::string& path) {
  if (name.empty()) return absl::OkStatus();
  const ProductInstructions instructions = productInstructions(chip);
  const auto found = llvm::find_if(instructions, [&](const auto& each) { return each->name() == name; });
  if (found == instructions.end()) {
    const std::string all = absl::StrJoin(
        instructions, ", ", [](std::string* out, const auto& each) { absl::StrAppend(out, each->name()); });
    return scheduleFault(path, "the target has no such instruction for products", name, all.empty() ? "none" : all);
  }
  if (std::string reason = (*found)->rewriteFor(builder, nest, chip); !reason.empty())
    return scheduleFault(path, absl::StrCat("an instruction that the nest cannot use: ", reason), name,
                         "no instruction");
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
