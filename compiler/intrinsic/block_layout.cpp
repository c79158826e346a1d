#include "compiler/intrinsic/block_layout.h"

#include <algorithm>

#include "compiler/intrinsic/boxes.h"
#include "compiler/target/validate_intrinsic.h"

namespace tessera::compiler::intrinsic {

BlockLayout::BlockLayout(const std::vector<int64_t>& shape, const v1::Intrinsic::Transfer* transfer) : shape_(shape) {
  for (size_t d = 0; transfer && d < shape.size(); ++d) {
    strides_.push_back(parseStride(transfer->strides(static_cast<int>(d))).value_or(Stride{}));
  }
  for (size_t d = strides_.size(); d-- > 0;) {
    if (strides_[d].outer != Stride::kFree) continue;
    // A free stride takes the smallest value that keeps the outer parts apart: the extent of everything inside.
    strides_[d].outer = 0;
    int64_t covered = 0;
    forEachPoint(shape_, [&](const std::vector<int64_t>& index) { covered = std::max(covered, at(index) + 1); });
    strides_[d].outer = covered;
  }
  forEachPoint(shape_, [&](const std::vector<int64_t>& index) { elements_ = std::max(elements_, at(index) + 1); });
}

int64_t BlockLayout::at(const std::vector<int64_t>& index) const {
  if (strides_.empty()) return rowMajor(index, shape_);
  int64_t address = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    int64_t rest = index[d];
    for (const Stride::Part& part : strides_[d].inner) {
      address += rest % part.extent * part.stride;
      rest /= part.extent;
    }
    address += rest * std::max<int64_t>(strides_[d].outer, 0);
  }
  return address;
}

Route routeOf(const v1::Intrinsic& intrinsic, size_t index) {
  const v1::Intrinsic::Operand& operand = intrinsic.operands(static_cast<int>(index));
  const std::string home = operand.memory().empty() ? kRegisters : operand.memory();
  // The layout of an intermediate memory is that of the statement that leaves it.
  std::vector<const v1::Intrinsic::Transfer*> inwards, outwards;
  bool arrived = false;
  for (const auto& transfer : intrinsic.transfers()) {
    if (transfer.operand() != operand.name()) continue;
    const bool leaves = transfer.from() == home || (arrived && transfer.to() != home);
    (leaves || (index == 0 && !outwards.empty()) ? outwards : inwards).push_back(&transfer);
    arrived = arrived || transfer.to() == home;
  }
  Route route;
  for (size_t i = 1; i < inwards.size(); ++i) route.in.push_back({inwards[i]->from(), inwards[i]});
  route.in.push_back({home, nullptr});
  for (size_t i = 0; index == 0 && i + 1 < outwards.size(); ++i) route.out.push_back({outwards[i]->to(), outwards[i]});
  return route;
}

}  // namespace tessera::compiler::intrinsic
