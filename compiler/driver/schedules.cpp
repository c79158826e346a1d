#include "compiler/driver/schedules.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"

namespace tessera::compiler {
namespace {

absl::Status fault(const std::string& message, const std::string& node, const std::string& fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_SCHEDULE);
  failure.set_message(message);
  failure.set_node(node);
  failure.set_fix(fix);
  return failureStatus(failure);
}

}  // namespace

Schedules::Schedules(const v1::Target& target, const Backend* backend, const v1::CompileSpec& spec,
                     const v1::Pins& pins, StepCache* steps)
    : target_(target), backend_(backend), spec_(spec), steps_(steps) {
  for (const v1::Pins::PinnedWorkload& pin : pins.workloads()) pins_.emplace(pin.hash(), &pin.schedule());
}

v1::BuildUnit Schedules::unitOf(const v1::Workload& workload) const {
  v1::BuildUnit unit;
  unit.set_workload_hash(workload.hash());
  unit.set_symbol(workload.symbol());
  unit.set_ir(workload.ir());
  *unit.mutable_code() = target_.code();
  *unit.mutable_registers() = target_.registers();
  *unit.mutable_memory() = target_.memory();
  *unit.mutable_units() = target_.units();
  *unit.mutable_cost_parameters() = target_.cost_parameters();
  unit.set_family(target_.family());
  *unit.mutable_intrinsics() = backend_->instructions(target_);
  unit.set_verify(spec_.options().verify());
  return unit;
}

absl::StatusOr<v1::Schedule> Schedules::decide(const v1::Workload& workload, std::string& suggestion) const {
  v1::BuildUnit unit = unitOf(workload);
  if (const auto pin = pins_.find(workload.hash()); pin != pins_.end()) {
    *unit.mutable_schedule() = *pin->second;
    // Checks a pin before anything is built, because it may come from another version or target.
    absl::Status status = backend_->validate(unit);
    if (status.ok()) return *pin->second;
    // A suggestion that does not fit is replaced by an own schedule, and the report says why.
    if (!suggests()) return status;
    suggestion = failureOf(status).message();
  }
  if (spec_.pin_use() == v1::WHOLE_PLAN)
    return fault(absl::StrCat("the plan has no schedule for it (", workload.hash(), ")"), workload.summary(),
                 "give the plan of this model, target and shapes, or pin what it has with --pin");
  const bool scalar = spec_.options().opt_level() == kPlainLoops;
  // Slicing Winograd stages is optional: they run whole if code generation rejects it. Slices that are part of a choice
  // (stage_movement) are not, so their rejection is reported.
  const bool wished =
      workload.has_slices() && absl::StartsWith(workload.algorithm(), "winograd") && !workload.has_fusion();
  unit.clear_schedule();
  const std::string key = stepKey("schedule", {deterministicBytes(unit), deterministicBytes(workload.slices()),
                                               scalar ? "scalar" : "", wished ? "wished" : ""});
  return onceMade<v1::Schedule>(steps_, key, [&] {
    absl::StatusOr<v1::Schedule> schedule = backend_->propose(unit, {.slices = workload.slices(), .scalar = scalar});
    return schedule.ok() || !wished ? schedule : backend_->propose(unit, {.scalar = scalar});
  });
}

const absl::StatusOr<v1::Schedule>& Schedules::of(const v1::Workload& workload) const {
  return known_.at(workload.hash()).schedule;
}

void Schedules::decideAll(const std::vector<const v1::Workload*>& workloads,
                          const std::function<void(int done, int total, const v1::Workload&)>& done) {
  // Each distinct workload once, without those that are known.
  std::vector<const v1::Workload*> open;
  std::set<std::string> seen;
  for (const v1::Workload* workload : workloads)
    if (!known_.contains(workload->hash()) && seen.insert(workload->hash()).second) open.push_back(workload);
  const auto total = static_cast<int>(open.size());
  std::mutex mutex;
  int next = 0, finished = 0;
  auto work = [&] {
    while (true) {
      const v1::Workload* workload = nullptr;
      // The lock covers taking a workload and storing its result, not the work between them.
      {
        const std::lock_guard lock(mutex);
        if (next == total) return;
        workload = open[static_cast<size_t>(next++)];
      }
      std::string refusal;
      absl::StatusOr<v1::Schedule> schedule = decide(*workload, refusal);
      const std::lock_guard lock(mutex);
      known_.try_emplace(workload->hash(), Known{std::move(schedule), workload->summary(), refusal});
      if (done) done(++finished, total, *workload);
    }
  };
  const auto threads = std::min<int>(total, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  // This thread works as well; the others join at the end of the scope.
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work);
  work();
}

absl::Status Schedules::finish(v1::GraphReport& report) const {
  // Pins that no workload used are errors; suggestions are only reported.
  for (const auto& [hash, schedule] : pins_) {
    const auto known = known_.find(hash);
    if (suggests()) {
      if (known == known_.end()) continue;
      v1::Decision& decision = *report.add_decisions();
      decision.set_kind("schedule");
      decision.set_place(hash);
      decision.set_taken(known->second.refusal.empty());
      decision.set_reason(
          absl::StrCat(known->second.summary, ": ", decision.taken() ? "the suggested tree" : known->second.refusal));
      continue;
    }
    if (known != known_.end()) continue;
    return fault(absl::StrCat("pinned workload ", hash, ": the model has no such workload for this target and shapes"),
                 hash,
                 "remove it; `tessera explain MODEL --plan-out FILE` writes the existing ones. Another choice of "
                 "layout, algorithm or fusion leads to other workloads");
  }
  return absl::OkStatus();
}

std::vector<v1::Choice> choicesOf(const v1::Pins& pins, const std::string& variant) {
  std::map<std::pair<std::string, std::string>, v1::Choice> chosen;
  for (const v1::Choice& choice : pins.choices()) {
    const std::pair key{choice.kind(), choice.place()};
    // A choice for the variant replaces the one for all variants, in either order.
    if (choice.variant() == variant) {
      chosen[key] = choice;
    } else if (choice.variant().empty()) {
      chosen.emplace(key, choice);
    }
  }
  std::vector<v1::Choice> result;
  for (auto& [key, choice] : chosen) result.push_back(std::move(choice));
  return result;
}

bool dropFailedSuggestion(const absl::Status& failed, std::vector<v1::Choice>& suggested,
                          std::vector<v1::Decision>& decisions) {
  const v1::Failure failure = failureOf(failed);
  // The failure names the choice it stems from.
  const auto at = std::ranges::find_if(suggested, [&](const v1::Choice& each) {
    return each.kind() == failure.attribute() && each.place() == failure.node();
  });
  if (failure.reason() != v1::Failure::INVALID_SCHEDULE || at == suggested.end()) return false;
  v1::Decision& decision = decisions.emplace_back();
  decision.set_kind(at->kind());
  decision.set_place(at->place());
  decision.set_reason(absl::StrCat("the suggestion \"", at->choice(), "\" is left out: ", failure.message()));
  suggested.erase(at);
  return true;
}

absl::Status checkAllPinned(const v1::GraphReport& report, const std::vector<v1::Choice>& pins) {
  std::set<std::pair<std::string, std::string>> known;
  for (const v1::Choice& pin : pins) known.emplace(pin.kind(), pin.place());
  for (const v1::Choice& choice : report.choices()) {
    if (known.contains({choice.kind(), choice.place()})) continue;
    return fault(absl::StrCat("the plan does not say ", choice.kind(), " at \"", choice.place(), "\""), choice.place(),
                 "give the plan of this model, target and shapes, or pin what it has with --pin");
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
