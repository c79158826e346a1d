#pragma once

#include <string>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/interpreter/array.h"

namespace tessera::compiler::verification {

/// A range of bytes in the memory of a run: a buffer of any kind except LOOP, or a part of one.
struct Place {
  v1::Buffer::Kind kind = v1::Buffer::KIND_UNSPECIFIED;
  int index = 0;  ///< position of an input, an output or a prepared weight
  int64_t offset = 0, size_bytes = 0;

  /// Parts have equal sizes and follow each other.
  Place part(int64_t position, int64_t part_bytes) const {
    return {kind, index, offset + position * part_bytes, part_bytes};
  }
};

/// Inputs, outputs, weights and the arena of a run of a plan, as bytes with an error estimate for each element. All
/// reads must be within their section, and inputs and weights are never written.
class PlanMemory {
 public:
  /// `prepared`: the values of planned.prepared.
  PlanMemory(const PlannedGraph& planned, const std::vector<interpreter::Array>& inputs,
             const std::vector<interpreter::Array>& prepared);

  /// The memory of a buffer. Fails with OUT_OF_RANGE if its offset is not a multiple of 64 bytes.
  static absl::StatusOr<Place> placeOf(const v1::Buffer& buffer);
  Place placeOfOutput(int output) const;

  absl::StatusOr<interpreter::Array> read(const Place& place, interpreter::Element element,
                                          llvm::ArrayRef<int64_t> shape) const;
  absl::Status write(const Place& place, const interpreter::Array& array);
  /// Both places must have the same size.
  absl::Status copy(const Place& from, const Place& to);
  /// Makes the bytes unknown.
  absl::Status poison(const Place& place);

 private:
  struct Bytes {
    std::string values;
    std::vector<double> errors;  // per byte, of the element that it belongs to
    bool written = false;
  };
  static Bytes poisoned(int64_t size);
  static Bytes bytesOf(const interpreter::Array& array);
  absl::StatusOr<const Bytes*> section(const Place& place) const;
  absl::StatusOr<Bytes> load(const Place& place, int64_t size) const;
  absl::StatusOr<Bytes> loadWeight(const Place& place, int64_t size) const;
  absl::Status store(const Place& place, const Bytes& bytes);

  const PlannedGraph& planned_;
  std::vector<Bytes> inputs_, outputs_, prepared_;
  Bytes arena_;
};

}  // namespace tessera::compiler::verification
