#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "compiler/artifact/grid_bounds.h"

namespace tessera::compiler::testing {

using Walk = v1::KernelInfo::Walk;

struct LevelOf {
  int loop;
  int64_t step, count;
};

/// A step of one workload with an argument and a result of f32, both [16, 10], with rows along dimension 0 ("N", at
/// most 16). Tests add walks to its phases.
class StepOfRows : public ::testing::Test {
 protected:
  StepOfRows() {
    v1::DimensionBinding& dimension = *plan_.add_dimensions();
    dimension.set_name("N");
    dimension.set_size(-16);
    kernel_.set_num_results(1);
    for (int operand = 0; operand < 2; ++operand) {
      v1::Buffer& buffer = *plan_.add_buffers();
      buffer.mutable_spec()->set_dtype(v1::DATA_TYPE_F32);
      buffer.set_size_bytes(640);
      step_.add_operands(operand);
      v1::Step::Rows& entry = *step_.add_rows();
      entry.set_operand(operand);
      entry.add_dimensions(0);
      entry.set_stride(10);
    }
  }

  v1::KernelInfo::Phase& phase(int64_t grid) {
    v1::KernelInfo::Phase& phase = *kernel_.add_phases();
    phase.set_grid(grid);
    return phase;
  }
  static Walk& walk(v1::KernelInfo::Phase& phase, const std::vector<int64_t>& extents,
                    const std::vector<LevelOf>& levels) {
    Walk& walk = *phase.add_walks();
    walk.mutable_extents()->Assign(extents.begin(), extents.end());
    for (const LevelOf& each : levels) {
      Walk::Level& level = *walk.add_levels();
      level.set_loop(each.loop);
      level.set_step(each.step);
      level.set_count(each.count);
    }
    return walk;
  }
  /// Strides are elements of f32.
  static void touch(Walk& walk, int buffer, bool written, const std::vector<int64_t>& strides, int64_t offset = 0) {
    Walk::Touch& entry = *walk.add_touches();
    entry.set_buffer(buffer);
    entry.set_written(written);
    entry.set_offset(offset * 4);
    for (int64_t stride : strides) entry.add_strides(stride * 4);
  }
  std::vector<GridBound> grid_bounds() const { return gridBoundsOf(plan_, step_, kernel_); }

  v1::Plan plan_;
  v1::Step step_;
  v1::KernelInfo kernel_;
};

}  // namespace tessera::compiler::testing
