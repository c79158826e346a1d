#include "compiler/verification/loop_state.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::verification {

using interpreter::Array;
using interpreter::Element;

absl::StatusOr<Place> BufferPlaces::of(int buffer) const {
  if (!exists(buffer)) return absl::InternalError(absl::StrCat("the plan has no buffer ", buffer));
  if (plan_.buffers(buffer).kind() != v1::Buffer::LOOP) return PlanMemory::placeOf(plan_.buffers(buffer));
  const std::optional<Place>& place = bound_[static_cast<size_t>(buffer)];
  if (!place) return absl::InternalError(absl::StrCat("buffer ", buffer, " of a loop is used outside of the loop"));
  return *place;
}

absl::Status BufferPlaces::bind(int loop, int buffer, const Place& place) {
  if (!exists(buffer) || plan_.buffers(buffer).kind() != v1::Buffer::LOOP || plan_.buffers(buffer).index() != loop)
    return absl::InternalError(absl::StrCat("buffer ", buffer, " does not belong to loop ", loop));
  if (plan_.buffers(buffer).size_bytes() != place.size_bytes) {
    return absl::InternalError(absl::StrCat("buffer ", buffer, " of a loop has ", plan_.buffers(buffer).size_bytes(),
                                            " bytes, its allocation ", place.size_bytes));
  }
  bound_[static_cast<size_t>(buffer)] = place;
  return absl::OkStatus();
}

absl::Status checkLoops(const v1::Plan& plan) {
  std::vector<int> ends;  // end steps of the enclosing loops
  int first = 0;
  for (int l = 0; l < plan.loops_size(); ++l) {
    const v1::StepLoop& loop = plan.loops(l);
    // Loops that ended before this one do not enclose it.
    while (!ends.empty() && ends.back() <= loop.first_step()) ends.pop_back();
    const int end = ends.empty() ? plan.steps_size() : ends.back();
    if (loop.first_step() < first || loop.first_step() >= loop.last_step() || loop.last_step() > end)
      return absl::InternalError(absl::StrCat("loop ", l, " is out of order or overlaps another one"));
    ends.push_back(loop.last_step());
    first = loop.first_step();
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LoopState::readInteger(int buffer, unsigned bits) const {
  TESSERA_ASSIGN_OR_RETURN(const Place place, places_.of(buffer));
  TESSERA_ASSIGN_OR_RETURN(const Array array, memory_.read(place, Element{Element::Kind::kInteger, bits}, {}));
  const interpreter::Scalar value = array.at(array.offset);
  if (value.error > 0) return absl::FailedPreconditionError("the rounding of its condition decides when a loop ends");
  return value.integer;
}

absl::Status LoopState::writeInteger(int buffer, int64_t value) {
  TESSERA_ASSIGN_OR_RETURN(const Place place, places_.of(buffer));
  Array array = interpreter::makeArray(Element{Element::Kind::kInteger, 64}, {});
  array.set(0, {0, value, 0});
  return memory_.write(place, array);
}

absl::Status LoopState::enter() {
  trips_ = loop_.max_iterations() > 0 ? loop_.max_iterations() : std::numeric_limits<int64_t>::max();
  if (loop_.has_trip_count()) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t count, readInteger(loop_.trip_count(), 64));
    trips_ = std::clamp<int64_t>(count, 0, trips_);
  }
  if (loop_.has_initial_condition() && trips_ > 0) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t condition, readInteger(loop_.initial_condition(), 8));
    condition_ = condition != 0;
  }
  for (const v1::StepLoop::Scan& scan : loop_.scans()) {
    TESSERA_ASSIGN_OR_RETURN(const Place whole, places_.of(scan.whole()));
    if (!scan.written()) continue;
    // Parts that no iteration writes have unknown content.
    TESSERA_RETURN_IF_ERROR(memory_.poison(whole));
  }
  return absl::OkStatus();
}

int LoopState::holderAfter(const v1::StepLoop::Carried& carried, int64_t iterations) const {
  // Values alternate between two buffers such that the last iteration of a full run writes the result's.
  if (iterations == 0) return carried.initial();
  return (trips_ - iterations) % 2 == 0 ? carried.result() : carried.spare();
}

absl::Status LoopState::bindPart(const v1::StepLoop::Scan& scan) {
  TESSERA_ASSIGN_OR_RETURN(const Place whole, places_.of(scan.whole()));
  const int64_t most = loop_.max_iterations();
  if (most <= 0 || whole.size_bytes % most != 0)
    return absl::InternalError(
        absl::StrCat("loop ", number_, " reads parts of a buffer that does not divide into them"));
  return places_.bind(number_, scan.part(),
                      whole.part(scan.reversed() ? most - 1 - ended_ : ended_, whole.size_bytes / most));
}

absl::Status LoopState::beginIteration() {
  if (loop_.has_iteration()) {
    TESSERA_RETURN_IF_ERROR(writeInteger(loop_.iteration(), ended_));
  }
  for (const v1::StepLoop::Carried& carried : loop_.carried()) {
    const absl::StatusOr<Place> before = places_.of(holderAfter(carried, ended_));
    const absl::StatusOr<Place> after = places_.of(holderAfter(carried, ended_ + 1));
    if (!before.ok()) return before.status();
    if (!after.ok()) return after.status();
    TESSERA_RETURN_IF_ERROR(places_.bind(number_, carried.before(), *before));
    TESSERA_RETURN_IF_ERROR(places_.bind(number_, carried.after(), *after));
    // The old content must not be needed any more; if it is, the plan is wrong and poisoning shows it.
    TESSERA_RETURN_IF_ERROR(memory_.poison(*after));
  }
  for (const v1::StepLoop::Scan& scan : loop_.scans()) {
    TESSERA_RETURN_IF_ERROR(bindPart(scan));
  }
  return absl::OkStatus();
}

absl::Status LoopState::endIteration() {
  if (++ended_ == trips_ || !loop_.has_condition()) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const int64_t condition, readInteger(loop_.condition(), 8));
  condition_ = condition != 0;
  return absl::OkStatus();
}

absl::Status LoopState::leave() {
  for (const v1::StepLoop::Carried& carried : loop_.carried()) {
    const int holder = holderAfter(carried, ended_);
    if (holder != carried.result()) {
      TESSERA_ASSIGN_OR_RETURN(const Place from, places_.of(holder));
      TESSERA_ASSIGN_OR_RETURN(const Place to, places_.of(carried.result()));
      TESSERA_RETURN_IF_ERROR(memory_.copy(from, to));
    }
    places_.release(carried.before());
    places_.release(carried.after());
  }
  for (const v1::StepLoop::Scan& scan : loop_.scans()) places_.release(scan.part());
  return loop_.has_executed() ? writeInteger(loop_.executed(), ended_) : absl::OkStatus();
}

}  // namespace tessera::compiler::verification
