#include "compiler/verification/plan_memory.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/messages/element_size.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::verification {

using interpreter::Array;

namespace {

std::string textOf(const Place& place) {
  return absl::StrCat(v1::Buffer::Kind_Name(place.kind), " ", place.index, ", bytes ", place.offset, " to ",
                      place.offset + place.size_bytes);
}

absl::Status outside(const Place& place) {
  return absl::OutOfRangeError(absl::StrCat("buffer out of its section: ", textOf(place)));
}

}  // namespace

PlanMemory::PlanMemory(const PlannedGraph& planned, const std::vector<Array>& inputs,
                       const std::vector<Array>& prepared)
    : planned_(planned), arena_(poisoned(planned.plan.arena_bytes())) {
  for (const Array& input : inputs) inputs_.push_back(bytesOf(input));
  for (const Array& weight : prepared) prepared_.push_back(bytesOf(weight));
  for (const v1::TensorSpec& spec : planned.plan.outputs()) {
    int64_t bytes = tessera::elementBytes(spec.dtype());
    for (int64_t extent : spec.shape()) bytes *= extent;
    outputs_.push_back(poisoned(bytes));
  }
}

PlanMemory::Bytes PlanMemory::poisoned(int64_t size) {
  const auto count = static_cast<size_t>(size);
  // All ones is NaN in every floating-point type; the error estimate marks the bytes as unknown in all types.
  return {std::string(count, '\xff'), std::vector<double>(count, interpreter::kUnknownError), false};
}

PlanMemory::Bytes PlanMemory::bytesOf(const Array& array) {
  Bytes bytes{interpreter::toBytes(array), {}, true};
  const int64_t width = interpreter::elementBytes(array.storage->element);
  bytes.errors.reserve(bytes.values.size());
  interpreter::forEachPosition(
      // Every byte carries its element's estimate, so that a value can be read as another type.
      array, [&](int64_t position) { bytes.errors.insert(bytes.errors.end(), width, array.storage->error[position]); });
  return bytes;
}

absl::StatusOr<Place> PlanMemory::placeOf(const v1::Buffer& buffer) {
  const Place place{buffer.kind(), buffer.index(), buffer.offset(), buffer.size_bytes()};
  if (place.offset < 0 || place.offset % 64 != 0) return outside(place);
  return place;
}

Place PlanMemory::placeOfOutput(int output) const {
  const auto bytes = static_cast<int64_t>(outputs_[static_cast<size_t>(output)].values.size());
  return {v1::Buffer::OUTPUT, output, 0, bytes};
}

absl::StatusOr<const PlanMemory::Bytes*> PlanMemory::section(const Place& place) const {
  const auto index = static_cast<size_t>(place.index);
  if (place.kind == v1::Buffer::INPUT && index < inputs_.size()) return &inputs_[index];
  if (place.kind == v1::Buffer::OUTPUT && index < outputs_.size()) return &outputs_[index];
  if (place.kind == v1::Buffer::PREPARED && index < prepared_.size()) return &prepared_[index];
  if (place.kind == v1::Buffer::ARENA) return &arena_;
  return absl::OutOfRangeError(absl::StrCat("there is no such buffer: ", textOf(place)));
}

absl::StatusOr<PlanMemory::Bytes> PlanMemory::load(const Place& place, int64_t size) const {
  if (place.kind == v1::Buffer::WEIGHT) return loadWeight(place, size);
  TESSERA_ASSIGN_OR_RETURN(const Bytes* from, section(place));
  if (place.kind == v1::Buffer::OUTPUT && !from->written)
    return absl::InternalError("a step reads an output before it is written");
  // Checked against the place and against the section: a plan may be wrong in either.
  if (size > place.size_bytes || place.offset + place.size_bytes > static_cast<int64_t>(from->values.size()))
    return outside(place);
  const auto first = from->errors.begin() + place.offset;
  return Bytes{from->values.substr(place.offset, size), {first, first + size}, true};
}

absl::StatusOr<PlanMemory::Bytes> PlanMemory::loadWeight(const Place& place, int64_t size) const {
  // The last weight that begins at or before the place: readers may use a part of it.
  const PlannedGraph::PlacedWeight* found = nullptr;
  for (const PlannedGraph::PlacedWeight& placed : planned_.weights) {
    if (placed.offset <= place.offset) found = &placed;
  }
  if (!found) return absl::OutOfRangeError(absl::StrCat("no weight lies there: ", textOf(place)));
  const int64_t skip = place.offset - found->offset;
  if (skip + size > static_cast<int64_t>(found->weight.bytes.size()))
    return absl::OutOfRangeError(absl::StrCat("a step reads beyond a weight: ", textOf(place)));
  return Bytes{std::string(found->weight.bytes.substr(skip, size)), std::vector<double>(size, 0.0), true};
}

absl::Status PlanMemory::store(const Place& place, const Bytes& bytes) {
  if (place.kind == v1::Buffer::INPUT || place.kind == v1::Buffer::WEIGHT || place.kind == v1::Buffer::PREPARED)
    return absl::InternalError("a step writes to a weight or an input");
  TESSERA_RETURN_IF_ERROR(section(place).status());
  Bytes& to = place.kind == v1::Buffer::ARENA ? arena_ : outputs_[static_cast<size_t>(place.index)];
  if (static_cast<int64_t>(bytes.values.size()) > place.size_bytes ||
      place.offset + place.size_bytes > static_cast<int64_t>(to.values.size())) {
    return outside(place);
  }
  std::memcpy(to.values.data() + place.offset, bytes.values.data(), bytes.values.size());
  std::copy(bytes.errors.begin(), bytes.errors.end(), to.errors.begin() + place.offset);
  to.written = true;
  return absl::OkStatus();
}

absl::StatusOr<Array> PlanMemory::read(const Place& place, interpreter::Element element,
                                       llvm::ArrayRef<int64_t> shape) const {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  const int64_t width = interpreter::elementBytes(element);
  TESSERA_ASSIGN_OR_RETURN(const Bytes bytes, load(place, elements * width));
  Array array = interpreter::fromBytes(element, shape, bytes.values);
  for (int64_t i = 0; i < elements; ++i) array.storage->error[i] = bytes.errors[i * width];
  return array;
}

absl::Status PlanMemory::write(const Place& place, const Array& array) { return store(place, bytesOf(array)); }

absl::Status PlanMemory::copy(const Place& from, const Place& to) {
  if (from.size_bytes != to.size_bytes)
    return absl::InternalError(absl::StrCat("two sizes of one value: ", textOf(from), "; ", textOf(to)));
  const absl::StatusOr<Bytes> bytes = load(from, from.size_bytes);
  return bytes.ok() ? store(to, *bytes) : bytes.status();
}

absl::Status PlanMemory::poison(const Place& place) { return store(place, poisoned(place.size_bytes)); }

}  // namespace tessera::compiler::verification
