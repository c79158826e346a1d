#include <algorithm>
#include <cstring>

#include "compiler/runtime/dense_inputs.h"
#include "compiler/runtime/output_extents.h"
#include "compiler/runtime/state.h"
#include "compiler/runtime/variants.h"

namespace tessera::compiler {

RuntimeStatus StateValue::prepare(const tessera_module& module, int32_t index, int64_t bytes) {
  const tessera_module_variant& variant = module.variants[0];
  const tessera_module_state& state = variant.states[index];
  const tessera_module_tensor& input = variant.inputs[state.input];
  name_ = input.name;
  dtype_ = input.dtype;
  growing_dim_ = state.growing_dim;
  initial_.assign(input.shape, input.shape + input.rank);
  for (int32_t d = 0; input.ranges && d < input.rank; ++d)
    if (input.ranges[d] >= 0) initial_[static_cast<size_t>(d)] = d == growing_dim_ ? 0 : -1;
  // The first run decides what differs between variants.
  for (const tessera_module_variant& other : variantsOf(module)) {
    for (size_t d = 0; d < initial_.size(); ++d)
      if (initial_[d] > 0 && other.inputs[state.input].shape[d] != initial_[d]) initial_[d] = -1;
  }
  for (int32_t f = 0; f < module.num_fixed_inputs; ++f)
    if (module.fixed_inputs[f].input == state.input) value_ = &module.fixed_inputs[f];
  bytes_ = bytes;
  for (MemoryRegion& memory : memory_) {
    if (!memory.allocate(static_cast<size_t>(bytes)))
      return runtimeError(TESSERA_OUT_OF_MEMORY, "no memory for state '%.100s' of %lld bytes", name_.c_str(),
                          static_cast<long long>(bytes));
  }
  reset();
  return {};
}

bool StateValue::decided() const { return std::find(extents_.begin(), extents_.end(), -1) == extents_.end(); }

size_t StateValue::elementBytes() const { return tessera_dtype_size(dtype_); }

int64_t StateValue::sizeBytes() const {
  auto bytes = static_cast<int64_t>(elementBytes());
  for (const int64_t extent : extents_) bytes *= extent;
  return bytes;
}

void StateValue::clean(size_t which) {
  if (!clean_[which] && bytes_ > 0) std::memset(memory_[which].data(), 0, static_cast<size_t>(bytes_));
  clean_[which] = true;
}

void StateValue::reset() {
  // Laid-out memory has nothing but the rows of the value.
  if (growing_dim_ >= 0 && !extents_.empty() && layout_ != extents_) {
    clearRows(0, rows());
    clean_[current_] = true;
  }
  const bool keeps_layout = growing_dim_ >= 0 && clean_[current_] && layout_.size() == initial_.size();
  extents_ = initial_;
  fresh_ = false;
  if (!keeps_layout) layout_ = extents_;
  if (!decided() || growing_dim_ >= 0) return;
  clean(current_);
  if (value_ == nullptr || value_->size_bytes != sizeBytes() || value_->size_bytes == 0) return;
  std::memcpy(data(), value_->data, static_cast<size_t>(value_->size_bytes));
  clean_[current_] = false;
}

void StateValue::decide(std::span<const int64_t> extents) {
  const bool dense = layout_ == extents_;
  extents_.assign(extents.begin(), extents.end());
  if (growing_dim_ >= 0) extents_[static_cast<size_t>(growing_dim_)] = 0;
  if (dense) layout_ = extents_;
  if (growing_dim_ < 0) clean(current_);
  fresh_ = true;
}

void StateValue::abandon() {
  if (fresh_) reset();
}

void StateValue::assign(std::span<const int64_t> extents, const void* data) {
  extents_.assign(extents.begin(), extents.end());
  layout_ = extents_;
  fresh_ = false;
  clean_[current_] = false;
  if (const int64_t size = sizeBytes(); size > 0) std::memcpy(this->data(), data, static_cast<size_t>(size));
}

void StateValue::copyTo(void* to) const {
  const size_t size = static_cast<size_t>(sizeBytes());
  if (size == 0) return;
  const uint8_t* from = memory_[current_].data();
  if (layout_ == extents_) {
    std::memcpy(to, from, size);
    return;
  }
  // Part by part: the dense rows of each part follow each other.
  auto* at = static_cast<uint8_t*>(to);
  std::vector<int64_t> position(extents_.size(), 0);
  const size_t element = elementBytes();
  const auto last = extents_.size() - 1;
  while (true) {
    int64_t offset = 0;
    for (size_t d = 0; d < extents_.size(); ++d) offset = offset * layout_[d] + position[d];
    const auto run = static_cast<size_t>(extents_[last]) * element;
    std::memcpy(at, from + static_cast<size_t>(offset) * element, run);
    at += run;
    size_t d = last;
    while (d > 0 && ++position[d - 1] == extents_[d - 1]) position[--d] = 0;
    if (d == 0) return;
  }
}

void StateValue::makeDense() {
  if (layout_ == extents_) return;
  packDense(data(), elementBytes(), layout_, extents_);
  layout_ = extents_;
  clean_[current_] = false;
}

void StateValue::layOut(std::span<const int64_t> bounds) {
  if (std::equal(bounds.begin(), bounds.end(), layout_.begin(), layout_.end())) return;
  if (sizeBytes() == 0) {
    clean(current_);
  } else {
    makeDense();
    const size_t other = 1 - current_;
    clean(other);
    copyToBounds(memory_[other].data(), data(), elementBytes(), bounds, extents_);
    current_ = other;
  }
  layout_.assign(bounds.begin(), bounds.end());
  clean_[current_] = false;
}

void StateValue::accept(std::span<const int64_t> extents) {
  current_ = 1 - current_;
  extents_.assign(extents.begin(), extents.end());
  layout_ = extents_;
  fresh_ = false;
}

void StateValue::acceptRows(int64_t rows) {
  extents_[static_cast<size_t>(growing_dim_)] = rows;
  fresh_ = false;
}

int64_t StateValue::outer() const {
  int64_t parts = 1;
  for (int32_t d = 0; d < growing_dim_; ++d) parts *= layout_[static_cast<size_t>(d)];
  return parts;
}

int64_t StateValue::rowBytes() const {
  auto bytes = static_cast<int64_t>(elementBytes());
  for (size_t d = static_cast<size_t>(growing_dim_) + 1; d < layout_.size(); ++d) bytes *= layout_[d];
  return bytes;
}

void StateValue::writeRows(int64_t part, int64_t end, const uint8_t* from) {
  int64_t rest = part;
  for (int32_t d = growing_dim_ - 1; d >= 0; --d) {
    const auto dim = static_cast<size_t>(d);
    if (rest % layout_[dim] >= extents_[dim]) return;
    rest /= layout_[dim];
  }
  const auto row = static_cast<size_t>(rowBytes());
  std::memcpy(data() + static_cast<size_t>(part * capacity() + rows()) * row, from,
              static_cast<size_t>(end - rows()) * row);
}

void StateValue::clearRows(int64_t first, int64_t last) {
  if (first >= last) return;
  const auto row = static_cast<size_t>(rowBytes());
  for (int64_t part = 0; part < outer(); ++part) {
    std::memset(data() + static_cast<size_t>(part * capacity() + first) * row, 0,
                static_cast<size_t>(last - first) * row);
  }
}

}  // namespace tessera::compiler
