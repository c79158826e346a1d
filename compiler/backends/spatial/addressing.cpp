#include "compiler/backends/spatial/addressing.h"

#include "compiler/intrinsic/boxes.h"

namespace tessera::compiler::simulator {

namespace {

/// An affine access to a view, as one element offset.
loopnest::Offset offsetOf(const loopnest::Nest& nest, const loopnest::Access& access, const View& view) {
  loopnest::Offset offset{std::vector<int64_t>(nest.loops.size(), 0), view.offset};
  for (size_t d = 0; d < access.subscripts.size(); ++d) {
    for (const loopnest::Term& term : access.subscripts[d].terms)
      offset.strides[static_cast<size_t>(term.loop)] += term.coefficient * view.strides[d];
    offset.constant += access.subscripts[d].constant * view.strides[d];
  }
  return offset;
}

}  // namespace

Addressing::Addressing(const Program& program, size_t operand) {
  const intrinsic::Choice& choice = program.choice;
  const int array = arrayOf(choice.matching, operand);
  const loopnest::Access& tensor = choice.software.accesses[array];
  const auto [strides, constant] = program.views.empty()
                                       ? offsetOf(choice.software, tensor)
                                       : offsetOf(choice.software, tensor, program.views[static_cast<size_t>(array)]);
  constant_ = constant;
  for (size_t i = 0; i < choice.mapping.outer.size(); ++i) {
    const int loop = choice.mapping.outer[i];
    if (strides[loop] != 0) outer_.emplace_back(static_cast<int>(choice.mapping.groups.size() + i), strides[loop]);
  }
  const loopnest::Access& access = program.instruction.accesses[operand];
  std::vector<int64_t> extents;
  for (size_t i = 0; i < choice.mapping.groups.size(); ++i) {
    if (!access.uses(static_cast<int>(i))) continue;
    const intrinsic::Group& group = choice.mapping.groups[i];
    Iteration& iteration = used_.emplace_back();
    iteration.dimension = static_cast<int>(i);
    iteration.size = group.size;
    for (int64_t index = 0; index < group.extent; ++index) {
      int64_t rest = index, element = 0;
      for (size_t l = group.loops.size(); l-- > 0;) {
        const int64_t extent = choice.software.loops[group.loops[l]].extent;
        element += rest % extent * strides[group.loops[l]];
        rest /= extent;
      }
      iteration.elements.push_back(element);
    }
    extents.push_back(group.size);
  }
  const std::vector<int64_t> block = shapeOf(program.instruction, access);
  for (int64_t extent : block) block_elements_ *= static_cast<size_t>(extent);
  std::vector<int64_t> point(program.instruction.loops.size(), 0), index(access.subscripts.size());
  intrinsic::forEachPoint(extents, [&](const std::vector<int64_t>& place) {
    for (size_t i = 0; i < used_.size(); ++i) point[used_[i].dimension] = place[i];
    for (size_t d = 0; d < index.size(); ++d) index[d] = access.subscripts[d].at(point);
    positions_.push_back(intrinsic::rowMajor(index, block));
    places_.insert(places_.end(), place.begin(), place.end());
  });
}

}  // namespace tessera::compiler::simulator
