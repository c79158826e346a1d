#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/compile.h"
#include "proto/support/cli11.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::client {

/// The flags of a TUNE job that are more than what is compiled.
struct TuneFlags {
  std::string budget = "5m";
  std::string method;
  std::string mode = "async";
  int trials = 0, threads = 1, top = 0, choices = -1;
  uint64_t seed = 1;
  bool cold = false, no_records = false;
  std::vector<std::string> workloads;

  void addTo(CLI::App* command);
  absl::Status fill(v1::TuneSpec& spec) const;
  v1::TuneMode chosenMode() const;
};

/// Makes the request a TUNE job of the same model.
void tuneInstead(UploadedCompile& uploaded, v1::TuneSpec spec);

/// A row for each workload, and what came of the model.
std::string tuneText(const v1::Job& job);

/// The pins text of a tuned job: the service's own; of a cancelled one the best trees until then.
absl::StatusOr<std::string> tunedPins(Channel& channel, const v1::Job& job);

}  // namespace tessera::client
