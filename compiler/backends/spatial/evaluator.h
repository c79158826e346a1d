#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "compiler/backends/spatial/spatial_nest.h"
#include "compiler/backends/spatial/strip_values.h"

namespace tessera::compiler::simulator {

/// Evaluates the body of a nest at many points at once, with the results of the CPU's code: f32 in single precision,
/// f16 and bf16 rounded after every operation, integers modulo 2^bits. Where arith leaves a result undefined, it is
/// that of an x86-64 or AArch64 instruction or of the importer's guard: division by zero gives 0, a shift by the width
/// or more 0 or the sign, and a conversion to an integer saturates (NaN: 0).
class Evaluator {
 public:
  /// The nest must have passed checkKernel() and outlive the evaluator.
  explicit Evaluator(const SpatialNest& nest);

  /// Value v of v1::SpatialKernel.Nest.body; the caller fills in those of accesses and of `index` operations.
  StripValue& value(int v) { return values_[static_cast<size_t>(v)]; }

  /// The `index` operations: their values and loops.
  struct Index {
    int value = 0, loop = 0;
  };
  const std::vector<Index>& indices() const { return indices_; }

  /// Evaluates all operations at the first `count` points. `buffers`: per buffer of the kernel its bytes, and its
  /// number of elements, for loads. OUT_OF_RANGE for a load outside of its buffer, naming the index of its point.
  absl::Status run(int count, std::span<uint8_t* const> buffers, std::span<const int64_t> elements);

 private:
  struct Instruction;
  using Apply = void (*)(const Instruction&, const StripValue* const*, StripValue&, int count);
  struct Instruction {
    Apply apply = nullptr;  ///< null: a load
    std::vector<int> operands;
    int result = 0;
    int predicate = 0;
    int from_bits = 0, to_bits = 0;
    v1::DataType from = v1::DATA_TYPE_F32, to = v1::DATA_TYPE_F32;
    const SpatialAccess* access = nullptr;
  };
  friend struct Operations;
  absl::Status load(const Instruction& instruction, int count, std::span<uint8_t* const> buffers,
                    std::span<const int64_t> elements);

  std::vector<StripValue> values_;
  std::vector<Instruction> instructions_;
  std::vector<Index> indices_;
};

}  // namespace tessera::compiler::simulator
