#include "clients/cli/artifact_comparison.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "clients/cli/latency.h"
#include "proto/support/median.h"

namespace tessera::client {
namespace {

constexpr double kDeviations = 3;
constexpr double kMinNoise = 0.01;

double median(const std::vector<double>& values) { return summarize(values).median; }

const v1::Plan& variantOf(const v1::Plan& plan, size_t variant) {
  if (variant == 0) return plan;  // NOLINT(bugprone-return-const-ref-from-parameter): callers hold it
  return plan.variants(static_cast<int>(variant) - 1);
}

CodeChange codeChange(const v1::Workload& before, const v1::Workload& after) {
  if (before.hash() != after.hash()) return CodeChange::kOtherKernel;
  return before.schedule().SerializeAsString() == after.schedule().SerializeAsString() ? CodeChange::kSame
                                                                                       : CodeChange::kOtherSchedule;
}

}  // namespace

bool TimeChange::sure() const { return std::abs(change) > noise; }

TimeChange changeOf(const std::vector<double>& before_ms, const std::vector<double>& after_ms) {
  TimeChange change;
  change.before_ms = median(before_ms);
  change.after_ms = median(after_ms);
  if (change.before_ms <= 0) return change;
  std::vector<double> differences(before_ms.size());
  std::ranges::transform(after_ms, before_ms, differences.begin(), std::minus<>());
  const double middle = median(differences);
  for (double& difference : differences) difference = std::abs(difference - middle);
  const double error = medianStandardError(median(differences), differences.size());
  change.change = change.after_ms / change.before_ms - 1;
  change.noise = std::max(kMinNoise, kDeviations * error / change.before_ms);
  return change;
}

std::string describe(CodeChange change) {
  switch (change) {
    case CodeChange::kSame:
      return "same";
    case CodeChange::kOtherSchedule:
      return "other schedule";
    case CodeChange::kOtherKernel:
      return "other kernel";
    case CodeChange::kNew:
      return "new";
    case CodeChange::kGone:
      return "gone";
  }
  return "";
}

std::vector<StepPair> pairSteps(const v1::Plan& before, size_t before_variant, const v1::Plan& after,
                                size_t after_variant) {
  const v1::Plan& old_steps = variantOf(before, before_variant);
  const v1::Plan& new_steps = variantOf(after, after_variant);
  std::map<std::string, std::deque<int>> named;
  for (int i = 0; i < new_steps.steps_size(); ++i) named[new_steps.steps(i).name()].push_back(i);
  std::vector<StepPair> pairs;
  for (int i = 0; i < old_steps.steps_size(); ++i) {
    const v1::Step& step = old_steps.steps(i);
    std::deque<int>& same = named[step.name()];
    if (same.empty()) {
      pairs.push_back({step.name(), i, -1, CodeChange::kGone});
      continue;
    }
    const int became = same.front();
    same.pop_front();
    pairs.push_back(
        {step.name(), i, became,
         codeChange(before.workloads(step.workload()), after.workloads(new_steps.steps(became).workload()))});
  }
  std::vector<StepPair> added;
  for (const auto& [name, left] : named) {
    for (const int i : left) added.push_back({name, -1, i, CodeChange::kNew});
  }
  std::ranges::sort(added, {}, &StepPair::after);
  pairs.insert(pairs.end(), added.begin(), added.end());
  return pairs;
}

}  // namespace tessera::client
