#include "workers/task/artifact_run.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "proto/messages/element_size.h"
#include "proto/messages/failure.h"
#include "proto/messages/tensor_text.h"
#include "proto/support/io_failure.h"
#include "proto/support/status_macros.h"
#include "workers/task/seeded_tensor.h"
#include "workers/task/tensor_check.h"

namespace tessera::worker {
namespace {

using v1::Failure;

absl::Status runtimeFailure(tessera_status status, const std::string& what) {
  static const std::map<tessera_status, Failure::Reason> kReasons = {
      {TESSERA_INVALID_ARGUMENT, Failure::INVALID_INPUT}, {TESSERA_INCOMPATIBLE, Failure::INCOMPATIBLE_HOST},
      {TESSERA_OUT_OF_MEMORY, Failure::OUT_OF_MEMORY},    {TESSERA_CORRUPT, Failure::INVALID_INPUT},
      {TESSERA_RUN_FAULT, Failure::INVALID_INPUT},
  };
  const auto reason = kReasons.find(status);
  return failureStatus(reason == kReasons.end() ? Failure::INTERNAL : reason->second,
                       absl::StrCat(what, ": ", tessera_last_error()));
}

// Reads a whole input blob, which the worker has verified.
absl::Status readFile(const std::string& path, void* data, int64_t bytes) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ioFailure("cannot open " + path, errno);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got = pread(file.get(), static_cast<char*>(data) + done, static_cast<size_t>(bytes - done), done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ioFailure("cannot read " + path, errno);
    if (got == 0) return failureStatus(Failure::INTERNAL, absl::StrCat(path, " ends after ", done, " bytes"));
    done += got;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactRun>> ArtifactRun::prepare(
    const TaskContext& task, const std::string& artifact_id,
    const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, int threads, const Fill& fill) {
  TESSERA_ASSIGN_OR_RETURN(auto path, task.input(artifact_id));
  return prepareFile(task, path, artifact_id, inputs, threads, fill);
}

absl::StatusOr<std::unique_ptr<ArtifactRun>> ArtifactRun::prepareFile(
    const TaskContext& task, const std::string& path, const std::string& name,
    const google::protobuf::RepeatedPtrField<v1::TensorValue>& inputs, int threads, const Fill& fill) {
  auto run = std::make_unique<ArtifactRun>();
  tessera_report_faults(nullptr);  // the worker forwards the last output of the process
  tessera_artifact* artifact = nullptr;
  // Skip the weights' checksum: the worker verified the whole file.
  if (tessera_status status = tessera_artifact_load(path.c_str(), 0, &artifact); status != TESSERA_OK) {
    return runtimeFailure(status, absl::StrCat("artifact ", name));
  }
  run->artifact_.reset(artifact);
  TESSERA_RETURN_IF_ERROR(run->chooseVariant(inputs));
  TESSERA_RETURN_IF_ERROR(run->bindInputs(task, inputs, fill));
  TESSERA_RETURN_IF_ERROR(run->allocateOutputs());
  tessera_session* session = nullptr;
  if (tessera_status status = tessera_session_create(artifact, std::max(1, threads), &session); status != TESSERA_OK) {
    return runtimeFailure(status, absl::StrCat("a session of ", threads, " threads"));
  }
  run->session_.reset(session);
  if (tessera_status status = tessera_session_set_variant(session, run->variant_); status != TESSERA_OK) {
    return runtimeFailure(status, "the chosen variant");
  }
  return run;
}

absl::Status ArtifactRun::chooseVariant(const google::protobuf::RepeatedPtrField<v1::TensorValue>& given) {
  std::vector<v1::TensorSpec> accepted;
  std::vector<tessera_shape> shapes;
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact_.get()); ++i) {
    tessera_tensor_info info;
    if (tessera_status status = tessera_artifact_input(artifact_.get(), i, &info); status != TESSERA_OK) {
      return runtimeFailure(status, "input description");
    }
    accepted.push_back(specOf(info));
    const auto value = std::find_if(given.begin(), given.end(),
                                    [&](const v1::TensorValue& each) { return each.spec().name() == info.name; });
    shapes.push_back(value == given.end() ? tessera_shape{nullptr, -1}
                                          : tessera_shape{value->spec().shape().data(), value->spec().shape_size()});
  }
  TESSERA_RETURN_IF_ERROR(checkNames(given, accepted));
  // With a single variant, inputs are checked one by one, which gives better messages.
  if (tessera_artifact_num_variants(artifact_.get()) == 1) return absl::OkStatus();
  if (tessera_artifact_find_variant(artifact_.get(), shapes.data(), shapes.size(), nullptr, 0, &variant_) ==
      TESSERA_OK) {
    return absl::OkStatus();
  }
  v1::Failure failure;
  failure.set_reason(Failure::INVALID_INPUT);
  failure.set_message(tessera_last_error());
  failure.set_fix("give inputs of one of these shapes, or compile the model for more");
  return failureStatus(failure);
}

size_t ArtifactRun::steps() const {
  tessera_variant_info info = {};
  tessera_artifact_variant(artifact_.get(), variant_, &info);
  return info.num_steps;
}

void ArtifactRun::resolveRanges(const v1::TensorSpec& given, size_t index, v1::TensorSpec& accepted,
                                std::map<std::string, int64_t>& sizes) const {
  if (given.shape_size() != accepted.shape_size()) return;
  for (int d = 0; d < given.shape_size(); ++d) {
    const int32_t position = tessera_artifact_range_of(artifact_.get(), index, static_cast<size_t>(d));
    if (position < 0 || given.shape(d) < 0 || given.shape(d) > accepted.shape(d)) continue;
    tessera_dimension dimension = {};
    tessera_artifact_variant_dimension(artifact_.get(), variant_, static_cast<size_t>(position), &dimension);
    accepted.set_shape(d, given.shape(d));
    sizes[dimension.name] = given.shape(d);
  }
}

absl::Status ArtifactRun::completeRanges(const TaskContext& task,
                                         const google::protobuf::RepeatedPtrField<v1::TensorValue>& given,
                                         std::map<std::string, int64_t>& sizes) const {
  tessera_variant_info info = {};
  tessera_artifact_variant(artifact_.get(), variant_, &info);
  std::vector<tessera_dimension> dimensions(info.num_dimensions);
  std::vector<int64_t> all(info.num_dimensions, -1);
  // A size was passed explicitly; then inputs of the variant's full size do not determine a range.
  bool counted = false;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    tessera_artifact_variant_dimension(artifact_.get(), variant_, d, &dimensions[d]);
    if (dimensions[d].size >= 0) continue;
    const auto count = std::find_if(given.begin(), given.end(), [&](const v1::TensorValue& each) {
      return each.spec().name() == dimensions[d].name;
    });
    if (count == given.end()) continue;
    if (count->has_blob()) {
      TESSERA_ASSIGN_OR_RETURN(auto path, task.input(count->blob().sha256()));
      TESSERA_RETURN_IF_ERROR(readFile(path, &all[d], sizeof(all[d])));
    } else if (count->data().size() == sizeof(all[d])) {
      memcpy(&all[d], count->data().data(), sizeof(all[d]));
    }
    counted |= all[d] >= 0;
  }
  for (size_t d = 0; d < dimensions.size(); ++d) {
    // A size that an input value passes takes precedence over the shapes of the inputs.
    const auto own = sizes.find(dimensions[d].name);
    if (own != sizes.end() && all[d] < 0 && (!counted || own->second != -dimensions[d].size)) all[d] = own->second;
  }
  const tessera_status status = tessera_artifact_complete_sizes(artifact_.get(), variant_, all.data(), all.size());
  if (status != TESSERA_OK) return runtimeFailure(status, "sizes");
  for (size_t d = 0; d < dimensions.size(); ++d)
    if (dimensions[d].size < 0) sizes[dimensions[d].name] = all[d];
  return absl::OkStatus();
}

absl::Status ArtifactRun::bindInputs(const TaskContext& task,
                                     const google::protobuf::RepeatedPtrField<v1::TensorValue>& given,
                                     const Fill& fill) {
  std::vector<v1::TensorSpec> accepted;
  std::vector<int64_t> sizes;
  std::map<std::string, int64_t> ranges;  // size of each range in this run; filled inputs have the variant's full size
  for (size_t i = 0; i < tessera_artifact_num_inputs(artifact_.get()); ++i) {
    tessera_tensor_info info;
    if (tessera_status status = tessera_artifact_variant_input(artifact_.get(), variant_, i, &info);
        status != TESSERA_OK) {
      return runtimeFailure(status, "input description");
    }
    accepted.push_back(specOf(info));
    for (const v1::TensorValue& value : given) {
      if (value.spec().name() != info.name || value.value_case() == v1::TensorValue::VALUE_NOT_SET) continue;
      resolveRanges(value.spec(), i, accepted.back(), ranges);
    }
    sizes.push_back(static_cast<int64_t>(tessera_dtype_size(info.dtype)));
    for (const int64_t extent : accepted.back().shape()) sizes.back() *= extent;
  }
  TESSERA_RETURN_IF_ERROR(completeRanges(task, given, ranges));
  for (size_t i = 0; i < accepted.size(); ++i) {
    const v1::TensorSpec& spec = accepted[i];
    const auto value = std::find_if(given.begin(), given.end(),
                                    [&](const v1::TensorValue& each) { return each.spec().name() == spec.name(); });
    TESSERA_ASSIGN_OR_RETURN(auto bytes, allocate(sizes[i]));
    inputs_.push_back({bytes, static_cast<size_t>(sizes[i])});
    const bool has_value = value != given.end() && value->value_case() != v1::TensorValue::VALUE_NOT_SET;
    if (!has_value) {
      if (value != given.end()) {
        TESSERA_RETURN_IF_ERROR(checkType(*value, spec));
      }
      // Missing inputs: first the default of the artifact, then the size of a range, then a filled value.
      if (const void* known = tessera_artifact_default_input(artifact_.get(), i)) {
        memcpy(bytes, known, static_cast<size_t>(sizes[i]));
        continue;
      }
      if (const auto own = ranges.find(spec.name()); own != ranges.end()) {
        memcpy(bytes, &own->second, sizeof(own->second));
        continue;
      }
      if (!fill.allowed) {
        return tensorFailure(spec.name(), absl::StrCat("input '", spec.name(), "' is missing"), "no value",
                             tensorText(spec));
      }
      if (fill.seed) fillSeeded(spec.dtype(), *fill.seed + i, bytes, sizes[i]);
      fillable_.push_back({i, spec.dtype(), bytes});
      continue;
    }
    TESSERA_RETURN_IF_ERROR(checkTensor(*value, spec, sizes[i]));
    if (!value->has_blob()) {
      memcpy(bytes, value->data().data(), value->data().size());
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(auto path, task.input(value->blob().sha256()));
    TESSERA_RETURN_IF_ERROR(readFile(path, bytes, sizes[i]));
  }
  return absl::OkStatus();
}

absl::Status ArtifactRun::allocateOutputs() {
  for (size_t i = 0; i < tessera_artifact_num_outputs(artifact_.get()); ++i) {
    tessera_tensor_info info;
    if (tessera_status status = tessera_artifact_variant_output(artifact_.get(), variant_, i, &info);
        status != TESSERA_OK) {
      return runtimeFailure(status, "output description");
    }
    TESSERA_ASSIGN_OR_RETURN(auto bytes, allocate(info.size_bytes));
    outputs_.push_back({bytes, static_cast<size_t>(info.size_bytes)});
    output_specs_.push_back(specOf(info));
  }
  return absl::OkStatus();
}

absl::StatusOr<void*> ArtifactRun::allocate(int64_t bytes) {
  constexpr int64_t kAlignment = 64;  // alignment that kernels prefer
  void* memory = std::aligned_alloc(kAlignment, static_cast<size_t>((bytes + kAlignment) / kAlignment * kAlignment));
  if (memory == nullptr) {
    return failureStatus(Failure::OUT_OF_MEMORY, absl::StrCat("no memory for a tensor of ", bytes, " bytes"));
  }
  memory_.emplace_back(memory);
  return memory;
}

void ArtifactRun::refill(uint64_t seed, bool positive) {
  for (const auto& [input, dtype, data] : fillable_) {
    const auto bytes = static_cast<int64_t>(inputs_[input].size_bytes);
    fillSeeded(dtype, seed + input, data, bytes);
    auto* at = static_cast<unsigned char*>(data);
    const int64_t width = elementBytes(dtype);
    const bool floats = dtype == v1::DATA_TYPE_F64 || dtype == v1::DATA_TYPE_F32 || dtype == v1::DATA_TYPE_F16 ||
                        dtype == v1::DATA_TYPE_BF16;
    if (floats && !positive) continue;
    // 8-bit elements are quantized values; all of them are valid. Wider integers are counts or positions.
    if (dtype == v1::DATA_TYPE_I8 || dtype == v1::DATA_TYPE_U8) continue;
    for (int64_t byte = 0; byte < bytes; ++byte) {
      const int64_t place = byte % width;  // little-endian: the sign is the highest bit of the last byte
      if (floats) {
        if (place == width - 1) at[byte] &= 0x7f;
      } else {
        at[byte] = place == 0 ? at[byte] & 1 : 0;
      }
    }
  }
}

absl::Status ArtifactRun::copyInputsFrom(const ArtifactRun& other) {
  for (const auto& [input, dtype, data] : fillable_) {
    const size_t bytes = inputs_[input].size_bytes;
    if (input >= other.inputs_.size() || other.inputs_[input].size_bytes != bytes)
      return failureStatus(Failure::INVALID_INPUT,
                           absl::StrCat("input ", input, " of two artifacts to compare differs"));
    memcpy(data, other.inputs_[input].data, bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> ArtifactRun::run(std::vector<int64_t>* step_ns) {
  const auto started = std::chrono::steady_clock::now();
  const tessera_status status =
      step_ns == nullptr
          ? tessera_session_run(session_.get(), inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size())
          : tessera_session_profile(session_.get(), inputs_.data(), inputs_.size(), outputs_.data(), outputs_.size(),
                                    step_ns->data(), step_ns->size());
  const auto ended = std::chrono::steady_clock::now();
  // Values that were made up may lead to a branch that does not work. Every run computes all branches: this one took as
  // long as any, and its numbers can be compared.
  const bool of_made_up = status == TESSERA_RUN_FAULT && !fillable_.empty();
  if (status != TESSERA_OK && !of_made_up) return runtimeFailure(status, "run");
  for (size_t i = 0; i < output_specs_.size(); ++i) {
    tessera_session_output_shape(session_.get(), i, output_specs_[i].mutable_shape()->mutable_data());
  }
  return std::chrono::duration<double, std::milli>(ended - started).count();
}

std::string_view ArtifactRun::outputBytes(size_t index) const {
  size_t bytes = tessera_dtype_size(output_specs_[index].dtype());
  for (int64_t extent : output_specs_[index].shape()) bytes *= static_cast<size_t>(extent);
  return {static_cast<const char*>(outputs_[index].data), bytes};
}

tessera_step_info ArtifactRun::step(size_t index) const {
  tessera_step_info info = {};
  tessera_artifact_variant_step(artifact_.get(), variant_, index, &info);
  return info;
}

}  // namespace tessera::worker
