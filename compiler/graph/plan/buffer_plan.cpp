#include "compiler/graph/plan/buffer_plan.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/underlying_bytes.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/plan/in_place_results.h"
#include "compiler/ir/weight_attribute.h"
#include "compiler/ir/workload.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;

constexpr int64_t kAlignment = 64;

}  // namespace

int BufferPlan::newStorage(Storage storage) {
  storages_.push_back(std::move(storage));
  return static_cast<int>(storages_.size()) - 1;
}

int64_t BufferPlan::placeArguments(std::vector<PlannedGraph::PlacedWeight>& weights) {
  int inputs = 0;
  std::map<int64_t, int> placed;  // weight index -> storage
  int64_t offset = 0;
  for (mlir::BlockArgument argument : main_.getArguments()) {
    auto weight = main_.getArgAttrOfType<mlir::IntegerAttr>(argument.getArgNumber(), kWeightAttribute);
    if (!weight) {
      Storage storage{.kind = v1::Buffer::INPUT, .index = inputs, .spec = model_.inputs[inputs]};
      ++inputs;
      storage_of_[argument] = newStorage(std::move(storage));
      continue;
    }
    // Weights without reader are not stored.
    if (argument.use_empty()) continue;
    // Several arguments may be the same weight.
    auto [it, inserted] = placed.try_emplace(weight.getInt(), 0);
    if (inserted) {
      const Weight& bytes = model_.weights[weight.getInt()];
      if (bytes.prepared >= 0) {
        it->second = newStorage({.kind = v1::Buffer::PREPARED, .index = bytes.prepared, .spec = bytes.spec});
        storage_of_[argument] = it->second;
        continue;
      }
      it->second = newStorage({.kind = v1::Buffer::WEIGHT, .offset = offset, .spec = bytes.spec});
      weights.push_back({offset, bytes});
      weights.back().weight.derivation.reset();  // the plan outlives the graph's context
      offset += (static_cast<int64_t>(bytes.bytes.size()) + kAlignment - 1) / kAlignment * kAlignment;
    }
    storage_of_[argument] = it->second;
  }
  return offset;
}

bool BufferPlan::placeConcat(mlir::tensor::ConcatOp concat) {
  auto type = mlir::cast<RankedTensorType>(concat.getType());
  // A part must be one piece of the result, so there may be no larger dimension before.
  for (int64_t d = 0; d < static_cast<int64_t>(concat.getDim()); ++d) {
    if (type.getDimSize(d) != 1) return false;
  }
  // An output has a buffer of its caller, which parts could not share.
  if (output_of_.contains(concat.getResult()) || interfaceType(type) != type) return false;
  llvm::DenseSet<Value> seen;
  int64_t offset = 0;
  for (Value part : concat.getInputs()) {
    // A part that is itself a view belongs to the value it views.
    Value root = viewSource(part);
    // A part must be written by a step, once, and begin at an aligned address.
    mlir::Operation* producer = root.getDefiningOp();
    if (!producer || kindOf(producer) == OpKind::kCloned || kindOf(producer) == OpKind::kSlice ||
        output_of_.contains(root) || part_of_.contains(root) || !seen.insert(root).second || offset % kAlignment != 0) {
      return false;
    }
    offset += tensorBytes(part.getType());
  }
  offset = 0;
  for (Value part : concat.getInputs()) {
    part_of_[viewSource(part)] = {concat.getResult(), offset};
    offset += tensorBytes(part.getType());
  }
  return true;
}

/// Returns the storage of a part within a concatenation's result, which is live from its first part on.
int BufferPlan::storageOfPart(Value part, int step) {
  Place place = part_of_.lookup(part);
  auto whole = storage_of_.find(place.whole);
  int parent = 0;
  if (whole != storage_of_.end()) {
    parent = whole->second;
  } else if (part_of_.contains(place.whole)) {
    parent = storageOfPart(place.whole, step);
  } else {
    const int64_t size = tensorBytes(place.whole.getType());
    sum_intermediate_bytes_ += size;
    parent = newStorage(
        {.kind = v1::Buffer::ARENA, .lifetime = {size, step, std::max(step, last_use_.lookup(place.whole))}});
    storages_[parent].spec.set_name(nodeNames(place.whole.getLoc()));
  }
  storage_of_[place.whole] = parent;
  const int64_t size = tensorBytes(part.getType());
  const int storage =
      newStorage({.kind = v1::Buffer::ARENA, .offset = place.offset, .parent = parent, .lifetime = {size, step, -1}});
  storages_[storage].spec.set_name(nodeNames(part.getLoc()));
  storage_of_[part] = storage;
  return storage;
}

void BufferPlan::findLastUses(llvm::ArrayRef<PendingStep> steps, llvm::ArrayRef<Value> extents) {
  for (auto [step, pending] : llvm::enumerate(steps)) {
    for (Value argument : pending.outlined.arguments) {
      // Reading a part keeps every enclosing result alive.
      // Every enclosing concatenation lives as long as its part is read.
      for (Value root = viewSource(argument); root; root = part_of_.lookup(root).whole) {
        last_use_[root] = static_cast<int>(step);
      }
    }
  }
  for (Value extent : extents) {
    for (Value root = extent; root; root = part_of_.lookup(root).whole) {
      last_use_[root] = static_cast<int>(steps.size());
    }
    // Extents are read after the last step.
  }
}

/// Returns the storage of an operand that the only result of an elementwise step may overwrite, or -1.
int BufferPlan::storageInPlace(const PendingStep& pending, int step) const {
  if (pending.results.size() != 1) return -1;
  auto generic = pending.results[0].getDefiningOp<mlir::linalg::GenericOp>();
  if (!generic || kindOf(generic) != OpKind::kElementwise) return -1;
  mlir::func::FuncOp function = *pending.outlined.function;
  // The group must be this single operation: with several phases an early write could precede a late read.
  const auto compute = llvm::count_if(function.getBody().front(), [](mlir::Operation& op) {
    return kindOf(&op) != OpKind::kCloned && !op.hasTrait<mlir::OpTrait::IsTerminator>();
  });
  if (compute != 1) return -1;
  auto type = mlir::cast<RankedTensorType>(pending.results[0].getType());
  if (interfaceType(type) != type) return -1;
  for (mlir::OpOperand* input : generic.getDpsInputOperands()) {
    Value root = viewSource(input->get());
    auto it = storage_of_.find(root);
    if (it == storage_of_.end() || storages_[it->second].kind != v1::Buffer::ARENA) continue;
    const Storage& storage = storages_[it->second];
    if (storage.lifetime.last != step || storage.lifetime.bytes != tensorBytes(type)) continue;
    auto input_type = mlir::cast<RankedTensorType>(input->get().getType());
    if (input_type.getShape() != type.getShape() || tensorBytes(input_type) != tensorBytes(type)) continue;
    // Every read of these bytes must be at the point being written.
    const bool aligned_reads = llvm::all_of(generic->getOpOperands(), [&](mlir::OpOperand& other) {
      return !mlir::isa<RankedTensorType>(other.get().getType()) || underlyingBytes(other.get()) != root ||
             (viewSource(other.get()) == root && isIdentityAccess(generic, &other));
    });
    if (aligned_reads && !generic.getRegion()
                              .walk([](mlir::tensor::ExtractOp) { return mlir::WalkResult::interrupt(); })
                              .wasInterrupted()) {
      // A body that reads elements at other positions would see overwritten ones.
      return it->second;
    }
  }
  return -1;
}

/// Returns the storage of the operand that a product's step adds to its sums, if no later step reads it and the result
/// may overwrite it; otherwise -1.
int BufferPlan::storageOfAddend(const PendingStep& pending, int step) {
  if (pending.results.size() != 1 || pending.outlined.chain || pending.loop) return -1;
  const llvm::ArrayRef<Value> arguments = pending.outlined.arguments;
  mlir::func::FuncOp function = *pending.outlined.function;
  for (const unsigned addend : overwritableArguments(function)) {
    const Value root = viewSource(arguments[addend]);
    const auto found = storage_of_.find(root);
    if (found == storage_of_.end()) continue;
    const Storage& storage = storages_[found->second];
    const int64_t bytes = tensorBytes(pending.results[0].getType());
    if (storage.kind != v1::Buffer::ARENA || storage.parent >= 0 || storage.lifetime.last != step ||
        storage.lifetime.bytes != bytes)
      continue;
    // Overwriting is safe only if the product reads nothing else in this memory.
    const bool read_elsewhere = llvm::any_of(llvm::enumerate(arguments), [&](auto other) {
      const auto at = storage_of_.find(viewSource(other.value()));
      return other.index() != addend && (underlyingBytes(other.value()) == root || at == storage_of_.end() ||
                                         at->second == found->second || storages_[at->second].parent == found->second);
    });
    if (read_elsewhere) continue;
    const std::string why_not = whyNotInPlace(function, chip_);
    const std::string saved = absl::StrFormat("%.2f MB", static_cast<double>(bytes) / 1e6);
    // Decisions also tell when it would have been possible, and what it costs.
    v1::Decision& decision = decisions_.emplace_back();
    decision.set_kind("in-place");
    decision.set_place(nodeNames(pending.results[0].getLoc()));
    decision.set_unit("bytes");
    decision.set_taken(why_not.empty());
    if (why_not.empty()) {
      decision.set_alternative_cost(static_cast<double>(bytes));
    } else {
      decision.set_cost(static_cast<double>(bytes));
    }
    if (!why_not.empty()) {
      decision.set_reason(absl::StrCat("what is added is read here for the last time, and the result lies beside it, ",
                                       saved, " more: ", why_not));
      return -1;
    }
    decision.set_reason(absl::StrCat("written over what is added, which is read here for the last time: ", saved,
                                     " less alive at once"));
    mlir::Builder builder(function.getContext());
    function.setResultAttr(0, kMayAlias, builder.getI64IntegerAttr(addend));
    // The kernel must know, because it must not initialize what it adds to.
    return found->second;
  }
  return -1;
}

void BufferPlan::assignResults(const PendingStep& pending, int step) {
  const bool is_part = pending.results.size() == 1 && part_of_.contains(pending.results[0]);
  const bool is_output = pending.results.size() == 1 && output_of_.contains(pending.results[0]);
  // Outputs and parts have their place already.
  int in_place = is_part || is_output ? -1 : storageInPlace(pending, step);
  if (!is_part && !is_output && in_place < 0) in_place = storageOfAddend(pending, step);
  for (Value value : pending.results) {
    auto border = interfaceType(mlir::cast<RankedTensorType>(value.getType()));
    if (auto output = output_of_.find(value); output != output_of_.end()) {
      Storage storage{.kind = v1::Buffer::OUTPUT, .index = output->second, .spec = model_.outputs[output->second]};
      storage_of_[value] = newStorage(std::move(storage));
      continue;
    }
    if (part_of_.contains(value)) {
      storageOfPart(value, step);
      continue;
    }
    const int64_t size = tensorBytes(border);
    sum_intermediate_bytes_ += size;
    auto last = last_use_.find(value);
    const int last_step = last == last_use_.end() ? step : last->second;
    // Overwriting extends the life of the memory.
    if (in_place >= 0) {
      storages_[in_place].lifetime.last = last_step;
      storage_of_[value] = in_place;
      continue;
    }
    Storage storage{.kind = v1::Buffer::ARENA, .lifetime = {size, step, last_step}};
    storage.spec.set_name(nodeNames(value.getLoc()));
    storage_of_[value] = newStorage(std::move(storage));
  }
}

int BufferPlan::reserve(int64_t bytes, int first, int last) {
  return newStorage({.kind = v1::Buffer::ARENA, .lifetime = {bytes, first, last}});
}

int BufferPlan::copyTarget(int output) {
  return newStorage({.kind = v1::Buffer::OUTPUT, .index = output, .spec = model_.outputs[output]});
}

void BufferPlan::planArena(v1::Plan& plan) {
  std::vector<Lifetime> lifetimes;
  std::vector<int> owners;
  for (auto [index, storage] : llvm::enumerate(storages_)) {
    // Parts live inside their parents.
    if (storage.kind != v1::Buffer::ARENA || storage.parent >= 0) continue;
    lifetimes.push_back(storage.lifetime);
    owners.push_back(static_cast<int>(index));
  }
  const Arena arena = packArena(lifetimes, Packing::kSmallest);
  const bool ranges = hasRanges(model_);
  for (auto [index, owner] : llvm::enumerate(owners)) {
    storages_[owner].offset = arena.offsets[index];
    // With ranges, a run computes its own places from lifetimes and sizes.
    if (!ranges) continue;
    storages_[owner].index = plan.arena_size();
    v1::ArenaAllocation* place = plan.add_arena();
    place->set_offset(arena.offsets[index]);
    place->set_size_bytes(lifetimes[index].bytes);
    place->set_first_step(lifetimes[index].first);
    place->set_last_step(lifetimes[index].last);
  }
  // Parents precede their parts.
  for (Storage& storage : storages_) {
    if (storage.parent < 0) continue;
    storage.offset += storages_[storage.parent].offset;
    storage.index = storages_[storage.parent].index;
  }
  plan.set_arena_bytes(arena.bytes);
  plan.mutable_report()->set_peak_live_bytes(arena.peak_live_bytes);
  plan.mutable_report()->set_sum_intermediate_bytes(sum_intermediate_bytes_);
  for (v1::Decision& decision : decisions_) *plan.mutable_report()->add_decisions() = std::move(decision);
}

}  // namespace tessera::compiler
