#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/plan.pb.h"

/// New weights for an artifact: the model is planned again by the decisions that the artifact records, and its code is
/// kept.
namespace tessera::client {

struct Reweighting {
  std::string artifact;                              ///< file whose code is kept
  v1::Manifest manifest;                             ///< of that file
  v1::Plan plan;                                     ///< of that file
  std::string model;                                 ///< ONNX file with the new weights
  std::map<std::string, std::string> external_data;  ///< location in the model -> local file
  v1::CompileSpec spec;                              ///< without files (recordedSpec)
  std::string pins;                                  ///< file with the text of the recorded decisions
  std::string output;
  int64_t timeout_us = 0;
};

struct Reweighted {
  v1::Manifest manifest;
  double plan_ms = 0;   ///< import, folding and packing of the weights
  double write_ms = 0;  ///< of the new file
};

/// Plans in a sandboxed process of this machine and writes the new artifact, which has no signature. INVALID_INPUT
/// names what makes the new weights impossible. Call it before any thread starts.
absl::StatusOr<Reweighted> reweightHere(const CommandLine& line, const Reweighting& work);

/// Compiles on the service by the recorded decisions, with the objects that the service has, and fetches the artifact
/// with its signature. The same errors. `reused` receives the number of kernels that were not built.
absl::StatusOr<Reweighted> reweightOnService(const CommandLine& line, const Reweighting& work, int& reused);

}  // namespace tessera::client
