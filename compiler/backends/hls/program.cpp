#include "compiler/backends/hls/program.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/backends/hls/tree.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::hls {
namespace {

/// Work of a nest: points times operations.
double workOf(const Form& form) {
  return form.points() * static_cast<double>(std::max<size_t>(1, form.nest->body.size()));
}

bool isArithmetic(const simulator::SpatialOperation& operation) {
  return operation.name != "constant" && operation.name != "index" && operation.name != "load" &&
         !operation.name.starts_with("ext") && !operation.name.starts_with("index_cast");
}

}  // namespace

double Program::floatingOperations() const {
  double all = 0;
  for (const Form& form : forms)
    all += form.points() * static_cast<double>(std::ranges::count_if(form.nest->body, isArithmetic));
  return all;
}

absl::StatusOr<Program> designKernel(const v1::SpatialKernel& kernel, const std::string& name, const Device& device) {
  Program program{.name = name, .kernel = kernel};
  TESSERA_ASSIGN_OR_RETURN(program.checked, simulator::checkKernel(kernel));
  program.forms = formsOf(program.checked);
  const double work = std::accumulate(program.forms.begin(), program.forms.end(), 0.0,
                                      [](double sum, const Form& form) { return sum + workOf(form); });
  // A small nest keeps enough for its ports and processes.
  const double least = 0.25 / static_cast<double>(std::max<size_t>(1, program.forms.size()));
  double shares = 0;
  for (const Form& form : program.forms) shares += std::max(least, workOf(form) / work);
  for (const Form& form : program.forms) {
    const double share = std::max(least, workOf(form) / work) / shares;
    TESSERA_ASSIGN_OR_RETURN(Design design, searchDesign(form, device, device.limits().scaled(share), &program.count));
    program.resources += design.resources;
    program.cycles += design.cycles;
    program.designs.push_back(std::move(design));
  }
  if (const std::string resource = program.resources.exceeding(device.limits()); !resource.empty())
    return absl::FailedPreconditionError(absl::StrCat(name, " needs more ", resource, " than ", device.name(), " has: ",
                                                      print(program.resources), " of ", print(device.limits())));
  return program;
}

v1::Schedule scheduleOf(const Program& program, const Device& device) {
  v1::Schedule schedule;
  for (size_t d = 0; d < program.designs.size(); ++d)
    *schedule.add_phases() = treeOf(program.designs[d], device, static_cast<int>(d));
  return schedule;
}

}  // namespace tessera::compiler::hls
