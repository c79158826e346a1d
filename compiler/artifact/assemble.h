#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/step_cache/step_cache.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

struct AssembleRequest {
  std::string name;
  v1::Plan plan;
  std::vector<v1::BuiltObject> objects;  ///< any order; one for each workload hash of the plan
  std::string weights_path;              ///< empty: none
  std::string weights_sha256;            ///< of that file, if known; empty: it is computed
  std::string artifact_path;             ///< written
  /// If set, the weights are not copied. The artifact is then the concatenation of `artifact_path`, `weights_path` and
  /// this file, which is written too.
  std::string after_weights_path = {};
  StepCache* steps = nullptr;  ///< cache of linked code; null: always link
};

/// Links the objects and writes the artifact file (layout: tessera/v1/artifact.proto).
absl::StatusOr<v1::Manifest> assemble(const AssembleRequest& request);

}  // namespace tessera::compiler
