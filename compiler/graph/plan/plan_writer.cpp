#include "compiler/graph/plan/plan_writer.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/node_names.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/analysis/summary.h"
#include "compiler/graph/analysis/underlying_bytes.h"
#include "compiler/graph/analysis/used_rows.h"
#include "compiler/graph/plan/buffer_plan.h"
#include "compiler/graph/plan/loop_steps.h"
#include "compiler/graph/plan/outline.h"
#include "compiler/graph/plan/state_steps.h"
#include "compiler/ir/workload.h"
#include "llvm/ADT/DenseMap.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;

class PlanWriter {
 public:
  PlanWriter(const ImportedModel& model, std::vector<Group> groups, const Chip& chip, const LoopPlans& loops,
             const std::vector<v1::State>& states)
      : model_(model),
        main_(mlir::cast<mlir::func::FuncOp>(mlir::SymbolTable::lookupSymbolIn(*model.module, "main"))),
        groups_(std::move(groups)),
        states_(states),
        buffers_(model, main_, chip) {
    for (const auto& [loop, body] : loops) body_of_[loop] = &body;
  }
  absl::StatusOr<PlannedGraph> run();

 private:
  void assignOutputs();
  void placeConcats();
  void outlineGroups();
  void addStateSteps();
  void writeStates();
  bool writesElsewhere(int step, int allocation) const;
  int bufferOf(int storage, RankedTensorType type);
  int workloadOf(const OutlinedGroup& outlined);
  void assignLoopMemory();
  void numberSteps();
  void writeSteps();
  void writeLoop(const PendingStep& pending, const LoopMemory& own);
  void writeRows(llvm::ArrayRef<UsedRows> all, v1::Step& step);
  void writeExtents();

  const ImportedModel& model_;
  mlir::func::FuncOp main_;
  std::vector<Group> groups_;
  const std::vector<v1::State>& states_;
  BufferPlan buffers_;
  std::vector<PendingStep> pending_;
  llvm::SmallVector<Value> extents_;  // roots of model_.extents in their order, then of the fault
  llvm::DenseMap<std::pair<int, mlir::Type>, int> buffer_of_;
  std::map<std::string, int> workload_of_;
  llvm::DenseMap<mlir::Operation*, const PlannedGraph*> body_of_;  // of each loop
  llvm::DenseMap<mlir::Operation*, LoopMemory> loop_memory_;
  std::vector<StateSteps> state_steps_;
  std::vector<int> rows_storage_;  // of pending steps; -1: computes no rows of a state
  std::optional<UsedRowAnalysis> rows_;
  PlannedGraph result_;
};

/// Decides which outputs are written in place; the others are copied after all groups.
void PlanWriter::assignOutputs() {
  llvm::DenseMap<Value, int> made_by_group;
  for (const Group& group : groups_) {
    for (Value value : group.results) made_by_group[value] = 1;
  }
  auto results = main_.getBody().front().getTerminator()->getOperands();
  for (auto [index, value] : llvm::enumerate(results)) {
    Value root = viewSource(value);
    mlir::Operation* producer = root.getDefiningOp();
    if (producer && !made_by_group.contains(root)) {
      groups_.push_back({{producer}, {root}, {}});  // a constant: a step that writes it
      made_by_group[root] = 1;
    }
    if (index >= model_.outputs.size()) {
      extents_.push_back(root);  // read in place after all steps
      continue;
    }
    if (producer && buffers_.writeToOutput(root, static_cast<int>(index))) continue;
    PendingStep copy;
    auto type = mlir::cast<RankedTensorType>(value.getType());
    copy.outlined.function = makeCopyFunction(value.getLoc(), type);
    copy.outlined.arguments.push_back(value);
    copy.copies_to = static_cast<int>(index);
    copy.name = absl::StrCat("copy to ", model_.outputs[index].name());
    pending_.push_back(std::move(copy));
  }
}

void PlanWriter::placeConcats() {
  std::erase_if(groups_, [&](const Group& group) {
    auto concat = mlir::dyn_cast<mlir::tensor::ConcatOp>(group.ops.front());
    return concat && group.ops.size() == 1 && buffers_.placeConcat(concat);
  });
}

void PlanWriter::outlineGroups() {
  std::vector<PendingStep> steps;
  for (const Group& group : groups_) {
    PendingStep step;
    step.loop = mlir::dyn_cast<LoopOp>(group.ops.front());
    if (step.loop) {
      // A loop needs no function of its own: its body has been planned.
      step.outlined.arguments.assign(step.loop->operand_begin(), step.loop->operand_end());
      step.results.assign(step.loop->result_begin(), step.loop->result_end());  // every result is written
    } else {
      step.outlined = outlineGroup(group);
      step.results.assign(group.results.begin(), group.results.end());
    }
    llvm::SmallVector<mlir::Location> locations;
    for (mlir::Operation* op : group.ops) locations.push_back(op->getLoc());
    step.name = nodeNames(locations);
    steps.push_back(std::move(step));
  }
  // Copies to outputs come last.
  for (PendingStep& copy : pending_) steps.push_back(std::move(copy));
  pending_ = std::move(steps);
}

/// Adds a step before each concatenation that updates a growing state.
void PlanWriter::addStateSteps() {
  llvm::SmallVector<Value> extents(extents_.begin(), extents_.begin() + static_cast<long>(model_.extents.size()));
  const StateStepFinder finder(model_, main_, pending_, extents);
  for (auto [index, state] : llvm::enumerate(states_)) {
    v1::State* planned = result_.plan.add_states();
    *planned = state;
    if (!state.has_growing_dim()) continue;
    std::string why_not;
    std::optional<StateSteps> found = finder.find(state, static_cast<int>(index), why_not);
    v1::Decision* decision = result_.plan.mutable_report()->add_decisions();
    decision->set_kind("state");
    decision->set_place(state.output());
    decision->set_taken(found.has_value());
    decision->set_reason(found ? "a run with a state moves the new rows only"
                               : absl::StrCat("a run with a state moves all rows: ", why_not));
    if (found) state_steps_.push_back(*std::move(found));
  }
  std::vector<int> moved;  // new position of each step
  std::vector<PendingStep> steps;
  for (auto [position, pending] : llvm::enumerate(pending_)) {
    for (StateSteps& state : state_steps_) {
      if (state.concat != static_cast<int>(position)) continue;
      PendingStep rows;
      rows.outlined = std::move(state.rows);
      rows.rows = interfaceType(state.rows_type);
      rows.rows_from = state.source;
      rows.rows_for = static_cast<int>(steps.size()) + 1;
      rows.name = absl::StrCat("new rows of ", states_[static_cast<size_t>(state.state)].output());
      steps.push_back(std::move(rows));
    }
    moved.push_back(static_cast<int>(steps.size()));
    steps.push_back(std::move(pending));
  }
  pending_ = std::move(steps);
  for (StateSteps& state : state_steps_) {
    state.concat = moved[static_cast<size_t>(state.concat)];
    for (int& identity : state.identities) identity = moved[static_cast<size_t>(identity)];
  }
}

/// Whether another step than `step` writes in a place of the arena.
bool PlanWriter::writesElsewhere(int step, int allocation) const {
  for (auto [other, pending] : llvm::enumerate(pending_)) {
    if (static_cast<int>(other) == step) continue;
    const v1::Step& written = result_.plan.steps(static_cast<int>(other));
    const int results = std::max(1, static_cast<int>(pending.results.size()));
    for (int i = written.operands_size() - results; i < written.operands_size(); ++i) {
      const v1::Buffer& buffer = result_.plan.buffers(written.operands(i));
      if (buffer.kind() == v1::Buffer::ARENA && buffer.index() == allocation) return true;
    }
  }
  return false;
}

void PlanWriter::writeStates() {
  for (const StateSteps& steps : state_steps_) {
    v1::State::Append* append = result_.plan.mutable_states(steps.state)->mutable_append();
    append->set_rows_step(steps.concat - 1);
    append->set_concat_step(steps.concat);
    for (const int identity : steps.identities) {
      const v1::Step& step = result_.plan.steps(identity);
      const v1::Buffer& buffer = result_.plan.buffers(step.operands(step.operands_size() - 1));
      // The state's memory takes the place of the result, which then must be alone there.
      if (buffer.kind() != v1::Buffer::ARENA || buffer.index() >= result_.plan.arena_size() ||
          buffer.offset() != result_.plan.arena(buffer.index()).offset() || writesElsewhere(identity, buffer.index()))
        continue;
      append->add_identity_steps(identity);
    }
  }
}

int PlanWriter::bufferOf(int storage_index, RankedTensorType type) {
  // Views of one storage in different shapes are different buffers.
  auto [it, inserted] = buffer_of_.try_emplace({storage_index, type}, result_.plan.buffers_size());
  if (!inserted) return it->second;
  const Storage& storage = buffers_.storage(storage_index);
  v1::Buffer* buffer = result_.plan.add_buffers();
  buffer->set_kind(storage.kind);
  buffer->set_index(storage.index);
  buffer->set_offset(storage.offset);
  buffer->set_size_bytes(tensorBytes(type));
  buffer->mutable_spec()->set_name(storage.spec.name());
  // Uses the model's type where there is one, because MLIR's integers have no sign.
  const bool named = storage.kind != v1::Buffer::ARENA;
  buffer->mutable_spec()->set_dtype(named ? storage.spec.dtype() : dataTypeOf(type.getElementType()));
  for (int64_t extent : type.getShape()) buffer->mutable_spec()->add_shape(extent);
  return it->second;
}

int PlanWriter::workloadOf(const OutlinedGroup& outlined) {
  mlir::func::FuncOp function = *outlined.function;
  WorkloadFacts facts = describeWorkload(function);
  CanonicalWorkload canonical = canonicalizeWorkload(function);
  // The hash of the canonical text identifies equal groups.
  auto [it, inserted] = workload_of_.try_emplace(canonical.hash, result_.plan.workloads_size());
  // Several choices may have led to the same workload.
  if (outlined.chain) result_.fused[canonical.hash].push_back(outlined.choice);
  if (!inserted) return it->second;
  v1::Workload* workload = result_.plan.add_workloads();
  workload->set_hash(canonical.hash);
  workload->set_symbol(canonical.symbol);
  workload->set_ir(canonical.ir);
  workload->set_summary(facts.summary);
  result_.shapes[canonical.hash] = facts.shape;
  workload->set_flops(facts.flops);
  workload->set_bytes(facts.bytes);
  // Winograd's stages run in slices of rows.
  if (facts.slice_rows > 0) {
    v1::ChainTiling* slices = workload->mutable_slices();
    const auto result = mlir::cast<mlir::RankedTensorType>(function.getResultTypes()[0]);
    const std::string rows = absl::StrCat("d", rowsOf(result));
    for (const auto& [dimension, tile] : {std::pair<std::string, int64_t>("d0", 1), {rows, facts.slice_rows}}) {
      slices->add_order(dimension);
      slices->add_tile(tile);
    }
  }
  if (outlined.chain) *workload->mutable_slices() = *outlined.chain;
  if (outlined.fusion) *workload->mutable_fusion() = *outlined.fusion;
  if (!facts.algorithm.empty()) workload->set_algorithm(facts.algorithm);
  return it->second;
}

/// Writes the rows of the last added operand: for each set of ranges only those with the largest stride.
void PlanWriter::writeRows(llvm::ArrayRef<UsedRows> all, v1::Step& step) {
  for (const UsedRows& rows : all) {
    const auto comes_first = [&](const UsedRows& other) {
      return other.ranges == rows.ranges &&
             (other.stride > rows.stride || (other.stride == rows.stride && &other < &rows));
    };
    if (rows.ranges == 0 || llvm::any_of(all, comes_first)) continue;
    const int first = std::countr_zero(rows.ranges);
    const int64_t most = -model_.dimensions[static_cast<size_t>(first)].size();  // stored only for a single range
    int64_t slack = rows.slack;
    // The greatest difference to the proportional part, over all sizes.
    for (int64_t n = 0; rows.needed && n <= most; ++n)
      // Rounded up, as the runtime does.
      slack = std::max(slack, (*rows.needed)[static_cast<size_t>(n)] - (n * rows.count + most - 1) / most);
    if (slack >= rows.count) continue;
    v1::Step::Rows* entry = step.add_rows();
    entry->set_operand(step.operands_size() - 1);
    for (uint32_t rest = rows.ranges; rest != 0; rest &= rest - 1) entry->add_dimensions(std::countr_zero(rest));
    entry->set_stride(rows.stride);
    entry->set_count(rows.count);
    entry->set_slack(slack);
  }
}

/// Reserves the memory that loop bodies use while the loop runs.
void PlanWriter::assignLoopMemory() {
  for (auto [step, pending] : llvm::enumerate(pending_)) {
    if (!pending.loop) continue;
    LoopMemory own = layOutLoop(pending.loop, *body_of_.at(pending.loop));
    own.storage = buffers_.reserve(own.bytes, static_cast<int>(step), static_cast<int>(step));
    loop_memory_[pending.loop] = std::move(own);
  }
}

/// Lifetimes are in pending steps, but a loop is one pending step and several steps of the plan.
void PlanWriter::numberSteps() {
  std::vector<int> begin = {0};  // of each pending step, then the end
  for (const PendingStep& pending : pending_)
    begin.push_back(begin.back() + (pending.loop ? body_of_.at(pending.loop)->plan.steps_size() : 1));
  for (v1::ArenaAllocation& place : *result_.plan.mutable_arena()) {
    const auto last = static_cast<size_t>(place.last_step());
    place.set_first_step(begin[static_cast<size_t>(place.first_step())]);
    // A loop's buffers live until its last step.
    place.set_last_step(last + 1 == begin.size() ? begin.back() : begin[last + 1] - 1);
  }
}

void PlanWriter::writeLoop(const PendingStep& pending, const LoopMemory& own) {
  int prepared = 0;
  for (const Weight& weight : model_.weights) prepared = std::max(prepared, weight.prepared + 1);
  LoopWriter(result_, workload_of_, buffers_, prepared)
      .write(pending.loop, *body_of_.at(pending.loop), own, [&](Value value) {
        return bufferOf(buffers_.storageOf(viewSource(value)), mlir::cast<RankedTensorType>(value.getType()));
      });
}

void PlanWriter::writeSteps() {
  // Of the pending steps, those of groups come first, in order. New rows are computed before the group that needs them,
  // from the same operands.
  size_t next_group = 0;
  for (auto [index, pending] : llvm::enumerate(pending_)) {
    const size_t group = pending.rows ? next_group : next_group++;
    if (pending.loop) {
      writeLoop(pending, loop_memory_.find(pending.loop)->second);
      continue;
    }
    v1::Step* step = result_.plan.add_steps();
    step->set_name(pending.name);
    // Operands may need fewer rows for this step than for all their readers.
    const UsedRowsOfValues usedByAll =
        group < groups_.size() ? rows_->usedByAll(groups_[group].ops, groups_[group].results) : UsedRowsOfValues();
    auto types = pending.outlined.function->getArgumentTypes();
    // Operands: arguments, then the copy's target or the results.
    for (auto [argument, type] : llvm::zip_equal(pending.outlined.arguments, types)) {
      step->add_operands(bufferOf(buffers_.storageOf(viewSource(argument)), mlir::cast<RankedTensorType>(type)));
      writeRows(pending.copies_to >= 0 ? rows_->of(argument) : usedByAll.lookup(argument), *step);
    }
    auto result_types = pending.outlined.function->getResultTypes();
    if (pending.copies_to >= 0) {
      const int storage = buffers_.copyTarget(pending.copies_to);
      step->add_operands(bufferOf(storage, mlir::cast<RankedTensorType>(result_types[0])));
      writeRows(rows_->of(pending.outlined.arguments[0]), *step);
    }
    for (Value value : pending.results) {
      auto type = interfaceType(mlir::cast<RankedTensorType>(value.getType()));
      step->add_operands(bufferOf(buffers_.storageOf(value), type));
      writeRows(rows_->of(value), *step);
    }
    if (pending.rows) {
      step->add_operands(bufferOf(rows_storage_[index], pending.rows));
      if (pending.rows_from >= 0)
        writeRows(usedByAll.lookup(pending.outlined.arguments[static_cast<size_t>(pending.rows_from)]), *step);
    }
    step->set_workload(workloadOf(pending.outlined));
  }
}

void PlanWriter::writeExtents() {
  if (!model_.run_faults.empty()) {
    const Value fault = extents_.pop_back_val();
    v1::RunFaults* faults = result_.plan.mutable_run_faults();
    faults->set_buffer(bufferOf(buffers_.storageOf(fault), mlir::cast<RankedTensorType>(fault.getType())));
    for (const std::string& message : model_.run_faults) faults->add_messages(message);
  }
  for (auto [extent, root] : llvm::zip_equal(model_.extents, extents_)) {
    v1::RuntimeExtent* entry = result_.plan.add_runtime_extents();
    entry->set_output(extent.output);
    entry->set_dimension(extent.dimension);
    entry->set_buffer(bufferOf(buffers_.storageOf(root), mlir::cast<RankedTensorType>(root.getType())));
  }
}

absl::StatusOr<PlannedGraph> PlanWriter::run() {
  rows_.emplace(model_, main_);
  result_.plan.set_weights_bytes(buffers_.placeArguments(result_.weights));
  assignOutputs();
  placeConcats();
  outlineGroups();
  addStateSteps();
  buffers_.findLastUses(pending_, extents_);
  for (auto [step, pending] : llvm::enumerate(pending_)) {
    buffers_.assignResults(pending, static_cast<int>(step));
    rows_storage_.push_back(
        pending.rows ? buffers_.reserve(tensorBytes(pending.rows), static_cast<int>(step), pending.rows_for) : -1);
  }
  // Every value that a step reads must be written before: an error here is a bug of grouping.
  for (const PendingStep& pending : pending_) {
    for (Value argument : pending.outlined.arguments) {
      if (buffers_.has(viewSource(argument))) continue;
      return failureStatus(v1::Failure::INTERNAL,
                           absl::StrCat("step \"", pending.name, "\" reads a value that no step writes"));
    }
  }
  assignLoopMemory();
  buffers_.planArena(result_.plan);
  numberSteps();
  writeSteps();
  writeExtents();
  writeStates();
  for (const v1::TensorSpec& input : model_.inputs) *result_.plan.add_inputs() = input;
  for (const v1::TensorSpec& output : model_.outputs) *result_.plan.add_outputs() = output;
  result_.plan.mutable_refused_sizes()->Assign(model_.refused_sizes.begin(), model_.refused_sizes.end());
  for (const v1::TensorValue& fixed : model_.fixed_inputs) *result_.plan.add_fixed_inputs() = fixed;
  for (const v1::TensorValue& value : model_.default_inputs) *result_.plan.add_default_inputs() = value;
  result_.plan.mutable_report()->set_nodes_before(model_.nodes);
  result_.plan.mutable_report()->set_groups_after(result_.plan.steps_size());
  return std::move(result_);
}

}  // namespace

absl::StatusOr<PlannedGraph> writePlan(const ImportedModel& model, std::vector<Group> groups, const Chip& chip,
                                       const LoopPlans& loops, const std::vector<v1::State>& states) {
  return PlanWriter(model, std::move(groups), chip, loops, states).run();
}

}  // namespace tessera::compiler
