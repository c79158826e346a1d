#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/npy.h"
#include "clients/cli/shape_flags.h"
#include "clients/cli/trust_flags.h"
#include "compiler/runtime/tessera.h"

/// Artifact files run in this process: loading, inputs from files, memory for one run.
namespace tessera::client {

using LocalArtifact = std::unique_ptr<tessera_artifact, decltype(&tessera_artifact_destroy)>;
using LocalSession = std::unique_ptr<tessera_session, decltype(&tessera_session_destroy)>;

/// A fault of the compiler, told by one sentence that names the kernel.
absl::Status generatedCodeCrashed(const std::string& sentence);

/// The runtime's latest error in this thread.
absl::Status runtimeError(tessera_status status);

/// NOT_FOUND without such a file; INVALID_INPUT before a byte of it is loaded when nobody trusted has signed it and
/// `trust` does not say that this is all right. `verify_weights` checks their checksum too.
absl::StatusOr<LocalArtifact> loadArtifact(const std::string& path, const TrustFlags& trust, bool verify_weights);

/// The same for what a service has.
absl::StatusOr<LocalArtifact> fetchArtifact(Channel& channel, const v1::ArtifactVersion& version,
                                            const TrustFlags& trust, bool verify_weights);

absl::StatusOr<LocalSession> createSession(const tessera_artifact* artifact, int threads, size_t variant);

/// Where a run's inputs come from.
struct RunInputs {
  std::vector<std::string> files;  ///< --input
  ShapeFlags shapes;               ///< --dim and --shape: the variant, where the files do not say
  bool random = false;             ///< what the files lack is made of `seed`
  uint64_t seed = 0;
};

/// Of a variant that was compiled for ranges of sizes: how much of one a run has.
struct RangeUse {
  std::string dimension;
  int32_t position = 0;  ///< among the variant's dimensions
  int64_t size = 0;      ///< of the run
  int64_t room = 0;      ///< of the variant
};

/// The tensors of one run in the artifact's order. Outputs lie at multiples of 64.
struct RunBuffers {
  size_t variant = 0;
  std::vector<RangeUse> ranges;
  std::vector<v1::TensorSpec> input_specs, output_specs;
  std::map<std::string, Tensor> inputs;
  std::vector<std::unique_ptr<char, decltype(&free)>> memory;
  std::vector<tessera_const_buffer> in;
  std::vector<tessera_buffer> out;
  std::vector<int64_t> out_bytes;  ///< of the latest run's extents

  /// Reads and checks the inputs, chooses the variant they ask for, makes room for the outputs. Inputs
  /// have the shapes of the run; those that say how much of a range counts follow from them.
  absl::Status prepare(const tessera_artifact* artifact, const RunInputs& from);

  /// Shapes and bytes of the outputs for the extents that the session's latest run found.
  void takeExtents(tessera_session* session);

 private:
  /// Reads from the variant, --dim and the given inputs how much of its ranges the run has, and gives the inputs that
  /// say so their values.
  absl::Status useRanges(const tessera_artifact* artifact, const RunInputs& from);
  RangeUse* rangeOf(const tessera_artifact* artifact, size_t input, int32_t dimension);
  char* allocate(size_t bytes);
};

}  // namespace tessera::client
