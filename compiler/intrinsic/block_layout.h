#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/target/stride.h"
#include "tessera/v1/target.pb.h"

namespace tessera::compiler::intrinsic {

/// Where elements of a block lie by the strides of a statement; free ones step over what the others cover. Without a
/// statement rows lie one behind the other.
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

/// A memory on an operand's way, and the statement that says how its elements lie there; null: the instruction's own
/// order.
struct Stop {
  std::string memory;
  const v1::Intrinsic::Transfer* layout = nullptr;
};

/// The way of an operand by the statements of the memory abstraction, tensors left out: inwards to where the
/// instruction reads it, which is the last stop; a destination's outwards from there, which may have no stop.
struct Route {
  std::vector<Stop> in, out;
};
Route routeOf(const v1::Intrinsic& intrinsic, size_t index);

}  // namespace tessera::compiler::intrinsic
