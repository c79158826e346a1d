#include "compiler/graph/plan/prepared_weights.h"

#include "absl/strings/str_cat.h"
#include "compiler/graph/constants/fold_constants.h"
#include "compiler/graph/constants/weight_derivation.h"
#include "compiler/graph/plan/plan_writer.h"
#include "compiler/graph/rewrites/fusion.h"
#include "compiler/graph/rewrites/simplify.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "proto/messages/element_size.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Stored weights over their sources. Layouts that fill up blocks of channels stay below this ratio.
constexpr double kMaxStoredGrowth = 1.2;
/// Least saving of a preparation step, as a fraction of the stored bytes: its kernel costs space and time too.
constexpr int64_t kMinPart = 1000;
/// Budget of loop points to compute one weight.
constexpr int64_t kPoints = int64_t{1} << 33;

int64_t bytesOf(const Weight& weight) {
  int64_t bytes = elementBytes(weight.spec.dtype());
  for (int64_t extent : weight.spec.shape()) bytes *= extent;
  return bytes;
}

/// Returns the positions of the weights that `main` reads, each once.
llvm::SetVector<int64_t> readOf(mlir::func::FuncOp main) {
  llvm::SetVector<int64_t> read;
  for (mlir::BlockArgument argument : main.getArguments()) {
    auto index = main.getArgAttrOfType<mlir::IntegerAttr>(argument.getArgNumber(), kWeightAttribute);
    if (index && !argument.use_empty()) read.insert(index.getInt());
  }
  return read;
}

absl::Status compute(Weight& weight, const FoldedWeightStorage& memory) {
  int64_t budget = kPoints;
  std::optional<DenseValue> value = evaluate(*weight.derivation, budget);
  if (!value) {
    return failureStatus(v1::Failure::INTERNAL,
                         absl::StrCat("weight '", weight.spec.name(), "' cannot be computed when compiling"));
  }
  const DenseValue kept = memory.keep(*std::move(value));
  weight.bytes = {kept.data, static_cast<size_t>(kept.bytes())};
  weight.owner = kept.owner;
  return absl::OkStatus();
}

/// Returns the steps that compute a weight, as the plan of a model without inputs.
absl::StatusOr<PlannedGraph::PreparedWeight> planOf(const Weight& weight, const Chip& chip) {
  mlir::func::FuncOp function = weight.derivation->function.get().clone();
  ImportedModel model;
  model.module = mlir::ModuleOp::create(function.getLoc());
  model.module->push_back(function);
  function.setName("main");
  mlir::Builder builder(function.getContext());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttr(i, kWeightAttribute, builder.getI64IntegerAttr(i));
  model.weights = weight.derivation->sources;
  model.outputs.push_back(weight.spec);
  // The derivation was recorded operation by operation and is not optimized yet.
  eliminateDuplicates(function);
  fuseElementwise(function);
  TESSERA_ASSIGN_OR_RETURN(PlannedGraph planned, writePlan(model, formGroups(function), chip, {}));
  // A report would mix with the one of the model.
  planned.plan.clear_report();
  return PlannedGraph::PreparedWeight{std::move(planned.plan), std::move(planned.weights)};
}

}  // namespace

absl::Status computeDerived(mlir::func::FuncOp main, std::vector<Weight>& weights, const FoldedWeightStorage& memory) {
  for (const int64_t index : readOf(main)) {
    Weight& weight = weights[index];
    if (!weight.derivation || !weight.bytes.empty()) continue;
    TESSERA_RETURN_IF_ERROR(compute(weight, memory));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PlannedGraph::PreparedWeight>> selectPreparedWeights(mlir::func::FuncOp main,
                                                                                std::vector<Weight>& weights,
                                                                                const Chip& chip,
                                                                                const FoldedWeightStorage& memory,
                                                                                bool prepare) {
  const llvm::SetVector<int64_t> read = readOf(main);
  int64_t folded = 0;
  // Keyed by address, because weights may share sources.
  llvm::DenseMap<const char*, int64_t> sources;  // weights that are stored if all derived weights are prepared
  for (const int64_t index : read) {
    const Weight& weight = weights[index];
    folded += bytesOf(weight);
    if (!weight.derivation) {
      sources[weight.bytes.data()] = bytesOf(weight);
      continue;
    }
    for (const Weight& source : weight.derivation->sources)
      sources[source.bytes.data()] = static_cast<int64_t>(source.bytes.size());
  }
  int64_t least = 0;
  for (const auto& [data, bytes] : sources) least += bytes;
  std::vector<PlannedGraph::PreparedWeight> prepared;
  // Compares what would be stored in either case.
  const bool stores_all = !prepare || static_cast<double>(folded) <= kMaxStoredGrowth * static_cast<double>(least);
  for (const int64_t index : read) {
    Weight& weight = weights[index];
    if (!weight.derivation) continue;
    const int64_t source_bytes = weight.derivation->sourceBytes();
    // Preparing a small weight saves too little for a kernel of its own.
    if (stores_all || !isWorthDeriving(bytesOf(weight), source_bytes) ||
        (bytesOf(weight) - source_bytes) * kMinPart < least) {
      if (weight.bytes.empty()) TESSERA_RETURN_IF_ERROR(compute(weight, memory));
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(PlannedGraph::PreparedWeight plan, planOf(weight, chip));
    weight.prepared = static_cast<int>(prepared.size());
    prepared.push_back(std::move(plan));
  }
  return prepared;
}

}  // namespace tessera::compiler
