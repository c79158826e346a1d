#include "compiler/import/model_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"

namespace tessera::compiler {

absl::Status dependsOnProblem() { return absl::CancelledError("it depends on a problem reported before"); }

bool isDependence(const absl::Status& status) { return absl::IsCancelled(status); }

void ModelCheck::add(const absl::Status& status) {
  if (status.ok() || isDependence(status)) return;
  v1::Failure failure = failureOf(status);
  // One missing external file affects many tensors, and a loop's body may be lowered many times.
  const std::string identity = failure.reason() == v1::Failure::MISSING_BLOB
                                   ? absl::StrCat("missing ", failure.found())
                                   : absl::StrCat(failure.node(), "\n", failure.message());
  if (!seen_.insert(identity).second) return;
  if (failure.reason() != v1::Failure::UNBOUND_DIMENSION) ++real_;
  if (problems_.size() >= static_cast<size_t>(limits::kReportedProblems)) {
    ++left_out_;
    return;
  }
  problems_.push_back({position_, std::move(failure)});
}

int64_t ModelCheck::assume(const std::string& input, const std::string& dimension, int position,
                           const absl::Status& unbound) {
  add(unbound);
  v1::DimensionBinding& binding = assumed_.emplace_back();
  binding.set_name(dimension.empty() ? absl::StrCat(printable(input), "[", position, "]") : printable(dimension));
  binding.set_size(position == 0 ? 1 : stand_in_);
  return binding.size();
}

void ModelCheck::write(v1::CheckReport& report) const {
  std::vector<std::pair<int, size_t>> order;  // by position, then in the order found
  for (const Problem& problem : problems_) order.emplace_back(problem.position, order.size());
  std::sort(order.begin(), order.end());
  for (const auto& [position, index] : order) *report.add_problems() = problems_[index].failure;
  for (const v1::DimensionBinding& binding : assumed_) {
    report.add_unbound_dimensions(binding.name());
    *report.add_assumed() = binding;
  }
  report.set_unchecked_nodes(unchecked_);
  report.set_problems_left_out(left_out_);
}

}  // namespace tessera::compiler
