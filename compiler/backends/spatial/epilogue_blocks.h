#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "compiler/backends/spatial/addressing.h"
#include "compiler/backends/spatial/epilogue.h"
#include "compiler/backends/spatial/evaluator.h"
#include "compiler/backends/spatial/walk.h"

/// An epilogue on blocks of results: its values, and the number of elements that it loads.
namespace tessera::compiler::simulator {

/// Evaluates an epilogue block by block, with the results of running its nest on the stored results of the product.
class EpilogueBlocks {
 public:
  /// `epilogue` must outlive the object.
  explicit EpilogueBlocks(const Epilogue& epilogue);

  /// The element of an access's tensor at the point that reads element `result` of the product.
  int64_t elementOf(size_t access, int64_t result);

  /// Begins a block. `results` are sums of type `dtype`; blocks[a] holds the elements of access a, row-major, null for
  /// the results; blocks[0] is written.
  void begin(v1::DataType dtype, const uint8_t* results, const std::vector<uint8_t*>& blocks);
  /// Adds a point: the byte offset of its sum, its position in the row-major blocks, its element of the product.
  absl::Status add(int64_t offset, int64_t position, int64_t result);
  /// Evaluates the points that are left.
  absl::Status end();

 private:
  const Epilogue& epilogue_;
  const PointOfElement points_;
  Evaluator evaluator_;
  std::vector<int64_t> point_;
  v1::DataType dtype_ = v1::DATA_TYPE_F32;
  const uint8_t* results_ = nullptr;
  std::vector<uint8_t*> blocks_;
  std::array<int64_t, kStrip> positions_{};
  std::array<uint8_t, kStrip * sizeof(int64_t)> stored_{};  // results in the type of their buffer
  int count_ = 0;
};

/// Counts different elements that a piece of blocks takes from the tensors of an epilogue.
class EpilogueElements {
 public:
  explicit EpilogueElements(const Program& program);

  int64_t elementsIn(const Place& place, const Piece& piece, size_t access);

 private:
  const Program& program_;
  const Addressing results_;
  const PointOfElement points_;
  std::vector<size_t> repeated_;  // accesses of which several points may read one element
  // Pieces of one shape differ in the values of their elements only.
  std::map<std::vector<int64_t>, std::vector<int64_t>> known_;  // per access
};

}  // namespace tessera::compiler::simulator
