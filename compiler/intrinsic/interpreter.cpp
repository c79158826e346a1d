#include "compiler/intrinsic/interpreter.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/target/element_text.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::intrinsic {
namespace {

using Arithmetic = v1::Intrinsic::Arithmetic;

bool isUnsigned(v1::DataType type) {
  return type == v1::DATA_TYPE_U8 || type == v1::DATA_TYPE_U16 || type == v1::DATA_TYPE_U32 ||
         type == v1::DATA_TYPE_U64 || type == v1::DATA_TYPE_BOOL;
}

/// A number converted to a type: unchanged for floats, wrapped or saturated for integers of up to 32 bits.
int64_t held(int64_t value, v1::DataType type, Arithmetic::Overflow overflow) {
  const int64_t bits = 8 * elementBytes(type);
  if (isFloatingPoint(type) || bits >= 64 || overflow == Arithmetic::OVERFLOW_UNSPECIFIED) return value;
  const int64_t span = int64_t{1} << bits, low = isUnsigned(type) ? 0 : -(span / 2), high = low + span - 1;
  if (overflow == Arithmetic::SATURATE) return std::clamp(value, low, high);
  return ((value - low) % span + span) % span + low;
}

/// The value of padding: the neutral element of the sum or extremum.
int64_t paddingOf(Arithmetic::Form form) {
  constexpr int64_t kBeyondAll = int64_t{1} << 40;
  return form == Arithmetic::MAXIMUM ? -kBeyondAll : form == Arithmetic::MINIMUM ? kBeyondAll : 0;
}

int64_t combined(Arithmetic::Form form, int64_t held_before, int64_t found) {
  switch (form) {
    case Arithmetic::MAXIMUM:
      return std::max(held_before, found);
    case Arithmetic::MINIMUM:
      return std::min(held_before, found);
    case Arithmetic::MULTIPLY:
      return found;
    default:
      return held_before + found;
  }
}

/// One instruction applied to its operands' blocks, according to definition 3.
class Instruction {
 public:
  Instruction(Nest nest, Arithmetic arithmetic)
      : nest_(std::move(nest)), form_(formOf(nest_)), arithmetic_(std::move(arithmetic)) {
    for (const Access& access : nest_.accesses) shapes_.push_back(shapeOf(nest_, access));
  }

  void operator()(std::vector<std::vector<int64_t>*> blocks) const {
    std::vector<int64_t> partial(blocks[0]->size(), 0);
    std::vector<bool> touched(blocks[0]->size(), false);
    const bool extremum = form_ == Arithmetic::MAXIMUM || form_ == Arithmetic::MINIMUM;
    std::vector<int64_t> point(nest_.loops.size(), 0);
    do {
      if (!within(point)) continue;
      int64_t term = 1;
      for (size_t operand = 1; operand < blocks.size(); ++operand) term *= (*blocks[operand])[address(operand, point)];
      const size_t target = address(0, point);
      partial[target] = extremum && touched[target] ? combined(form_, partial[target], term)
                        : extremum                  ? term
                                                    : partial[target] + term;
      touched[target] = true;
    } while (advance(point));
    const v1::DataType type = nest_.accesses[0].dtype;
    const v1::DataType middle =
        arithmetic_.intermediate() == v1::DATA_TYPE_UNSPECIFIED ? type : arithmetic_.intermediate();
    for (size_t i = 0; i < partial.size(); ++i) {
      if (!touched[i]) continue;
      const int64_t sum = held(partial[i], middle, arithmetic_.intermediate_overflow());
      (*blocks[0])[i] = held(combined(form_, (*blocks[0])[i], sum), type, arithmetic_.overflow());
    }
  }

 private:
  bool within(const std::vector<int64_t>& point) const {
    return std::all_of(nest_.bounds.begin(), nest_.bounds.end(),
                       [&](const Subscript& bound) { return bound.at(point) < 0; });
  }
  size_t address(size_t operand, const std::vector<int64_t>& point) const {
    int64_t index = 0;
    for (size_t d = 0; d < shapes_[operand].size(); ++d) {
      index = index * shapes_[operand][d] + nest_.accesses[operand].subscripts[d].at(point);
    }
    return static_cast<size_t>(index);
  }
  bool advance(std::vector<int64_t>& point) const {
    size_t d = point.size();
    while (d > 0 && ++point[d - 1] == nest_.loops[d - 1].extent) point[--d] = 0;
    return d > 0;
  }

  Nest nest_;
  Form form_;
  Arithmetic arithmetic_;
  std::vector<std::vector<int64_t>> shapes_;
};

}  // namespace

absl::Status run(const Program& program, const v1::Intrinsic& intrinsic, Tensors& tensors) {
  TESSERA_ASSIGN_OR_RETURN(Nest nest, nestOf(intrinsic));
  const int64_t padding = paddingOf(formOf(nest));
  const Instruction instruction(std::move(nest), intrinsic.arithmetic());
  std::vector<std::vector<int64_t>> memory(program.buffers.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) memory[i].resize(program.buffers[i].elements);
  for (size_t i = 0; i < tensors.size(); ++i) memory[i] = tensors[i];
  for (const Step& step : program.steps) {
    if (step.call) {
      std::vector<std::vector<int64_t>*> blocks;
      for (int buffer : program.operands) blocks.push_back(&memory[buffer]);
      instruction(blocks);
      continue;
    }
    const std::vector<int64_t>& from = memory[step.copy.from];
    std::vector<int64_t>& to = memory[step.copy.to];
    for (const auto& [source, target] : step.copy.moves) {
      if (source >= static_cast<int64_t>(from.size()) || target < 0 || target >= static_cast<int64_t>(to.size())) {
        return absl::InvalidArgumentError(absl::StrCat("a copy from ", source, " to ", target, " leaves its buffers"));
      }
      // Padding is the neutral element of the instruction's form.
      to[target] = source < 0 ? padding : from[source];
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = std::move(memory[i]);
  return absl::OkStatus();
}

void run(const Nest& software, Tensors& tensors) {
  std::vector<std::vector<int64_t>> shapes;
  for (const Access& access : software.accesses) shapes.push_back(shapeOf(software, access));
  const Form form = formOf(software);
  std::vector<int> reductions;
  for (int loop = 0; loop < static_cast<int>(software.loops.size()); ++loop)
    if (software.isReduction(loop)) reductions.push_back(loop);
  std::vector<int64_t> point(software.loops.size(), 0);
  size_t d = 0;
  do {
    int64_t term = 1, target = 0;
    for (size_t array = software.accesses.size(); array-- > 0;) {
      int64_t address = 0;
      for (size_t s = 0; s < shapes[array].size(); ++s) {
        address = address * shapes[array][s] + software.accesses[array].subscripts[s].at(point);
      }
      if (array == 0) {
        target = address;
      } else {
        term *= tensors[array][address];
      }
    }
    // For `=` of a sum of products, the first term replaces the old value.
    const bool first = std::ranges::all_of(reductions, [&](int loop) { return point[loop] == 0; });
    tensors[0][target] =
        combined(form == Arithmetic::MULTIPLY && !first ? Arithmetic::ADD : form, tensors[0][target], term);
    d = point.size();
    while (d > 0 && ++point[d - 1] == software.loops[d - 1].extent) point[--d] = 0;
  } while (d > 0);
}

Tensors randomTensors(const Nest& software, uint64_t seed) {
  std::mt19937_64 draw(seed);
  Tensors tensors;
  for (const Access& access : software.accesses) {
    int64_t elements = 1;
    for (int64_t extent : shapeOf(software, access)) elements *= extent;
    std::vector<int64_t>& values = tensors.emplace_back(static_cast<size_t>(elements));
    const int64_t largest = elementBytes(access.dtype) == 1 ? 40 : 1000;
    for (int64_t& value : values) {
      value = 1 + static_cast<int64_t>(draw() % static_cast<uint64_t>(largest));
      // Never zero: a zero would hide a wrong product.
      if (!isUnsigned(access.dtype) && draw() % 2 == 0) value = -value;
    }
  }
  return tensors;
}

}  // namespace tessera::compiler::intrinsic
