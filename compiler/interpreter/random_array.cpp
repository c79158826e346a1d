#include "compiler/interpreter/random_array.h"

#include <random>

namespace tessera::compiler::interpreter {

Array randomArray(Element element, llvm::ArrayRef<int64_t> shape, const InputRange& range) {
  Array array = makeArray(element, shape);
  std::mt19937_64 random(range.seed * 0x9e3779b97f4a7c15ULL + 1);
  const auto span = static_cast<uint64_t>(range.integer_high - range.integer_low) + 1;
  const int64_t count = array.elements();
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random();
    if (element.isReal()) {
      const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
      array.storage->real[i] = roundTo(element, static_cast<float>(range.low + unit * (range.high - range.low)));
    } else if (element.bits <= 8) {
      array.storage->integer[i] = wrapTo(element.bits, static_cast<int64_t>(bits >> 32));
    } else {
      array.storage->integer[i] = wrapTo(element.bits, range.integer_low + static_cast<int64_t>((bits >> 32) % span));
    }
  }
  return array;
}

std::vector<InputRange> inputRanges(uint64_t seed) {
  return {{seed, -1, 1, -100, 99}, {seed, -1, 1, 0, 99}, {seed, -1, 1, 0, 3}, {seed, -1, 1, 0, 1}, {seed, -1, 1, 0, 0}};
}

}  // namespace tessera::compiler::interpreter
