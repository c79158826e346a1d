#pragma once

#include <vector>

#include "compiler/backends/spatial/program.h"

namespace tessera::compiler::simulator {

/// Maps positions in an operand's block to elements of its tensor: the memory mapping of the physical step.
class Addressing {
 public:
  Addressing(const Program& program, size_t operand);

  /// Calls use(position in the block in row-major order, element of the tensor) for each position of a block that
  /// belongs to the operator; the others are padding. `block` has one entry per dimension of the program.
  template <typename Use>
  void forEachElement(const std::vector<int64_t>& block, Use&& use) const {
    int64_t base = constant_;
    for (const auto& [dimension, stride] : outer_) base += block[dimension] * stride;
    for (size_t at = 0; at < positions_.size(); ++at) {
      int64_t element = base;
      bool within = true;
      for (size_t i = 0; i < used_.size() && within; ++i) {
        const Iteration& iteration = used_[i];
        const int64_t index = block[iteration.dimension] * iteration.size + places_[at * used_.size() + i];
        within = index < static_cast<int64_t>(iteration.elements.size());
        if (within) element += iteration.elements[static_cast<size_t>(index)];
      }
      if (within) use(positions_[at], element);
    }
  }

  size_t blockElements() const { return block_elements_; }

 private:
  struct Iteration {
    int dimension = 0;
    int64_t size = 1;
    std::vector<int64_t> elements;  // offset that each index of the group adds to the element
  };
  std::vector<Iteration> used_;
  std::vector<int64_t> positions_;  // one per point of the iterations that the operand uses
  std::vector<int64_t> places_;     // per point, one for each of used_
  std::vector<std::pair<int, int64_t>> outer_;
  int64_t constant_ = 0;
  size_t block_elements_ = 1;
};

}  // namespace tessera::compiler::simulator
