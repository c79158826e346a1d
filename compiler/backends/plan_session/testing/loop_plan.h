#pragma once

#include <cstdint>
#include <string>

#include "tessera/v1/plan.pb.h"
#include "tessera/v1/spatial.pb.h"

/// A plan with a loop around one step, for tests of sessions.
namespace tessera::compiler {

/// y = weight * x + x elementwise, over `count` floats: buffers x, weight, y.
inline v1::SpatialKernel scaleAndAdd(int64_t count) {
  v1::SpatialKernel kernel;
  kernel.set_symbol("scale");
  for (int i = 0; i < 3; ++i) {
    v1::SpatialKernel::Buffer& buffer = *kernel.add_buffers();
    buffer.set_dtype(v1::DATA_TYPE_F32);
    buffer.add_shape(count);
  }
  kernel.set_operands(3);
  kernel.set_results(1);
  v1::SpatialKernel::Nest& nest = *kernel.add_nests();
  nest.set_name("mul + add");
  nest.add_loops()->set_name("i");
  nest.mutable_loops(0)->set_extent(count);
  nest.set_outputs(1);
  for (const int buffer : {2, 0, 1}) {
    v1::SpatialKernel::Access& access = *nest.add_accesses();
    access.set_buffer(buffer);
    access.add_subscripts("i");
    access.add_strides(1);
  }
  const auto operation = [&](const char* name, int left, int right) {
    v1::SpatialKernel::Operation& added = *nest.add_body();
    added.set_name(name);
    added.add_operands(left);
    added.add_operands(right);
    added.set_dtype(v1::DATA_TYPE_F32);
  };
  operation("mulf", 1, 2);
  operation("addf", 3, 1);
  nest.add_yields(4);
  return kernel;
}

inline void setTensor(v1::TensorSpec& spec, const char* name, int64_t count) {
  spec.set_name(name);
  spec.set_dtype(v1::DATA_TYPE_F32);
  spec.add_shape(count);
}

inline int addPlanBuffer(v1::Plan& plan, v1::Buffer::Kind kind, int index, int64_t offset, int64_t bytes) {
  v1::Buffer& buffer = *plan.add_buffers();
  buffer.set_kind(kind);
  buffer.set_index(index);
  buffer.set_offset(offset);
  buffer.set_size_bytes(bytes);
  return plan.buffers_size() - 1;
}

/// Elements and bytes of each tensor of loopPlan().
inline constexpr int64_t kLoopPlanCount = 5;
inline constexpr int64_t kLoopPlanBytes = kLoopPlanCount * 4;

/// `trips` iterations of x = weight * x + x, from the input x to the output y.
inline v1::Plan loopPlan(int64_t trips) {
  v1::Plan plan;
  setTensor(*plan.add_inputs(), "x", kLoopPlanCount);
  setTensor(*plan.add_outputs(), "y", kLoopPlanCount);
  plan.set_weights_bytes(64);
  plan.set_arena_bytes(64);
  plan.add_workloads()->set_symbol("scale");
  const int x = addPlanBuffer(plan, v1::Buffer::INPUT, 0, 0, kLoopPlanBytes);
  const int y = addPlanBuffer(plan, v1::Buffer::OUTPUT, 0, 0, kLoopPlanBytes);
  const int weight = addPlanBuffer(plan, v1::Buffer::WEIGHT, 0, 0, kLoopPlanBytes);
  const int spare = addPlanBuffer(plan, v1::Buffer::ARENA, 0, 0, kLoopPlanBytes);
  const int before = addPlanBuffer(plan, v1::Buffer::LOOP, 0, 0, kLoopPlanBytes);
  const int after = addPlanBuffer(plan, v1::Buffer::LOOP, 0, 0, kLoopPlanBytes);
  v1::Step& step = *plan.add_steps();
  step.set_name("node");
  for (const int operand : {before, weight, after}) step.add_operands(operand);
  v1::StepLoop& loop = *plan.add_loops();
  loop.set_first_step(0);
  loop.set_last_step(1);
  loop.set_max_iterations(trips);
  v1::StepLoop::Carried& carried = *loop.add_carried();
  carried.set_initial(x);
  carried.set_before(before);
  carried.set_after(after);
  carried.set_result(y);
  carried.set_spare(spare);
  return plan;
}

}  // namespace tessera::compiler
