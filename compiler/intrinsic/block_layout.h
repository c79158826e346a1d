#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/target/stride.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::intrinsic {

/// Addresses of elements within a block, from the strides of a transfer statement; free strides step over the elements
/// that the other strides cover. Without a statement, rows follow each other.
class BlockLayout {
 public:
  BlockLayout(const std::vector<int64_t>& shape, const v1::Intrinsic::Transfer* transfer);

  int64_t at(const std::vector<int64_t>& index) const;
  int64_t elements() const { return elements_; }

 private:
  std::vector<int64_t> shape_;
  std::vector<Stride> strides_;
  int64_t elements_ = 0;
};

/// A memory on the path of an operand, and the statement that defines the layout there; null: the instruction's own
/// order.
struct Stop {
  std::string memory;
  const v1::Intrinsic::Transfer* layout = nullptr;
};

/// The path of an operand through the memories, from the statements of the memory abstraction, without the tensors' own
/// memory. `in` leads to the memory from which the instruction reads, its last stop; `out`, for destinations, leads
/// from there and may be empty.
struct Route {
  std::vector<Stop> in, out;
};
Route routeOf(const v1::Intrinsic& intrinsic, size_t index);

}  // namespace tessera::compiler::intrinsic
