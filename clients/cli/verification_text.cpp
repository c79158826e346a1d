#include "clients/cli/verification_text.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/output.h"

namespace tessera::client {
namespace {

std::vector<const v1::VerifiedStep*> stepsOf(const v1::Plan& plan) {
  std::vector<const v1::VerifiedStep*> steps;
  for (const v1::VerifiedStep& step : plan.report().verified()) steps.push_back(&step);
  for (const v1::Plan& variant : plan.variants()) {
    for (const v1::VerifiedStep& step : variant.report().verified()) steps.push_back(&step);
  }
  return steps;
}

struct Count {
  int right = 0, all = 0;
};

}  // namespace

std::string verificationText(const v1::Plan& plan) {
  Count graph, kernels;
  int64_t undecided = 0, elements = 0;
  const v1::VerifiedStep* worst = nullptr;
  std::map<std::string, std::vector<std::string>> skipped;  // by reason
  for (const v1::VerifiedStep* step : stepsOf(plan)) {
    const bool inner = !step->place().empty() && step->step() != "kernel";  // a place between workload and kernel
    Count& count = step->place().empty() ? graph : kernels;
    if (!inner) ++count.all;
    if (!step->skipped().empty()) {
      skipped[step->skipped()].push_back(
          absl::StrCat(step->step(), step->place().empty() ? "" : " of ", step->place()));
      continue;
    }
    if (!inner) ++count.right;
    undecided += step->undecided();
    elements += step->elements();
    if (!worst || step->share() > worst->share()) worst = step;
  }
  std::string text = absl::StrCat("  verified ", graph.right, " of ", graph.all, " steps of the graph, ", kernels.right,
                                  " of ", kernels.all, " kernels");
  if (worst && worst->share() > 0) {
    absl::StrAppendFormat(&text, "; largest error %.2g of its bound (%.2g, %s%s%s)", worst->share(), worst->bound(),
                          worst->step(), worst->place().empty() ? "" : " of ", worst->place());
  }
  if (undecided > 0) absl::StrAppend(&text, "; rounding decides ", undecided, " of ", elements, " elements");
  absl::StrAppend(&text, "\n");
  for (const auto& [reason, steps] : skipped) {
    constexpr size_t kNamed = 3;
    const size_t count = std::min(kNamed, steps.size());
    const std::vector<std::string> named(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(count));
    absl::StrAppend(&text, "  not verified: ", absl::StrJoin(named, ", "),
                    andMore(static_cast<int64_t>(steps.size() - count)), ": ", reason, "\n");
  }
  return text;
}

std::string precisionText(const v1::Plan& plan) {
  std::string text;
  auto add = [&](const v1::GraphReport& report) {
    for (const v1::Decision& decision : report.decisions())
      if (decision.kind() == "precision") absl::StrAppend(&text, "  precision: ", decision.reason(), "\n");
  };
  add(plan.report());
  for (const v1::Plan& variant : plan.variants()) add(variant.report());
  return text;
}

std::string verificationJson(const v1::Plan& plan) {
  std::vector<std::string> steps;
  for (const v1::VerifiedStep* step : stepsOf(plan)) steps.push_back(toJson(*step));
  return absl::StrCat("[", absl::StrJoin(steps, ","), "]");
}

}  // namespace tessera::client
