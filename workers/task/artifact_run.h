#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/runtime/tessera.h"
#include "tessera/v1/job.pb.h"
#include "workers/task/task_context.h"

namespace tessera::worker {

/// A loaded artifact with its session, inputs and outputs. All memory and files are allocated and open, so that the
/// task can enter the execute profile (sandbox/sandbox.h) before the first generated instruction runs.
class ArtifactRun {
 public:
  /// How missing inputs are filled. If filling is not allowed, all inputs must be given. Without a seed they stay
  /// uninitialized, for refill() or copyInputsFrom().
  struct Fill {
    bool allowed = false;
    std::optional<uint64_t> seed = std::nullopt;
  };

  /// Loads input `artifact_id` of the task, chooses the variant that fits the inputs' shapes, and checks and copies
  /// `inputs`. An input with a shape but without a value is filled if allowed. Inputs that were fixed at compile time
  /// may be omitted. INVALID_INPUT names the tensor with the found and the accepted value, or lists the variants if
  /// not exactly one fits. Also INCOMPATIBLE_HOST and OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<ArtifactRun>> prepare(
      const TaskContext& task, const std::string& artifact_id,
      const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, int threads, const Fill& fill);

  /// Likewise for an artifact file at `path`; `name` is for error messages.
  static absl::StatusOr<std::unique_ptr<ArtifactRun>> prepareFile(
      const TaskContext& task, const std::string& path, const std::string& name,
      const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, int threads, const Fill& fill);

  /// Changes the value of each input that is not fixed: floating-point elements from [-1, 1), or from [0, 1) if
  /// `positive`; others 0 or 1, which are valid positions, lengths and truth values.
  void refill(uint64_t seed, bool positive);
  /// Copies the inputs of `other`; INVALID_INPUT if their sizes differ.
  absl::Status copyInputsFrom(const ArtifactRun& other);

  /// Executes one run and returns its wall time in milliseconds. `step_ns`, unless null, receives one time per step. If
  /// inputs were filled with random values, TESSERA_RUN_FAULT (the run took a branch of an If that does not work for
  /// these sizes) is no error: every run computes all branches, so its time is valid.
  absl::StatusOr<double> run(std::vector<int64_t>* step_ns = nullptr);

  /// Before the first run, extents that depend on the data have their upper bounds; then those of the latest run.
  const std::vector<v1::TensorSpec>& outputs() const { return output_specs_; }
  std::string_view outputBytes(size_t index) const;
  size_t variant() const { return variant_; }
  size_t steps() const;
  tessera_step_info step(size_t index) const;

 private:
  struct Free {
    void operator()(void* bytes) const { std::free(bytes); }
    void operator()(tessera_artifact* artifact) const { tessera_artifact_destroy(artifact); }
    void operator()(tessera_session* session) const { tessera_session_destroy(session); }
  };
  using Bytes = std::unique_ptr<void, Free>;

  absl::Status chooseVariant(const google::protobuf::RepeatedPtrField<v1::TensorValue>& given);
  /// Resolves the ranged dimensions of an input to the extents of `given`: sets them in `accepted`, its description,
  /// and adds the sizes by the names of the ranges to `sizes`.
  void resolveRanges(const v1::TensorSpec& given, size_t index, v1::TensorSpec& accepted,
                     std::map<std::string, int64_t>& sizes) const;
  /// Adds the ranges that `sizes` lacks, by name: from inputs that pass a size, computed from other ranges, or the
  /// maximum. A size passed by an input replaces a size in `sizes` that is the variant's maximum.
  absl::Status completeRanges(const TaskContext& task, const google::protobuf::RepeatedPtrField<v1::TensorValue>& given,
                              std::map<std::string, int64_t>& sizes) const;
  absl::Status bindInputs(const TaskContext& task, const google::protobuf::RepeatedPtrField<v1::TensorValue>& given,
                          const Fill& fill);
  absl::Status allocateOutputs();
  absl::StatusOr<void*> allocate(int64_t bytes);

  std::unique_ptr<tessera_artifact, Free> artifact_;
  std::unique_ptr<tessera_session, Free> session_;
  size_t variant_ = 0;
  std::vector<Bytes> memory_;
  std::vector<tessera_const_buffer> inputs_;
  struct Fillable {
    size_t input;
    v1::DataType dtype;
    void* bytes;
  };
  std::vector<Fillable> fillable_;
  std::vector<tessera_buffer> outputs_;
  std::vector<v1::TensorSpec> output_specs_;
};

}  // namespace tessera::worker
