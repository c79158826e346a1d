// tessera train: runs a training step many times in this process.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/local_run.h"
#include "clients/cli/output.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cli/trained_model.h"
#include "clients/cli/training_data.h"
#include "proto/messages/failure.h"

namespace tessera::client {
namespace {

constexpr char kLearningRate[] = "learning_rate", kSteps[] = "steps", kLoss[] = "loss";

struct TrainFlags {
  std::string artifact;
  TrustFlags trust;
  std::vector<std::string> data;
  int64_t steps = 0, every = 0;
  double learning_rate = 0;
  std::string state_in, state_out, model, model_out;
  uint64_t seed = 0;
  bool in_order = false;
  int threads = 1;
};

using Memory = std::unique_ptr<char, decltype(&free)>;

/// A step of training as an artifact, with the memory of its inputs and outputs.
class TrainingRun {
 public:
  static absl::StatusOr<TrainingRun> create(const tessera_artifact* artifact, const TrainFlags& flags) {
    TrainingRun run;
    TESSERA_ASSIGN_OR_RETURN(run.state_, createState(artifact, flags.state_in));
    std::vector<bool> kept_inputs(tessera_artifact_num_inputs(artifact), false);
    std::vector<bool> kept_outputs(tessera_artifact_num_outputs(artifact), false);
    for (size_t s = 0; s < tessera_artifact_num_states(artifact); ++s) {
      tessera_state_info info;
      tessera_artifact_state(artifact, s, &info);
      kept_inputs[info.input] = kept_outputs[info.output] = true;
      // The values that a parameter begins with are the input's default. Moments and the number of steps have none.
      if (tessera_artifact_default_input(artifact, info.input) != nullptr) run.parameters_.push_back({s, info.input});
      if (std::string_view(info.name) == kSteps) run.steps_state_ = static_cast<int>(s);
    }
    tessera_tensor_info info;
    for (size_t i = 0; i < kept_inputs.size(); ++i) {
      tessera_artifact_input(artifact, i, &info);
      const bool left_out = kept_inputs[i] || tessera_artifact_default_input(artifact, i) != nullptr;
      TESSERA_ASSIGN_OR_RETURN(char* memory, run.allocate(left_out ? 0 : info.size_bytes));
      run.inputs_.push_back({memory, memory != nullptr ? static_cast<size_t>(info.size_bytes) : 0});
      if (left_out) continue;
      if (std::string_view(info.name) == kLearningRate) {
        run.learning_rate_ = memory;
        continue;
      }
      run.data_memory_.push_back(memory);
      v1::TensorSpec& spec = run.data_specs_.emplace_back();
      spec.set_name(info.name);
      spec.set_dtype(static_cast<v1::DataType>(info.dtype));
      for (int32_t d = 0; d < info.rank; ++d) spec.add_shape(info.shape[d]);
    }
    for (size_t i = 0; i < kept_outputs.size(); ++i) {
      tessera_artifact_output(artifact, i, &info);
      TESSERA_ASSIGN_OR_RETURN(char* memory, run.allocate(kept_outputs[i] ? 0 : info.size_bytes));
      run.outputs_.push_back({memory, memory != nullptr ? static_cast<size_t>(info.size_bytes) : 0});
      if (std::string_view(info.name) == kLoss && info.dtype == TESSERA_F32) run.loss_ = memory;
    }
    if (run.learning_rate_ == nullptr || run.loss_ == nullptr || run.steps_state_ < 0) return notATrainingStep();
    TESSERA_ASSIGN_OR_RETURN(run.session_, createSession(artifact, flags.threads, 0));
    return run;
  }

  const std::vector<v1::TensorSpec>& dataInputs() const { return data_specs_; }

  /// The number of steps that the state has made.
  absl::StatusOr<int64_t> stepsDone() const {
    int64_t steps = 0;
    const tessera_status code =
        tessera_state_get(state_.get(), static_cast<size_t>(steps_state_), &steps, sizeof(steps));
    if (code != TESSERA_OK) return runtimeError(code);
    return steps;
  }

  absl::StatusOr<float> step(TrainingData& data, int64_t step, double learning_rate) {
    for (size_t i = 0; i < data_memory_.size(); ++i) data.copyBatch(step, i, data_memory_[i]);
    const auto rate = static_cast<float>(learning_rate);
    std::memcpy(learning_rate_, &rate, sizeof(rate));
    const tessera_status code = tessera_session_run_state(session_.get(), state_.get(), inputs_.data(), inputs_.size(),
                                                          outputs_.data(), outputs_.size());
    if (code != TESSERA_OK) return runtimeError(code);
    float loss = 0;
    std::memcpy(&loss, loss_, sizeof(loss));
    return loss;
  }

  absl::Status save(const std::string& path) const {
    const tessera_status code = tessera_state_save(state_.get(), path.c_str());
    return code == TESSERA_OK ? absl::OkStatus() : runtimeError(code);
  }

  /// The parameters' values.
  absl::StatusOr<std::vector<TrainedValue>> values(const tessera_artifact* artifact) const {
    std::vector<TrainedValue> values;
    for (const Parameter& parameter : parameters_) {
      tessera_tensor_info info;
      tessera_artifact_input(artifact, parameter.input, &info);
      TrainedValue& value = values.emplace_back();
      value.name = info.name;
      value.dtype = static_cast<v1::DataType>(info.dtype);
      value.shape.assign(info.shape, info.shape + info.rank);
      value.bytes.resize(static_cast<size_t>(info.size_bytes));
      const tessera_status code =
          tessera_state_get(state_.get(), parameter.state, value.bytes.data(), value.bytes.size());
      if (code != TESSERA_OK) return runtimeError(code);
    }
    return values;
  }

 private:
  struct Parameter {
    size_t state, input;
  };

  static absl::Status notATrainingStep() {
    v1::Failure failure;
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_message("the artifact is no training step");
    failure.set_found("an artifact without the loss, the learning rate or the state of one");
    failure.set_accepted("an artifact of `tessera compile --train`");
    failure.set_fix("compile the model with --train --loss cross-entropy");
    return failureStatus(failure);
  }

  /// Null for 0 bytes.
  absl::StatusOr<char*> allocate(int64_t bytes) {
    if (bytes == 0) return static_cast<char*>(nullptr);
    const auto size = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    char* memory = memory_.emplace_back(static_cast<char*>(aligned_alloc(64, size)), &free).get();
    if (memory == nullptr) return absl::ResourceExhaustedError("not enough memory for a batch");
    return memory;
  }

  LocalState state_{nullptr, &tessera_state_destroy};
  LocalSession session_{nullptr, &tessera_session_destroy};
  std::vector<Memory> memory_;
  std::vector<tessera_const_buffer> inputs_;
  std::vector<tessera_buffer> outputs_;
  std::vector<char*> data_memory_;  // of the inputs that data_specs_ describes
  std::vector<v1::TensorSpec> data_specs_;
  std::vector<Parameter> parameters_;
  char *learning_rate_ = nullptr, *loss_ = nullptr;
  int steps_state_ = -1;
};

absl::Status train(const CommandLine& line, const TrainFlags& flags) {
  TESSERA_ASSIGN_OR_RETURN(const LocalArtifact artifact, loadArtifact(flags.artifact, flags.trust, false));
  if (tessera_artifact_num_variants(artifact.get()) > 1)
    return absl::InvalidArgumentError("the artifact has several variants; accepted is one batch size: --dim batch=32");
  TESSERA_ASSIGN_OR_RETURN(TrainingRun run, TrainingRun::create(artifact.get(), flags));
  TESSERA_ASSIGN_OR_RETURN(auto arrays, readInputs(flags.data, "--data"));
  TESSERA_ASSIGN_OR_RETURN(TrainingData data,
                           TrainingData::create(std::move(arrays), run.dataInputs(), flags.seed, !flags.in_order));
  TESSERA_ASSIGN_OR_RETURN(const int64_t first, run.stepsDone());
  const int64_t every = flags.every > 0 ? flags.every : std::max<int64_t>(1, flags.steps / 20);
  std::vector<float> losses;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t step = first; step < first + flags.steps; ++step) {
    TESSERA_ASSIGN_OR_RETURN(const float loss, run.step(data, step, flags.learning_rate));
    losses.push_back(loss);
    const bool told = (step + 1) % every == 0 || step + 1 == first + flags.steps;
    if (told && !line.json) std::cout << absl::StrFormat("step %d  loss %.6g\n", step + 1, loss) << std::flush;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (!flags.state_out.empty()) TESSERA_RETURN_IF_ERROR(run.save(flags.state_out));
  if (!flags.model_out.empty()) {
    TESSERA_ASSIGN_OR_RETURN(const auto values, run.values(artifact.get()));
    TESSERA_RETURN_IF_ERROR(writeTrainedModel(flags.model, values, flags.model_out));
  }
  const double each = took.count() / static_cast<double>(flags.steps);
  if (line.json) {
    std::cout << absl::StrFormat(R"({"first_step":%d,"steps":%d,"losses":[%s],"step_ms":%.6f})", first + 1, flags.steps,
                                 absl::StrJoin(losses, ",",
                                               [](std::string* out, float loss) {
                                                 // JSON has no infinities.
                                                 *out += std::isfinite(loss) ? absl::StrFormat("%.9g", loss) : "null";
                                               }),
                                 each)
              << "\n";
  } else {
    std::cout << absl::StrFormat("%d steps of %d rows, %.3f ms each\n", flags.steps, data.batch(), each);
  }
  return absl::OkStatus();
}

}  // namespace

void addTrainCommand(CommandLine& line) {
  CLI::App* command = line.add("train", "Train a model: run its training step on data");
  auto flags = std::make_shared<TrainFlags>();
  command->add_option("ARTIFACT", flags->artifact, "a training step: `tessera compile --train`")->required();
  command
      ->add_option("--data", flags->data,
                   "FILE.npz with an array for each input, or NAME=FILE.npy; may be repeated. The arrays have the "
                   "inputs' shapes, with more rows")
      ->required();
  command->add_option("--steps", flags->steps, "number of steps, one batch each")
      ->required()
      ->check(CLI::PositiveNumber);
  command->add_option("--learning-rate", flags->learning_rate, "of all steps")->required()->check(nonNegative());
  command->add_option("--state-in", flags->state_in,
                      "parameters and moments to begin with (safetensors); default: the model's");
  command->add_option("--state-out", flags->state_out,
                      "file for parameters and moments after the last step (safetensors)");
  CLI::Option* model = command->add_option("--model", flags->model, "the ONNX model that the step was compiled from");
  command->add_option("--model-out", flags->model_out, "ONNX file for --model with the trained values, for inference")
      ->needs(model);
  command->add_option("--seed", flags->seed, "of the order of the rows, which differs in each epoch")
      ->capture_default_str();
  command->add_flag("--in-order", flags->in_order, "read the rows in their order");
  command->add_option("--every", flags->every, "print the loss of every N-th step (default: about 20 of them)")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", flags->threads, "threads of a step")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  flags->trust.addTo(command);
  command->footer(
      "Prints the losses. A training that is resumed from --state-out has the same bits as one that was not "
      "interrupted.\n"
      "The page Training describes losses, optimizers and inputs. No server is needed.");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      const absl::Status status = train(line, *flags);
      return status.ok() ? kExitOk : reportError(status, line.json);
    };
  });
}

}  // namespace tessera::client
