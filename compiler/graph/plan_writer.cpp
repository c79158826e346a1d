#include "compiler/graph/plan_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/element_type.h"
#include "compiler/graph/memory_plan.h"
#include "compiler/graph/node_names.h"
#include "compiler/graph/op_kind.h"
#include "compiler/graph/outline.h"
#include "compiler/graph/summary.h"
#include "compiler/ir/workload.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "proto/failure.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;

constexpr int64_t kAlignment = 64;

/// Where bytes live. Several values share one: views, and results written over dead operands.
struct Storage {
  v1::Buffer::Kind kind = v1::Buffer::ARENA;
  int index = 0;          // input or output position, or position in weights
  int64_t offset = 0;     // weights and arena
  int parent = -1;        // arena: the storage this one is a part of; offset is then relative to it
  Lifetime lifetime{};    // arena
  v1::TensorSpec spec{};  // of the value that made it
};

int64_t sizeInBytes(RankedTensorType type) {
  mlir::Type element = type.getElementType();
  const int64_t width = element.isIndex() ? 8 : (element.getIntOrFloatBitWidth() + 7) / 8;
  return type.getNumElements() * width;
}

Value rootOf(Value value) {
  while (mlir::Operation* producer = value.getDefiningOp()) {
    if (kindOf(producer) != OpKind::kView) break;
    value = producer->getOperand(0);
  }
  return value;
}

/// Whose bytes are read when `value` is: slices read those of the whole.
Value bytesOf(Value value) {
  while (mlir::Operation* producer = value.getDefiningOp()) {
    const OpKind kind = kindOf(producer);
    if (kind != OpKind::kView && kind != OpKind::kSlice) break;
    value = producer->getOperand(0);
  }
  return value;
}

class PlanWriter {
 public:
  PlanWriter(const ImportedModel& model, std::vector<Group> groups)
      : model_(model),
        main_(mlir::cast<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model.module, "main"))),
        groups_(std::move(groups)) {}
  absl::StatusOr<PlannedGraph> run();

 private:
  struct PendingStep {
    OutlinedGroup outlined;
    llvm::SmallVector<Value> results;  // empty: copies its only argument to model output `copies_to`
    int copies_to = -1;
    std::string name;
  };

  void placeArguments();
  void assignOutputs();
  void outlineGroups();
  void placeConcats();
  bool placeConcat(mlir::tensor::ConcatOp concat);
  void findLastUses();
  int storageOfPart(Value part, int step);
  void assignResults(int step);
  int storageInPlace(const PendingStep& pending, int step);
  int newStorage(Storage storage);
  void planArena();
  int bufferOf(int storage, RankedTensorType type);
  int workloadOf(const OutlinedGroup& outlined);
  void writeSteps();
  void writeExtents();

  const ImportedModel& model_;
  mlir::func::FuncOp main_;
  std::vector<Group> groups_;
  std::vector<PendingStep> pending_;
  std::vector<Storage> storages_;
  llvm::DenseMap<Value, int> storage_of_;  // by root value
  llvm::DenseMap<Value, int> output_of_;   // roots written straight to a model output
  llvm::DenseMap<Value, int> last_use_;    // by root value
  llvm::SmallVector<Value> extents_;       // roots of the extents of outputs, in the order of model_.extents
  struct Place {
    Value whole;
    int64_t offset;  // bytes
  };
  llvm::DenseMap<Value, Place> part_of_;  // roots written straight into a concatenation's result
  llvm::DenseMap<std::pair<int, mlir::Type>, int> buffer_of_;
  std::map<std::string, int> workload_of_;
  int64_t sum_intermediate_bytes_ = 0;
  PlannedGraph result_;
};

int PlanWriter::newStorage(Storage storage) {
  storages_.push_back(std::move(storage));
  return static_cast<int>(storages_.size()) - 1;
}

void PlanWriter::placeArguments() {
  int inputs = 0;
  std::map<int64_t, int> placed;  // weight index -> storage
  int64_t offset = 0;
  for (mlir::BlockArgument argument : main_.getArguments()) {
    auto weight = main_.getArgAttrOfType<mlir::IntegerAttr>(argument.getArgNumber(), "tessera.weight");
    if (!weight) {
      Storage storage{.kind = v1::Buffer::INPUT, .index = inputs, .spec = model_.inputs[inputs]};
      ++inputs;
      storage_of_[argument] = newStorage(std::move(storage));
      continue;
    }
    if (argument.use_empty()) continue;
    auto [it, inserted] = placed.try_emplace(weight.getInt(), 0);
    if (inserted) {
      const Weight& bytes = model_.weights[weight.getInt()];
      it->second = newStorage({.kind = v1::Buffer::WEIGHT, .offset = offset, .spec = bytes.spec});
      result_.weights.push_back({offset, bytes});
      offset += (static_cast<int64_t>(bytes.bytes.size()) + kAlignment - 1) / kAlignment * kAlignment;
    }
    storage_of_[argument] = it->second;
  }
  result_.plan.set_weights_bytes(offset);
}

/// Decides which results are written in place; the others are copied once all groups have run.
void PlanWriter::assignOutputs() {
  llvm::DenseMap<Value, int> made_by_group;
  for (const Group& group : groups_) {
    for (Value value : group.results) made_by_group[value] = 1;
  }
  auto results = main_.getBody().front().getTerminator()->getOperands();
  for (auto [index, value] : llvm::enumerate(results)) {
    Value root = rootOf(value);
    mlir::Operation* producer = root.getDefiningOp();
    if (producer && !made_by_group.contains(root)) {
      groups_.push_back({{producer}, {root}, {}});  // a constant: a step that writes it
      made_by_group[root] = 1;
    }
    if (index >= model_.outputs.size()) {
      extents_.push_back(root);  // read where it is once all steps have run
      continue;
    }
    if (producer && output_of_.try_emplace(root, index).second) continue;
    PendingStep copy;
    auto type = mlir::cast<RankedTensorType>(value.getType());
    copy.outlined.function = makeCopyFunction(value.getLoc(), type);
    copy.outlined.arguments.push_back(value);
    copy.copies_to = static_cast<int>(index);
    copy.name = absl::StrCat("copy to ", model_.outputs[index].name());
    pending_.push_back(std::move(copy));
  }
}

/// Where parts lie one after the other in the result, whoever computes a part can write it there and the
/// concatenation needs no step.
bool PlanWriter::placeConcat(mlir::tensor::ConcatOp concat) {
  auto type = mlir::cast<RankedTensorType>(concat.getType());
  for (int64_t d = 0; d < static_cast<int64_t>(concat.getDim()); ++d) {
    if (type.getDimSize(d) != 1) return false;
  }
  if (output_of_.contains(concat.getResult()) || borderType(type) != type) return false;
  llvm::DenseSet<Value> seen;
  int64_t offset = 0;
  for (Value part : concat.getInputs()) {
    Value root = rootOf(part);
    mlir::Operation* producer = root.getDefiningOp();
    if (!producer || kindOf(producer) == OpKind::kCloned || kindOf(producer) == OpKind::kSlice ||
        output_of_.contains(root) || part_of_.contains(root) || !seen.insert(root).second || offset % kAlignment != 0) {
      return false;
    }
    offset += sizeInBytes(mlir::cast<RankedTensorType>(part.getType()));
  }
  offset = 0;
  for (Value part : concat.getInputs()) {
    part_of_[rootOf(part)] = {concat.getResult(), offset};
    offset += sizeInBytes(mlir::cast<RankedTensorType>(part.getType()));
  }
  return true;
}

void PlanWriter::placeConcats() {
  std::erase_if(groups_, [&](const Group& group) {
    auto concat = mlir::dyn_cast<mlir::tensor::ConcatOp>(group.ops.front());
    return concat && group.ops.size() == 1 && placeConcat(concat);
  });
}

/// The storage of a value within the result of a concatenation, which lives from its first part on.
int PlanWriter::storageOfPart(Value part, int step) {
  Place place = part_of_.lookup(part);
  auto whole = storage_of_.find(place.whole);
  int parent = 0;
  if (whole != storage_of_.end()) {
    parent = whole->second;
  } else if (part_of_.contains(place.whole)) {
    parent = storageOfPart(place.whole, step);
  } else {
    const int64_t size = sizeInBytes(mlir::cast<RankedTensorType>(place.whole.getType()));
    sum_intermediate_bytes_ += size;
    parent = newStorage(
        {.kind = v1::Buffer::ARENA, .lifetime = {size, step, std::max(step, last_use_.lookup(place.whole))}});
    storages_[parent].spec.set_name(nodeNames(place.whole.getLoc()));
  }
  storage_of_[place.whole] = parent;
  const int64_t size = sizeInBytes(mlir::cast<RankedTensorType>(part.getType()));
  const int storage =
      newStorage({.kind = v1::Buffer::ARENA, .offset = place.offset, .parent = parent, .lifetime = {size, step, -1}});
  storages_[storage].spec.set_name(nodeNames(part.getLoc()));
  storage_of_[part] = storage;
  return storage;
}

void PlanWriter::outlineGroups() {
  std::vector<PendingStep> steps;
  for (const Group& group : groups_) {
    PendingStep step;
    step.outlined = outlineGroup(group);
    step.results.assign(group.results.begin(), group.results.end());
    llvm::SmallVector<mlir::Location> locations;
    for (mlir::Operation* op : group.ops) locations.push_back(op->getLoc());
    step.name = nodeNames(locations);
    steps.push_back(std::move(step));
  }
  for (PendingStep& copy : pending_) steps.push_back(std::move(copy));
  pending_ = std::move(steps);
}

void PlanWriter::findLastUses() {
  for (auto [step, pending] : llvm::enumerate(pending_)) {
    for (Value argument : pending.outlined.arguments) {
      // A reader of a part keeps everything alive that the part is in.
      for (Value root = rootOf(argument); root; root = part_of_.lookup(root).whole) {
        last_use_[root] = static_cast<int>(step);
      }
    }
  }
  for (Value extent : extents_) {
    for (Value root = extent; root; root = part_of_.lookup(root).whole) {
      last_use_[root] = static_cast<int>(pending_.size());
    }
  }
}

/// The storage of an operand that the only result of an elementwise step may overwrite, or -1.
int PlanWriter::storageInPlace(const PendingStep& pending, int step) {
  if (pending.results.size() != 1) return -1;
  auto generic = pending.results[0].getDefiningOp<mlir::linalg::GenericOp>();
  if (!generic || kindOf(generic) != OpKind::kElementwise) return -1;
  mlir::func::FuncOp function = *pending.outlined.function;
  // The group must be this one operation: with several phases an early write could meet a late read.
  const auto compute = llvm::count_if(function.getBody().front(), [](mlir::Operation& op) {
    return kindOf(&op) != OpKind::kCloned && !op.hasTrait<mlir::OpTrait::IsTerminator>();
  });
  if (compute != 1) return -1;
  auto type = mlir::cast<RankedTensorType>(pending.results[0].getType());
  if (borderType(type) != type) return -1;
  for (mlir::OpOperand* input : generic.getDpsInputOperands()) {
    Value root = rootOf(input->get());
    auto it = storage_of_.find(root);
    if (it == storage_of_.end() || storages_[it->second].kind != v1::Buffer::ARENA) continue;
    const Storage& storage = storages_[it->second];
    if (storage.lifetime.last_step != step || storage.lifetime.size_bytes != sizeInBytes(type)) continue;
    auto input_type = mlir::cast<RankedTensorType>(input->get().getType());
    if (input_type.getShape() != type.getShape() || sizeInBytes(input_type) != sizeInBytes(type)) continue;
    // Every read of these bytes must be at the point being written.
    const bool aligned_reads = llvm::all_of(generic->getOpOperands(), [&](mlir::OpOperand& other) {
      return !mlir::isa<RankedTensorType>(other.get().getType()) || bytesOf(other.get()) != root ||
             (rootOf(other.get()) == root && isIdentityAccess(generic, &other));
    });
    if (aligned_reads && generic.getRegion()
                                 .walk([](mlir::tensor::ExtractOp) { return mlir::WalkResult::interrupt(); })
                                 .wasInterrupted() == false) {
      return it->second;
    }
  }
  return -1;
}

void PlanWriter::assignResults(int step) {
  PendingStep& pending = pending_[step];
  const bool is_part = pending.results.size() == 1 && part_of_.contains(pending.results[0]);
  const int in_place = is_part ? -1 : storageInPlace(pending, step);
  for (Value value : pending.results) {
    auto border = borderType(mlir::cast<RankedTensorType>(value.getType()));
    if (auto output = output_of_.find(value); output != output_of_.end()) {
      Storage storage{.kind = v1::Buffer::OUTPUT, .index = output->second, .spec = model_.outputs[output->second]};
      storage_of_[value] = newStorage(std::move(storage));
      continue;
    }
    if (part_of_.contains(value)) {
      storageOfPart(value, step);
      continue;
    }
    const int64_t size = sizeInBytes(border);
    sum_intermediate_bytes_ += size;
    auto last = last_use_.find(value);
    const int last_step = last == last_use_.end() ? step : last->second;
    if (in_place >= 0) {
      storages_[in_place].lifetime.last_step = last_step;
      storage_of_[value] = in_place;
      continue;
    }
    Storage storage{.kind = v1::Buffer::ARENA, .lifetime = {size, step, last_step}};
    storage.spec.set_name(nodeNames(value.getLoc()));
    storage_of_[value] = newStorage(std::move(storage));
  }
}

void PlanWriter::planArena() {
  std::vector<Lifetime> lifetimes;
  std::vector<int> owners;
  for (auto [index, storage] : llvm::enumerate(storages_)) {
    if (storage.kind != v1::Buffer::ARENA || storage.parent >= 0) continue;
    lifetimes.push_back(storage.lifetime);
    owners.push_back(static_cast<int>(index));
  }
  MemoryPlan memory = planMemory(lifetimes);
  for (auto [index, owner] : llvm::enumerate(owners)) storages_[owner].offset = memory.offsets[index];
  // Parents come before their parts.
  for (Storage& storage : storages_) {
    if (storage.parent >= 0) storage.offset += storages_[storage.parent].offset;
  }
  result_.plan.set_arena_bytes(memory.arena_bytes);
  result_.plan.mutable_report()->set_peak_live_bytes(memory.peak_live_bytes);
  result_.plan.mutable_report()->set_sum_intermediate_bytes(sum_intermediate_bytes_);
}

int PlanWriter::bufferOf(int storage_index, RankedTensorType type) {
  auto [it, inserted] = buffer_of_.try_emplace({storage_index, type}, result_.plan.buffers_size());
  if (!inserted) return it->second;
  const Storage& storage = storages_[storage_index];
  v1::Buffer* buffer = result_.plan.add_buffers();
  buffer->set_kind(storage.kind);
  buffer->set_index(storage.index);
  buffer->set_offset(storage.offset);
  buffer->set_size_bytes(sizeInBytes(type));
  buffer->mutable_spec()->set_name(storage.spec.name());
  // The model's own type where there is one: MLIR's integers do not know their sign.
  const bool named = storage.kind != v1::Buffer::ARENA;
  buffer->mutable_spec()->set_dtype(named ? storage.spec.dtype() : dataTypeOf(type.getElementType()));
  for (int64_t extent : type.getShape()) buffer->mutable_spec()->add_shape(extent);
  return it->second;
}

int PlanWriter::workloadOf(const OutlinedGroup& outlined) {
  mlir::func::FuncOp function = *outlined.function;
  WorkloadFacts facts = describeWorkload(function);
  CanonicalWorkload canonical = canonicalizeWorkload(function);
  auto [it, inserted] = workload_of_.try_emplace(canonical.hash, result_.plan.workloads_size());
  if (!inserted) return it->second;
  v1::Workload* workload = result_.plan.add_workloads();
  workload->set_hash(canonical.hash);
  workload->set_symbol(canonical.symbol);
  workload->set_ir(canonical.ir);
  workload->set_summary(facts.summary);
  workload->set_flops(facts.flops);
  workload->set_bytes(facts.bytes);
  if (facts.slice_rows > 0) {
    v1::ChainTiling* slices = workload->mutable_schedule()->mutable_chain();
    for (auto [dimension, tile] : {std::pair("d0", int64_t{1}), std::pair("d2", facts.slice_rows)}) {
      slices->add_order(dimension);
      slices->add_tile(tile);
    }
  }
  if (outlined.chain) *workload->mutable_schedule()->mutable_chain() = *outlined.chain;
  if (!facts.algorithm.empty()) workload->mutable_schedule()->set_algorithm(facts.algorithm);
  return it->second;
}

void PlanWriter::writeSteps() {
  for (PendingStep& pending : pending_) {
    v1::Step* step = result_.plan.add_steps();
    step->set_name(pending.name);
    auto types = pending.outlined.function->getArgumentTypes();
    for (auto [argument, type] : llvm::zip_equal(pending.outlined.arguments, types)) {
      step->add_operands(bufferOf(storage_of_.lookup(rootOf(argument)), mlir::cast<RankedTensorType>(type)));
    }
    auto result_types = pending.outlined.function->getResultTypes();
    if (pending.copies_to >= 0) {
      const int output = pending.copies_to;
      const int storage = newStorage({.kind = v1::Buffer::OUTPUT, .index = output, .spec = model_.outputs[output]});
      step->add_operands(bufferOf(storage, mlir::cast<RankedTensorType>(result_types[0])));
    }
    for (Value value : pending.results) {
      auto type = borderType(mlir::cast<RankedTensorType>(value.getType()));
      step->add_operands(bufferOf(storage_of_.lookup(value), type));
    }
    step->set_workload(workloadOf(pending.outlined));
  }
}

void PlanWriter::writeExtents() {
  for (auto [extent, root] : llvm::zip_equal(model_.extents, extents_)) {
    v1::RuntimeExtent* entry = result_.plan.add_runtime_extents();
    entry->set_output(extent.output);
    entry->set_dimension(extent.dimension);
    entry->set_buffer(bufferOf(storage_of_.lookup(root), mlir::cast<RankedTensorType>(root.getType())));
  }
}

absl::StatusOr<PlannedGraph> PlanWriter::run() {
  placeArguments();
  assignOutputs();
  placeConcats();
  outlineGroups();
  findLastUses();
  for (int step = 0; step < static_cast<int>(pending_.size()); ++step) assignResults(step);
  for (const PendingStep& pending : pending_) {
    for (Value argument : pending.outlined.arguments) {
      if (storage_of_.contains(rootOf(argument))) continue;
      return failureStatus(v1::Failure::INTERNAL,
                           absl::StrCat("step \"", pending.name, "\" reads a value that no step writes"));
    }
  }
  planArena();
  writeSteps();
  writeExtents();
  for (const v1::TensorSpec& input : model_.inputs) *result_.plan.add_inputs() = input;
  for (const v1::TensorSpec& output : model_.outputs) *result_.plan.add_outputs() = output;
  for (const v1::TensorValue& fixed : model_.fixed_inputs) *result_.plan.add_fixed_inputs() = fixed;
  result_.plan.mutable_report()->set_nodes_before(model_.nodes);
  result_.plan.mutable_report()->set_groups_after(result_.plan.steps_size());
  return std::move(result_);
}

}  // namespace

absl::StatusOr<PlannedGraph> writePlan(const ImportedModel& model, std::vector<Group> groups) {
  return PlanWriter(model, std::move(groups)).run();
}

}  // namespace tessera::compiler
