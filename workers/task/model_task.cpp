#include "workers/task/model_task.h"

#include <fstream>
#include <iterator>

#include "compiler/schedule/pins.h"
#include "proto/failure.h"

namespace tessera::worker {

absl::StatusOr<compiler::PlanRequest> planRequestFor(const TaskContext& task, const v1::CompileSpec& spec,
                                                     const v1::Target& target) {
  compiler::PlanRequest request;
  auto model = task.input(spec.model().sha256());
  if (!model.ok()) return model.status();
  request.model_path = *model;
  request.spec = spec;
  request.target = target;
  for (const auto& [location, digest] : spec.external_data()) {
    auto path = task.input(digest.sha256());
    if (!path.ok()) return path.status();
    request.external_data[location] = *path;
  }
  if (spec.has_pins()) {
    auto path = task.input(spec.pins().sha256());
    if (!path.ok()) return path.status();
    std::ifstream file(*path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file) return failureStatus(v1::Failure::WORKER_FAULT, "cannot read the file of pins");
    auto pins = compiler::parsePins(text);
    if (!pins.ok()) return pins.status();
    request.pins = *std::move(pins);
  }
  return request;
}

}  // namespace tessera::worker
