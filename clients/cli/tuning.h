#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cpp/compile.h"
#include "proto/support/cli11.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::client {

/// The flags that a TUNE job has in addition to the flags of a compilation.
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

/// Turns the request into a TUNE job of the same model.
void convertToTune(UploadedCompile& uploaded, v1::TuneSpec spec);

/// Formats the result: a row for each workload, and the model's total.
std::string tuneText(const v1::Job& job);

/// Returns the pins text of a tune job: the service's result, or for a cancelled job the best trees found so far.
absl::StatusOr<std::string> tunedPins(Channel& channel, const v1::Job& job);

}  // namespace tessera::client
