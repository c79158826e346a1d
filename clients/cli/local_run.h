#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cli/npy.h"
#include "clients/cli/shape_flags.h"
#include "clients/cli/trust_flags.h"
#include "compiler/runtime/tessera.h"

/// Artifact files that run in this process: loading, inputs from files, memory for one run.
namespace tessera::client {

using LocalArtifact = std::unique_ptr<tessera_artifact, decltype(&tessera_artifact_destroy)>;
using LocalSession = std::unique_ptr<tessera_session, decltype(&tessera_session_destroy)>;

/// A compiler fault; `sentence` names the kernel.
absl::Status generatedCodeCrashed(const std::string& sentence);

/// Converts the runtime's latest error in this thread.
absl::Status runtimeError(tessera_status status);

/// Opens an artifact file, checks its signature unless `trust` says otherwise, and passes the descriptor to `use`.
/// Errors of opening name the file.
absl::Status withTrustedFile(const std::string& path, const TrustFlags& trust,
                             const std::function<absl::Status(int)>& use);

/// Loads an artifact file. NOT_FOUND if it does not exist. INVALID_INPUT, before any of it is loaded, if it has no
/// trusted signature and `trust` does not allow that. `verify_weights` also checks the weights' checksum.
absl::StatusOr<LocalArtifact> loadArtifact(const std::string& path, const TrustFlags& trust, bool verify_weights);

/// An artifact of a service as an open file in memory.
class FetchedFile {
 public:
  static absl::StatusOr<FetchedFile> fetch(Channel& channel, const v1::ArtifactVersion& version);
  ~FetchedFile();
  FetchedFile(FetchedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FetchedFile& operator=(FetchedFile&&) = delete;

  int fd() const { return fd_; }

 private:
  explicit FetchedFile(int fd) : fd_(fd) {}
  int fd_;
};

/// The same as loadArtifact() for an artifact of a service.
absl::StatusOr<LocalArtifact> loadFetched(const FetchedFile& file, Channel& channel, const v1::ArtifactVersion& version,
                                          const TrustFlags& trust, bool verify_weights);
absl::StatusOr<LocalArtifact> fetchArtifact(Channel& channel, const v1::ArtifactVersion& version,
                                            const TrustFlags& trust, bool verify_weights);

absl::StatusOr<LocalSession> createSession(const tessera_artifact* artifact, int threads, size_t variant);

/// Sources of a run's inputs.
struct RunInputs {
  std::vector<std::string> files;  ///< --input
  ShapeFlags shapes;               ///< --dim and --shape: select the variant if the files do not
  bool random = false;             ///< missing inputs are generated from `seed`
  uint64_t seed = 0;
};

/// Finds the variant for shapes of inputs and sizes of dimensions; returns the error, empty if there is one variant.
using FindVariant = std::function<std::string(std::span<const tessera_shape> inputs,
                                              std::span<const tessera_dimension> dimensions, size_t& variant)>;

/// Selects the variant by the given inputs, --dim and --shape. `names` are those of the artifact's inputs, in its
/// order. checkInputs() rejects unknown inputs. INVALID_INPUT with the error of `find`.
absl::StatusOr<size_t> selectVariant(const RunInputs& from, const std::map<std::string, Tensor>& given,
                                     const std::vector<std::string>& names, size_t variants, const FindVariant& find);

/// Use of one range of a variant that was compiled for ranges of sizes.
struct RangeUse {
  std::string dimension;
  int32_t position = 0;  ///< index among the variant's dimensions
  int64_t size = 0;      ///< the run's size
  int64_t room = 0;      ///< the variant's capacity
};

using LocalState = std::unique_ptr<tessera_state, decltype(&tessera_state_destroy)>;

/// The initial values of an artifact's state, or those of a file. INVALID_INPUT if the artifact has no state.
absl::StatusOr<LocalState> createState(const tessera_artifact* artifact, const std::string& file);

/// The tensors of one run, in the artifact's order. Outputs are aligned to 64 bytes. Those of the state are null.
struct RunBuffers {
  tessera_state* state = nullptr;  ///< set before prepare() for runs with a state
  size_t variant = 0;
  std::vector<RangeUse> ranges;
  std::vector<v1::TensorSpec> input_specs, output_specs;
  std::map<std::string, Tensor> inputs;
  std::vector<std::unique_ptr<char, decltype(&free)>> memory;
  std::vector<tessera_const_buffer> in;
  std::vector<tessera_buffer> out;
  std::vector<int64_t> out_bytes;  ///< sizes after the latest run

  /// Reads and checks the inputs, selects the variant, allocates the outputs. Inputs have the shapes of the run; inputs
  /// that hold the size of a range are filled in.
  absl::Status prepare(const tessera_artifact* artifact, const RunInputs& from);

  /// Updates shapes and sizes of the outputs from the extents of the session's latest run.
  void takeExtents(tessera_session* session);

 private:
  /// Derives the run's size of each range from --dim and the given inputs, and fills the inputs that hold these sizes.
  absl::Status useRanges(const tessera_artifact* artifact, const RunInputs& from);
  /// Shapes of the state's inputs, as far as they are known.
  void readStateShapes(const tessera_artifact* artifact);
  RangeUse* rangeOf(const tessera_artifact* artifact, size_t input, int32_t dimension);
  char* allocate(size_t bytes);

  std::map<std::string, std::vector<int64_t>> state_inputs_;  // -1: unknown
  std::vector<bool> state_outputs_;                           // per output
};

}  // namespace tessera::client
