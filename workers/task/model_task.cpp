#include "workers/task/model_task.h"

#include <fstream>
#include <iterator>

#include "compiler/schedule/pins.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::worker {

absl::StatusOr<compiler::PlanRequest> planRequestFor(const TaskContext& task, const v1::CompileSpec& spec,
                                                     const v1::Target& target) {
  compiler::PlanRequest request;
  TESSERA_ASSIGN_OR_RETURN(auto model, task.input(spec.model().sha256()));
  request.model_path = model;
  request.spec = spec;
  request.target = target;
  for (const auto& [location, digest] : spec.external_data()) {
    TESSERA_ASSIGN_OR_RETURN(auto path, task.input(digest.sha256()));
    request.external_data[location] = path;
  }
  if (spec.has_pins()) {
    TESSERA_ASSIGN_OR_RETURN(auto path, task.input(spec.pins().sha256()));
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file) return failureStatus(v1::Failure::WORKER_FAULT, "cannot read the file of pins");
    TESSERA_ASSIGN_OR_RETURN(request.pins, compiler::parsePins(text));
  }
  return request;
}

}  // namespace tessera::worker
