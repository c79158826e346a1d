#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/plan.pb.h"

/// New weights for the code of an artifact, without building or linking a kernel. Needs no LLVM.
namespace tessera::compiler {

struct ReweightRequest {
  std::string base_path;      ///< the artifact whose code is reused; its old weights are not read
  std::string name;           ///< of the new artifact
  v1::Plan plan;              ///< of the model with the new weights, by the decisions of the base
  std::string weights_path;   ///< the new weights section; empty: none
  std::string artifact_path;  ///< written
};

/// Names what the code of `plan` does otherwise than that of `base`: inputs, kernels by step, constants in the text of
/// a kernel, rewrites, stored weights. At most 12 lines. Empty: both plans have the same code.
std::vector<std::string> codeDifferences(const v1::Plan& base, const v1::Plan& plan);

/// Writes the artifact that assemble() gives for the plan, byte for byte: the base's code with the new weights, plan
/// and manifest. Fails with INVALID_INPUT if the base is damaged, or if the codes differ (codeDifferences).
absl::StatusOr<v1::Manifest> reweight(const ReweightRequest& request);

}  // namespace tessera::compiler
