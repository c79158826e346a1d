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

/// An artifact with everything a run needs, all of it allocated and open: so that the execute profile can
/// be entered before the first generated instruction.
class ArtifactRun {
 public:
  /// Of inputs that are not given; where it is not allowed every input must be. Without a seed they are left as they
  /// come, for refill() or takeInputs().
  struct Fill {
    bool allowed = false;
    std::optional<uint64_t> seed = std::nullopt;
  };

  /// Loads input `artifact_id` of the task, chooses the variant with the inputs' shapes, checks `inputs` against its
  /// description and copies them. An input that has a shape but no value is filled, where that is allowed.
  /// An input that was fixed at compilation may be left out.
  /// INVALID_INPUT names the tensor, what was found and what is accepted, or lists the variants when none or several
  /// fit; INCOMPATIBLE_HOST, OUT_OF_MEMORY.
  static absl::StatusOr<std::unique_ptr<ArtifactRun>> prepare(
      const TaskContext& task, const std::string& artifact_id,
      const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, int threads, const Fill& fill);

  /// The same of an artifact that lies at `path`; `name` is for errors.
  static absl::StatusOr<std::unique_ptr<ArtifactRun>> prepareFile(
      const TaskContext& task, const std::string& path, const std::string& name,
      const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, int threads, const Fill& fill);

  /// Gives every input that is not fixed another value: floating-point elements from [-1, 1), or from [0, 1) where
  /// `positive`; all others 0 or 1, which are positions, lengths and truth values wherever a kernel reads such.
  void refill(uint64_t seed, bool positive);
  /// Gives them the values that `other` has; INVALID_INPUT where its inputs are of other sizes.
  absl::Status takeInputs(const ArtifactRun& other);

  /// One run; returns its wall time in milliseconds. `step_ns`, unless null, gets one entry per step.
  absl::StatusOr<double> run(std::vector<int64_t>* step_ns = nullptr);

  /// Before the first run with the upper bounds of extents that depend on the data, then with those of the latest.
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
  /// Of an input with ranges as large as `given`: makes `accepted`, its description, so large, and notes the sizes by
  /// the names of the ranges.
  void takeSizes(const v1::TensorSpec& given, size_t index, v1::TensorSpec& accepted,
                 std::map<std::string, int64_t>& sizes) const;
  /// Adds the sizes of ranges that `sizes` lacks, by the names of the ranges: as the inputs say that tell them, by what
  /// they follow from, or the greatest. A size of `sizes` that is all of the variant counts only where no such input
  /// is.
  absl::Status completeSizes(const TaskContext& task, const google::protobuf::RepeatedPtrField<v1::TensorValue>& given,
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
