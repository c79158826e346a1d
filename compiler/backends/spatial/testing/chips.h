#pragma once

#include <gtest/gtest.h>

#include <string>

#include "compiler/loopnest/nest.h"
#include "compiler/target/target.h"

namespace tessera::compiler::simulator::testing {

/// A chip defined only here: products of 4x2x4 bytes between two small memories, with a separate output memory, and
/// instructions for sums of pairs and maxima. No extent is a power of two times another one.
inline std::string madeUpChip() {
  return R"(
    name: "made-up" family: SPATIAL
    memory { name: "near" capacity_bytes: 512 bandwidth_bytes_per_cycle: 16 shared_by: 1 alignment_bytes: 8 energy_pj_per_byte: 0.5 }
    memory { name: "sums" capacity_bytes: 768 bandwidth_bytes_per_cycle: 16 shared_by: 1 alignment_bytes: 8 peer_of_inner: true }
    memory { name: "way-out" capacity_bytes: 160 bandwidth_bytes_per_cycle: 8 shared_by: 1 alignment_bytes: 4 peer_of_inner: true }
    memory { name: "far" capacity_bytes: 2048 bandwidth_bytes_per_cycle: 8 shared_by: 1 alignment_bytes: 8 energy_pj_per_byte: 2 }
    memory { name: "DRAM" bandwidth_bytes_per_cycle: 4 write_bandwidth_bytes_per_cycle: 2 shared_by: 1 energy_pj_per_byte: 60 }
    units { name: "engine" count: 3 lanes: 32 frequency_ghz: 1 ops_per_cycle: 64 }
    intrinsics {
      name: "mul.4x2x4" emit: "mul" latency_cycles: 6 cycles_per_issue: 2
      iterations { name: "i" extent: 4 } iterations { name: "j" extent: 2 } iterations { name: "r" extent: 4 reduction: true }
      operands { name: "c" dtype: DATA_TYPE_I32 subscripts: "i" subscripts: "j" memory: "sums" }
      operands { name: "a" dtype: DATA_TYPE_I8 subscripts: "i" subscripts: "r" memory: "near" }
      operands { name: "b" dtype: DATA_TYPE_U8 subscripts: "r" subscripts: "j" memory: "near" }
      arithmetic { form: MULTIPLY_ADD overflow: WRAP }
      transfers { operand: "a" from: "memory" to: "far" strides: "free" strides: "1" alignment_bytes: 16 pads: true }
      transfers { operand: "b" from: "memory" to: "far" strides: "free" strides: "1" alignment_bytes: 16 pads: true }
      transfers { operand: "a" from: "far" to: "near" strides: "4" strides: "1" block_order: "r" block_order: "i" alignment_bytes: 16 }
      transfers { operand: "b" from: "far" to: "near" strides: "1" strides: "4" block_order: "j" block_order: "r" alignment_bytes: 16 }
      transfers { operand: "c" from: "sums" to: "way-out" strides: "1" strides: "4" block_order: "j" block_order: "i" alignment_bytes: 8 }
      transfers { operand: "c" from: "way-out" to: "memory" strides: "free" strides: "1" }
    }
    intrinsics {
      name: "half.3x5" emit: "half" latency_cycles: 5 cycles_per_issue: 1
      iterations { name: "i" extent: 3 } iterations { name: "r" extent: 5 reduction: true }
      operands { name: "y" dtype: DATA_TYPE_F16 subscripts: "i" memory: "sums" }
      operands { name: "a" dtype: DATA_TYPE_F16 subscripts: "i" subscripts: "r" memory: "near" }
      operands { name: "x" dtype: DATA_TYPE_F16 subscripts: "r" memory: "near" }
      arithmetic { form: MULTIPLY_ADD rounding: EACH_STEP }
    }
    intrinsics {
      name: "max.3x2" emit: "max" latency_cycles: 2
      iterations { name: "i" extent: 3 } iterations { name: "r" extent: 2 reduction: true }
      operands { name: "m" dtype: DATA_TYPE_I16 subscripts: "i" memory: "sums" }
      operands { name: "x" dtype: DATA_TYPE_I16 subscripts: "i" subscripts: "r" memory: "near" }
      arithmetic { form: MAXIMUM }
    })";
}

inline v1::Target chipOf(const std::string& text) {
  absl::StatusOr<v1::Target> chip = parseTarget(text);
  EXPECT_TRUE(chip.ok()) << chip.status();
  return chip.value_or(v1::Target());
}

inline loopnest::Nest nestOf(const std::string& text, const std::vector<int64_t>& extents) {
  return loopnest::parse("operator", text, extents).value();
}

}  // namespace tessera::compiler::simulator::testing
