#include "compiler/runtime/dense_inputs.h"

#include <algorithm>
#include <cstring>

#include "compiler/runtime/tessera.h"

namespace tessera::compiler {
namespace {

const char* spread(char* to, const char* from, size_t element_bytes, std::span<const int64_t> bounds,
                   std::span<const int64_t> extents) {
  size_t part = element_bytes;  // bytes of the part below this dimension, in the present layout
  bool dense = true;
  for (size_t d = 1; d < bounds.size(); ++d) {
    part *= static_cast<size_t>(bounds[d]);
    dense &= bounds[d] == extents[d];
  }
  if (dense) {
    const size_t size = part * static_cast<size_t>(bounds.empty() ? 1 : extents[0]);
    std::memcpy(to, from, size);
    return from + size;
  }
  for (int64_t i = 0; i < extents[0]; ++i, to += part)
    from = spread(to, from, element_bytes, bounds.subspan(1), extents.subspan(1));
  return from;
}

/// Bytes up to the last element of `extents` in a tensor laid out for `bounds`.
int64_t frontOf(std::span<const int64_t> bounds, std::span<const int64_t> extents, int64_t element_bytes) {
  int64_t last = 0;
  for (size_t d = 0; d < bounds.size(); ++d) {
    if (extents[d] == 0) return 0;
    last = last * bounds[d] + extents[d] - 1;
  }
  return (last + 1) * element_bytes;
}

}  // namespace

void copyToBounds(void* to, const void* from, size_t element_bytes, std::span<const int64_t> bounds,
                  std::span<const int64_t> extents) {
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return;
  spread(static_cast<char*>(to), static_cast<const char*>(from), element_bytes, bounds, extents);
}

DenseInputs::DenseInputs(const tessera_module_variant& variant, int32_t num_inputs)
    : variant_(variant), places_(static_cast<size_t>(num_inputs)) {
  for (size_t i = 0; i < places_.size(); ++i) {
    const tessera_module_tensor& tensor = variant.inputs[i];
    if (!tensor.ranges) continue;
    places_[i] = {bytes_, std::vector<int64_t>(static_cast<size_t>(tensor.rank), 0)};
    bytes_ += (tensor.size_bytes + TESSERA_BUFFER_ALIGNMENT - 1) / TESSERA_BUFFER_ALIGNMENT * TESSERA_BUFFER_ALIGNMENT;
  }
}

void* DenseInputs::place(uint8_t* memory, size_t input, const void* data, std::span<const int64_t> extents) {
  const tessera_module_tensor& tensor = variant_.inputs[input];
  const std::span<const int64_t> bounds(tensor.shape, static_cast<size_t>(tensor.rank));
  const auto element = static_cast<int64_t>(tessera_dtype_size(tensor.dtype));
  Place& place = places_[input];
  uint8_t* const to = memory + place.offset;
  if (!std::equal(extents.begin(), extents.end(), place.extents.begin())) {
    std::memset(to, 0, static_cast<size_t>(frontOf(bounds, place.extents, element)));
    std::copy(extents.begin(), extents.end(), place.extents.begin());
  }
  copyToBounds(to, data, static_cast<size_t>(element), bounds, extents);
  return to;
}

}  // namespace tessera::compiler
