#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/target/stride.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::intrinsic {

/// Addresses of elements within a block, from the strides of a transfer statement (target/stride.h). A free stride gets
/// the least value with which its steps do not overlap: a block of shape 16 x 16 with the strides "4:1,free" and "4"
/// has element (k, n) at k % 4 + 4 n + 64 (k / 4), where 64 is the value of the free stride. Without a statement, the
/// layout is row-major.
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
