#include "compiler/graph/choices.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

absl::Status fault(const std::string& kind, const std::string& place, const std::string& message,
                   const std::string& found, const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_SCHEDULE);
  failure.set_node(place);
  failure.set_attribute(kind);
  failure.set_message(absl::StrCat("pinned choice ", kind, " \"", place, "\" ", found, ": ", message));
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix("change or remove the line; `tessera explain MODEL --plan-out FILE` writes all that can be pinned");
  return failureStatus(failure);
}

}  // namespace

GraphChoices::GraphChoices(const std::vector<v1::Choice>& pins) {
  for (const v1::Choice& pin : pins) {
    pins_[{pin.kind(), pin.place()}] = pin.choice();
    if (!pin.refusal().empty()) refused_[{pin.kind(), pin.place()}] = pin.refusal();
  }
}

void GraphChoices::exclude(const std::vector<Refused>& refused) {
  for (const Refused& each : refused) refused_[{each.choice.kind(), each.choice.place()}] = each.reason;
}

std::string GraphChoices::nextPlace(const std::string& kind, const std::string& names) {
  const int count = ++places_[{kind, names}];
  return count == 1 ? names : absl::StrCat(names, "#", count);
}

std::string GraphChoices::pinned(const std::string& kind, const std::string& place) {
  const auto pin = pins_.find({kind, place});
  if (pin == pins_.end()) return {};
  looked_up_[pin->first] = true;
  return pin->second;
}

std::string GraphChoices::pinnedFusion(const std::string& kind, const std::string& place) {
  const std::string choice = pinned(kind, place);
  if (!choice.empty() && choice != kFused && choice != kSeparate)
    refuse(kind, place, "no such choice", absl::StrCat(kFused, ", ", kSeparate));
  return choice;
}

std::string GraphChoices::refusal(const std::string& kind, const std::string& place) const {
  const auto refused = refused_.find({kind, place});
  return refused == refused_.end() ? std::string() : refused->second;
}

v1::Choice& GraphChoices::record(const std::string& kind, const std::string& place, const std::string& choice,
                                 const std::string& refusal) {
  v1::Choice& made = made_.emplace_back();
  made.set_kind(kind);
  made.set_place(place);
  made.set_choice(choice);
  made.set_refusal(refusal);
  return made;
}

void GraphChoices::refuse(const std::string& kind, const std::string& place, const std::string& why,
                          const std::string& accepted) {
  if (status_.ok()) status_ = fault(kind, place, why, pins_[{kind, place}], accepted);
}

absl::Status GraphChoices::finish() {
  if (!status_.ok()) return status_;
  for (const auto& [key, choice] : pins_) {
    if (looked_up_.contains(key)) continue;
    constexpr size_t kShown = 4;
    std::vector<std::string> places;
    for (const v1::Choice& made : made_)
      if (made.kind() == key.first && places.size() < kShown) places.push_back(absl::StrCat("\"", made.place(), "\""));
    return fault(key.first, key.second, "the model has no choice of this kind at this place", choice,
                 places.empty() ? "no choice of this kind: the model has none"
                                : absl::StrCat("places such as ", absl::StrJoin(places, ", ")));
  }
  return absl::OkStatus();
}

void addAlternative(v1::Choice& made, const std::string& choice, double cost_us) {
  v1::Choice::Alternative& other = *made.add_alternatives();
  other.set_choice(choice);
  other.set_cost_us(cost_us);
}

}  // namespace tessera::compiler
