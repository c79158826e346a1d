#include "compiler/graph/plan/loop_steps.h"

#include "compiler/graph/analysis/element_type.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

v1::TensorSpec scalar(v1::DataType type) {
  v1::TensorSpec spec;
  spec.set_dtype(type);
  return spec;
}

}  // namespace

LoopMemory layOutLoop(LoopOp loop, const PlannedGraph& body) {
  LoopMemory own;
  // The body's own arena comes first, then the loop's variables.
  own.bytes = aligned(body.plan.arena_bytes());
  const auto place = [&](int64_t bytes) {
    const int64_t at = own.bytes;
    own.bytes = aligned(at + bytes);
    return at;
  };
  own.iteration = place(sizeof(int64_t));
  own.condition = place(1);
  // A carried value is written while the last one is read, so each needs a second buffer.
  for (mlir::Value value : loop.carried()) own.spares.push_back(place(tensorBytes(value.getType())));
  return own;
}

int LoopWriter::addBuffer(v1::Buffer::Kind kind, int index, int64_t offset, int64_t bytes, const v1::TensorSpec& spec) {
  v1::Buffer* buffer = planned_.plan.add_buffers();
  buffer->set_kind(kind);
  buffer->set_index(index);
  buffer->set_offset(offset);
  buffer->set_size_bytes(bytes);
  *buffer->mutable_spec() = spec;
  return planned_.plan.buffers_size() - 1;
}

int LoopWriter::inArena(const LoopMemory& own, int64_t offset, int64_t bytes, const v1::TensorSpec& spec) {
  const Storage& storage = memory_.storage(own.storage);
  return addBuffer(v1::Buffer::ARENA, storage.index, storage.offset + offset, bytes, spec);
}

/// Returns the buffers of the body in the outer plan, and fills the loop's part of `table`.
std::vector<int> LoopWriter::writeBuffers(LoopOp loop, const PlannedGraph& body, const LoopMemory& own,
                                          BufferOf buffer_of, v1::StepLoop& table, int loops) {
  const LoopOp::Form form = loop.form();
  const int carried = static_cast<int>(form.carried), scanned = static_cast<int>(form.scanned_reversed.size());
  const auto moving = [&](const v1::Buffer& buffer) {
    return addBuffer(v1::Buffer::LOOP, loops, 0, buffer.size_bytes(), buffer.spec());
  };
  // Finds the buffer of each input and output.
  std::map<int, int> inputs, outputs;
  std::vector<int> moved;
  // Inputs of the body: iteration number, carried values, slices of scanned tensors, captured values.
  for (const v1::Buffer& buffer : body.plan.buffers()) {
    const int index = buffer.index();
    switch (buffer.kind()) {
      case v1::Buffer::INPUT: {
        auto [known, fresh] = inputs.try_emplace(index, -1);
        if (fresh && index == 0) {
          known->second = inArena(own, own.iteration, sizeof(int64_t), scalar(v1::DATA_TYPE_I64));
        } else if (fresh && index <= carried + scanned) {
          known->second = moving(buffer);
        } else if (fresh) {
          // Captured values stay where the outer plan has them.
          known->second = buffer_of(loop.captured()[static_cast<unsigned>(index - 1 - carried - scanned)]);
        }
        moved.push_back(known->second);
        break;
      }
      case v1::Buffer::OUTPUT: {
        auto [known, fresh] = outputs.try_emplace(index, -1);
        if (fresh) {
          known->second = form.has_condition && index == 0 ? inArena(own, own.condition, 1, scalar(v1::DATA_TYPE_BOOL))
                                                           : moving(buffer);
        }
        moved.push_back(known->second);
        break;
      }
      case v1::Buffer::WEIGHT:
        moved.push_back(addBuffer(v1::Buffer::WEIGHT, buffer.index(), planned_.plan.weights_bytes() + buffer.offset(),
                                  buffer.size_bytes(), buffer.spec()));
        break;
      // Prepared weights of the body follow those of the outer plan.
      case v1::Buffer::PREPARED:
        moved.push_back(addBuffer(v1::Buffer::PREPARED,
                                  prepared_ + static_cast<int>(planned_.prepared.size()) + buffer.index(),
                                  buffer.offset(), buffer.size_bytes(), buffer.spec()));
        break;
      // Loops inside the body are numbered after this one.
      case v1::Buffer::LOOP:
        moved.push_back(addBuffer(v1::Buffer::LOOP, loops + 1 + buffer.index(), 0, buffer.size_bytes(), buffer.spec()));
        break;
      default:
        // Everything else lies in the loop's part of the arena.
        moved.push_back(inArena(own, buffer.offset(), buffer.size_bytes(), buffer.spec()));
    }
  }
  // Adds buffers for inputs and outputs that no step of the body reads or writes.
  const auto specOfType = [](mlir::Type type) { return specOf("", type); };
  const auto given = [&](std::map<int, int>& of, int index, mlir::Type type) {
    auto [known, fresh] = of.try_emplace(index, -1);
    if (fresh) known->second = addBuffer(v1::Buffer::LOOP, loops, 0, tensorBytes(type), specOfType(type));
    return known->second;
  };

  int operand = 0;
  if (form.has_trip_count) table.set_trip_count(buffer_of(loop->getOperand(operand++)));
  if (form.has_condition) {
    table.set_initial_condition(buffer_of(loop->getOperand(operand++)));
    table.set_condition(outputs.at(0));
  }
  if (inputs.contains(0)) table.set_iteration(inputs.at(0));
  table.set_executed(buffer_of(loop.executed()));
  const int first_output = form.has_condition ? 1 : 0;
  // Fills the table in the order of the loop's operands.
  for (int k = 0; k < carried; ++k) {
    const mlir::Type type = loop->getOperand(operand).getType();
    v1::StepLoop::Carried& each = *table.add_carried();
    each.set_initial(buffer_of(loop->getOperand(operand++)));
    each.set_before(given(inputs, 1 + k, type));
    each.set_after(given(outputs, first_output + k, type));
    each.set_result(buffer_of(loop->getResult(k)));
    each.set_spare(inArena(own, own.spares[static_cast<size_t>(k)], tensorBytes(type), specOfType(type)));
  }
  const auto part = [](mlir::Value whole) {
    auto type = mlir::cast<mlir::RankedTensorType>(whole.getType());
    return mlir::RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
  };
  for (int k = 0; k < scanned; ++k) {
    const mlir::Value whole = loop->getOperand(operand++);
    // A slice that the body never reads need not be set.
    if (!inputs.contains(1 + carried + k)) continue;
    v1::StepLoop::Scan& each = *table.add_scans();
    each.set_whole(buffer_of(whole));
    each.set_part(given(inputs, 1 + carried + k, part(whole)));
    each.set_reversed(form.scanned_reversed[static_cast<size_t>(k)]);
  }
  for (int k = 0; k < static_cast<int>(form.stacked_reversed.size()); ++k) {
    const mlir::Value whole = loop->getResult(static_cast<unsigned>(carried + k));
    v1::StepLoop::Scan& each = *table.add_scans();
    each.set_whole(buffer_of(whole));
    each.set_part(given(outputs, first_output + carried + k, part(whole)));
    each.set_written(true);
    each.set_reversed(form.stacked_reversed[static_cast<size_t>(k)]);
  }
  return moved;
}

void LoopWriter::writeSteps(const PlannedGraph& body, const std::vector<int>& buffers) {
  v1::Plan& plan = planned_.plan;
  const int first_step = plan.steps_size();
  std::vector<int> workloads;
  for (const v1::Workload& workload : body.plan.workloads()) {
    // Equal workloads of body and outer plan become one.
    const auto [known, fresh] = workload_of_.try_emplace(workload.hash(), plan.workloads_size());
    workloads.push_back(known->second);
    if (fresh) *plan.add_workloads() = workload;
  }
  for (const v1::Step& step : body.plan.steps()) {
    v1::Step* moved = plan.add_steps();
    *moved = step;
    moved->set_workload(workloads[static_cast<size_t>(step.workload())]);
    for (int& operand : *moved->mutable_operands()) operand = buffers[static_cast<size_t>(operand)];
  }
  const auto moveTo = [&](int buffer) { return buffers[static_cast<size_t>(buffer)]; };
  // Tables of inner loops point to steps and buffers, which have moved.
  for (const v1::StepLoop& inner : body.plan.loops()) {
    v1::StepLoop* moved = plan.add_loops();
    *moved = inner;
    moved->set_first_step(first_step + inner.first_step());
    moved->set_last_step(first_step + inner.last_step());
    if (inner.has_trip_count()) moved->set_trip_count(moveTo(inner.trip_count()));
    if (inner.has_initial_condition()) moved->set_initial_condition(moveTo(inner.initial_condition()));
    if (inner.has_condition()) moved->set_condition(moveTo(inner.condition()));
    if (inner.has_iteration()) moved->set_iteration(moveTo(inner.iteration()));
    if (inner.has_executed()) moved->set_executed(moveTo(inner.executed()));
    for (v1::StepLoop::Carried& each : *moved->mutable_carried()) {
      each.set_initial(moveTo(each.initial()));
      each.set_before(moveTo(each.before()));
      each.set_after(moveTo(each.after()));
      each.set_result(moveTo(each.result()));
      each.set_spare(moveTo(each.spare()));
    }
    for (v1::StepLoop::Scan& each : *moved->mutable_scans()) {
      each.set_whole(moveTo(each.whole()));
      each.set_part(moveTo(each.part()));
    }
  }
}

void LoopWriter::write(LoopOp loop, const PlannedGraph& body, const LoopMemory& own, BufferOf buffer_of) {
  v1::Plan& plan = planned_.plan;
  const int loops = plan.loops_size();
  v1::StepLoop table;
  // The body's steps are written once; the runtime repeats them.
  table.set_first_step(plan.steps_size());
  table.set_last_step(plan.steps_size() + body.plan.steps_size());
  table.set_max_iterations(std::max<int64_t>(loop.form().most, 0));
  const std::vector<int> buffers = writeBuffers(loop, body, own, buffer_of, table, loops);
  *plan.add_loops() = table;
  writeSteps(body, buffers);
  for (const PlannedGraph::PlacedWeight& placed : body.weights)
    planned_.weights.push_back({plan.weights_bytes() + placed.offset, placed.weight});
  plan.set_weights_bytes(plan.weights_bytes() + body.plan.weights_bytes());
  planned_.prepared.insert(planned_.prepared.end(), body.prepared.begin(), body.prepared.end());
}

}  // namespace tessera::compiler
