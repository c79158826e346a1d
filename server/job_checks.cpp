// Validation of job requests, as far as possible without the model, the artifact and the store.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/messages/element_size.h"
#include "proto/messages/search_methods.h"
#include "proto/messages/tensor_text.h"
#include "proto/support/printable.h"
#include "proto/support/status_macros.h"
#include "server/request_checks.h"

namespace tessera::server {
namespace {

/// The bytes of a value must match its own shape and type.
absl::Status checkLength(const std::string& field, const v1::TensorValue& value) {
  int64_t bytes = elementBytes(value.spec().dtype());
  bool fits = true;
  for (const int64_t extent : value.spec().shape()) {
    fits = fits && !__builtin_mul_overflow(bytes, extent, &bytes);
  }
  const auto given = value.has_blob() ? value.blob().size_bytes() : static_cast<int64_t>(value.data().size());
  if (fits && given == bytes) {
    return absl::OkStatus();
  }
  return fieldError(absl::StrCat(field, value.has_blob() ? ".blob.size_bytes" : ".data"), absl::StrCat(given, " bytes"),
                    absl::StrCat(fits ? absl::StrCat(bytes, " bytes for ") : "as many bytes as there are in ",
                                 tensorText(value.spec())));
}

/// Bindings of a CompileSpec or of one Specialization. `names`: already bound by either.
template <typename Message>
absl::Status checkBindings(const std::string& where, const Message& message, std::set<std::string>& dimensions,
                           std::set<std::string>& inputs) {
  TESSERA_RETURN_IF_ERROR(
      checkRange(absl::StrCat(where, ".dimensions (count)"), message.dimensions_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < message.dimensions_size(); ++i) {
    const v1::DimensionBinding& dimension = message.dimensions(i);
    const std::string field = absl::StrCat(where, ".dimensions[", i, "]");
    TESSERA_RETURN_IF_ERROR(checkText(absl::StrCat(field, ".name"), dimension.name(), Limits::kMaxNameLength, false));
    TESSERA_RETURN_IF_ERROR(
        checkRange(absl::StrCat(field, ".size"), dimension.size(), -Limits::kMaxDimension, Limits::kMaxDimension));
    if (!dimensions.insert(dimension.name()).second) {
      return fieldError(absl::StrCat(field, ".name"), dimension.name(), "each dimension bound once");
    }
  }
  TESSERA_RETURN_IF_ERROR(
      checkRange(absl::StrCat(where, ".input_shapes (count)"), message.input_shapes_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < message.input_shapes_size(); ++i) {
    const v1::InputShape& shape = message.input_shapes(i);
    const std::string field = absl::StrCat(where, ".input_shapes[", i, "]");
    TESSERA_RETURN_IF_ERROR(checkText(absl::StrCat(field, ".name"), shape.name(), Limits::kMaxTensorNameLength, false));
    TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, ".shape (rank)"), shape.shape_size(), 0, Limits::kMaxRank));
    for (int d = 0; d < shape.shape_size(); ++d) {
      TESSERA_RETURN_IF_ERROR(
          checkRange(absl::StrCat(field, ".shape[", d, "]"), shape.shape(d), 0, Limits::kMaxDimension));
    }
    if (!inputs.insert(shape.name()).second) {
      return fieldError(absl::StrCat(field, ".name"), shape.name(), "each name once");
    }
  }
  return absl::OkStatus();
}

/// Equal for equal bindings in any order.
std::string textOf(const v1::Specialization& variant) {
  std::set<std::string> bindings;
  for (const v1::DimensionBinding& dimension : variant.dimensions()) {
    bindings.insert(absl::StrCat("dimension ", dimension.name(), "=", dimension.size()));
  }
  for (const v1::InputShape& shape : variant.input_shapes()) {
    bindings.insert(absl::StrCat("input ", shape.name(), "=", absl::StrJoin(shape.shape(), "x")));
  }
  return absl::StrJoin(bindings, "\n");
}

absl::Status checkSpecializations(const v1::CompileSpec& spec) {
  std::set<std::string> dimensions, inputs;
  TESSERA_RETURN_IF_ERROR(checkBindings("compile", spec, dimensions, inputs));
  TESSERA_RETURN_IF_ERROR(
      checkRange("compile.specializations (count)", spec.specializations_size(), 0, Limits::kMaxSpecializations));
  std::map<std::string, int> variants;
  for (int i = 0; i < spec.specializations_size(); ++i) {
    const std::string field = absl::StrCat("compile.specializations[", i, "]");
    std::set<std::string> own_dimensions = dimensions, own_inputs = inputs;
    TESSERA_RETURN_IF_ERROR(checkBindings(field, spec.specializations(i), own_dimensions, own_inputs));
    if (const auto [twin, fresh] = variants.emplace(textOf(spec.specializations(i)), i); !fresh) {
      return fieldError(field, absl::StrCat("what specializations[", twin->second, "] binds"),
                        "other bindings in each variant");
    }
  }
  return absl::OkStatus();
}

template <typename Spec>
absl::Status checkRun(const std::string& field, const Spec& spec, const Limits& limits) {
  if (spec.job_id().empty()) {
    TESSERA_RETURN_IF_ERROR(checkSha256(absl::StrCat(field, ".artifact_id"), spec.artifact_id()));
    TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, ".version"), spec.version(), 0, 0));
  } else {
    if (!spec.artifact_id().empty()) {
      return fieldError(absl::StrCat(field, ".artifact_id"), "an artifact_id and a job_id", "one of the two");
    }
    TESSERA_RETURN_IF_ERROR(checkText(absl::StrCat(field, ".job_id"), spec.job_id(), Limits::kMaxNameLength, false));
    TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, ".version"), spec.version(), 0, INT32_MAX));
  }
  TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, ".threads"), spec.threads(), 0, Limits::kMaxThreads));
  TESSERA_RETURN_IF_ERROR(
      checkRange(absl::StrCat(field, ".inputs (count)"), spec.inputs_size(), 0, Limits::kMaxTensors));
  std::set<std::string> names;
  for (int i = 0; i < spec.inputs_size(); ++i) {
    const std::string input = absl::StrCat(field, ".inputs[", i, "]");
    TESSERA_RETURN_IF_ERROR(checkTensor(input, spec.inputs(i), std::is_same_v<Spec, v1::ProfileSpec>, limits));
    if (spec.inputs(i).value_case() != v1::TensorValue::VALUE_NOT_SET) {
      TESSERA_RETURN_IF_ERROR(checkLength(input, spec.inputs(i)));
    }
    if (!names.insert(spec.inputs(i).spec().name()).second) {
      return fieldError(absl::StrCat(input, ".spec.name"), spec.inputs(i).spec().name(), "each name once");
    }
  }
  return absl::OkStatus();
}

absl::Status checkFixedInputs(const v1::CompileSpec& spec, const Limits& limits) {
  TESSERA_RETURN_IF_ERROR(
      checkRange("compile.fixed_inputs (count)", spec.fixed_inputs_size(), 0, Limits::kMaxFixedInputs));
  const bool may_fix = spec.format() == v1::MODEL_FORMAT_UNSPECIFIED || spec.format() == v1::ONNX;
  if (spec.fixed_inputs_size() > 0 && !may_fix) {
    return fieldError("compile.fixed_inputs", absl::StrCat("values with format ", v1::ModelFormat_Name(spec.format())),
                      "none: shapes of such models depend on no value");
  }
  std::set<std::string> names;
  int64_t bytes = 0;
  for (int i = 0; i < spec.fixed_inputs_size(); ++i) {
    const v1::TensorValue& value = spec.fixed_inputs(i);
    const std::string field = absl::StrCat("compile.fixed_inputs[", i, "]");
    TESSERA_RETURN_IF_ERROR(checkTensor(field, value, /*fillable=*/false, limits));
    if (value.value_case() != v1::TensorValue::kData) {
      return fieldError(absl::StrCat(field, ".value"), "blob", "data: the value itself");
    }
    const auto size = static_cast<int64_t>(value.data().size());
    TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, ".data (bytes)"), size, 0, Limits::kMaxFixedInputBytes));
    TESSERA_RETURN_IF_ERROR(checkLength(field, value));
    bytes += size;
    if (!names.insert(value.spec().name()).second) {
      return fieldError(absl::StrCat(field, ".spec.name"), value.spec().name(), "each name once");
    }
  }
  return checkRange("compile.fixed_inputs (bytes of all)", bytes, 0, Limits::kMaxAllFixedInputBytes);
}

absl::Status checkStates(const v1::CompileSpec& spec) {
  TESSERA_RETURN_IF_ERROR(checkRange("compile.state.pairs (count)", spec.state().pairs_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < spec.state().pairs_size(); ++i) {
    const std::string field = absl::StrCat("compile.state.pairs[", i, "]");
    const v1::StatePair& pair = spec.state().pairs(i);
    TESSERA_RETURN_IF_ERROR(checkText(field + ".input", pair.input(), Limits::kMaxTensorNameLength, false));
    TESSERA_RETURN_IF_ERROR(checkText(field + ".output", pair.output(), Limits::kMaxTensorNameLength, false));
  }
  return absl::OkStatus();
}

/// The compiler checks names and numbers against the model; here only their sizes.
absl::Status checkTraining(const v1::TrainingOptions& training) {
  TESSERA_RETURN_IF_ERROR(checkText("compile.training.loss", training.loss(), Limits::kMaxNameLength, true));
  TESSERA_RETURN_IF_ERROR(checkText("compile.training.output", training.output(), Limits::kMaxTensorNameLength, true));
  TESSERA_RETURN_IF_ERROR(
      checkText("compile.training.optimizer.name", training.optimizer().name(), Limits::kMaxNameLength, true));
  for (const auto& [field, names] :
       {std::pair<const char*, decltype(&training.frozen())>{"compile.training.trainable", &training.trainable()},
        {"compile.training.frozen", &training.frozen()}}) {
    TESSERA_RETURN_IF_ERROR(checkRange(absl::StrCat(field, " (count)"), names->size(), 0, Limits::kMaxTensors));
    for (const std::string& name : *names)
      TESSERA_RETURN_IF_ERROR(checkText(field, name, Limits::kMaxTensorNameLength, false));
  }
  return absl::OkStatus();
}

absl::Status checkShare(const std::string& field, double value, double least, double most) {
  return value >= least && value <= most ? absl::OkStatus()
                                         : fieldError(field, absl::StrCat(value), absl::StrCat(least, " to ", most));
}

absl::Status checkKnowledge(const v1::CompileSpec& spec) {
  const std::string field = "compile.options.knowledge";
  const v1::Knowledge& knowledge = spec.options().knowledge();
  TESSERA_RETURN_IF_ERROR(checkRange(field + ".mode", knowledge.mode(), 0, v1::Knowledge::Mode_MAX));
  TESSERA_RETURN_IF_ERROR(checkRange(field + ".threads", knowledge.threads(), 0, Limits::kMaxThreads));
  const bool snapshot = knowledge.mode() == v1::Knowledge::SNAPSHOT;
  TESSERA_RETURN_IF_ERROR(
      checkRange(field + ".until_us", knowledge.until_us(), snapshot ? 1 : 0, snapshot ? INT64_MAX : 0));
  return spec.has_pins() && (snapshot || knowledge.mode() == v1::Knowledge::NEWEST)
             ? fieldError(field, "trees of tuning records and compile.pins", "one of the two")
             : absl::OkStatus();
}

}  // namespace

absl::Status checkCompileSpec(const v1::CompileSpec& spec, const Limits& limits) {
  TESSERA_RETURN_IF_ERROR(checkDigest("compile.model", spec.model(), limits.max_model_bytes));
  TESSERA_RETURN_IF_ERROR(checkRange("compile.format", spec.format(), 0, v1::ModelFormat_MAX));
  TESSERA_RETURN_IF_ERROR(checkText("compile.name", spec.name(), Limits::kMaxNameLength, true));
  TESSERA_RETURN_IF_ERROR(checkRange("compile.options.opt_level", spec.options().opt_level(), 0, 2));
  TESSERA_RETURN_IF_ERROR(
      checkRange("compile.options.precision", spec.options().precision(), 0, v1::CompileOptions::Precision_MAX));
  TESSERA_RETURN_IF_ERROR(checkKnowledge(spec));
  TESSERA_RETURN_IF_ERROR(checkSpecializations(spec));
  TESSERA_RETURN_IF_ERROR(checkFixedInputs(spec, limits));
  TESSERA_RETURN_IF_ERROR(checkStates(spec));
  TESSERA_RETURN_IF_ERROR(checkTraining(spec.training()));
  if (spec.has_pins()) {
    TESSERA_RETURN_IF_ERROR(checkDigest("compile.pins", spec.pins(), Limits::kMaxPinsBytes));
  } else if (spec.pin_use() != v1::PIN_USE_UNSPECIFIED) {
    return fieldError("compile.pin_use", "a value without compile.pins", "the text of the pins as compile.pins");
  }
  TESSERA_RETURN_IF_ERROR(checkRange("compile.pin_use", spec.pin_use(), 0, v1::PinUse_MAX));
  TESSERA_RETURN_IF_ERROR(checkRange("compile.external_data (count)", static_cast<int64_t>(spec.external_data().size()),
                                     0, Limits::kMaxExternalFiles));
  for (const auto& [location, digest] : spec.external_data()) {
    TESSERA_RETURN_IF_ERROR(checkText("compile.external_data (location)", location, Limits::kMaxLocationLength, false));
    TESSERA_RETURN_IF_ERROR(
        checkDigest(absl::StrCat("compile.external_data[", location, "]"), digest, limits.max_blob_bytes));
  }
  return absl::OkStatus();
}

absl::Status checkTuneSpec(const v1::TuneSpec& spec, const Limits& limits) {
  TESSERA_RETURN_IF_ERROR(checkCompileSpec(spec.compile(), limits));
  if (spec.compile().has_pins()) {
    return fieldError("tune.compile.pins", "a text of pins", "none: tuning finds the schedules itself");
  }
  if (spec.compile().specializations_size() > 0) {
    return fieldError("tune.compile.specializations", "several variants of the code",
                      "none: bind the dimensions of the variant to tune");
  }
  if (spec.compile().options().has_knowledge()) {
    return fieldError("tune.compile.options.knowledge", "tuning records to take over",
                      "none: a search begins with earlier measurements");
  }
  if (!spec.method().empty() && !absl::c_linear_search(kSearchMethods, spec.method())) {
    return fieldError(
        "tune.method", absl::StrCat("'", printable(spec.method().substr(0, 80)), "'"),
        absl::StrCat(absl::StrJoin(kSearchMethods, ", "), "; or nothing, which means ", kSearchMethods.front()));
  }
  TESSERA_RETURN_IF_ERROR(checkRange("tune.trials", spec.trials(), 0, Limits::kMaxTrials));
  TESSERA_RETURN_IF_ERROR(checkRange("tune.budget_us", spec.budget_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_RETURN_IF_ERROR(checkRange("tune.threads", spec.threads(), 0, Limits::kMaxThreads));
  TESSERA_RETURN_IF_ERROR(checkRange("tune.top", spec.top(), 0, Limits::kMaxKernels));
  TESSERA_RETURN_IF_ERROR(checkRange("tune.choices", spec.choices(), 0, Limits::kMaxChoices));
  TESSERA_RETURN_IF_ERROR(checkShare("tune.min_share", spec.min_share(), 0, 1));
  TESSERA_RETURN_IF_ERROR(checkRange("tune.workloads (count)", spec.workloads_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < spec.workloads_size(); ++i) {
    TESSERA_RETURN_IF_ERROR(
        checkText(absl::StrCat("tune.workloads[", i, "]"), spec.workloads(i), Limits::kMaxNameLength, false));
  }
  const v1::MeasuringRules& rules = spec.measuring();
  TESSERA_RETURN_IF_ERROR(checkRange("tune.measuring.repeat", rules.repeat(), 0, Limits::kMaxTrialRuns));
  TESSERA_RETURN_IF_ERROR(checkRange("tune.measuring.most", rules.most(), 0, Limits::kMaxTrialRuns));
  if (const int least = rules.repeat() > 0 ? rules.repeat() : Limits::kTrialRuns;
      rules.most() > 0 && rules.most() < least) {
    return fieldError("tune.measuring.most", absl::StrCat(rules.most()),
                      absl::StrCat("at least tune.measuring.repeat, which is ", least, "; or 0, five times as many"));
  }
  TESSERA_RETURN_IF_ERROR(checkShare("tune.measuring.stable", rules.stable(), 0, 1));
  TESSERA_RETURN_IF_ERROR(
      checkRange("tune.measuring.trial_timeout_us", rules.trial_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_RETURN_IF_ERROR(checkShare("tune.measuring.tolerance", rules.tolerance(), 0, 1));
  return rules.min_gain() == 0 ? absl::OkStatus() : checkShare("tune.measuring.min_gain", rules.min_gain(), 1, 100);
}

namespace {

bool isLabelKey(std::string_view key) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !key.empty() && key.size() <= Limits::kMaxLabelLength && lower(key.front()) &&
         std::all_of(key.begin(), key.end(),
                     [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
}

template <typename Labels>
absl::Status checkLabels(const Labels& labels) {
  TESSERA_RETURN_IF_ERROR(checkRange("labels (count)", static_cast<int64_t>(labels.size()), 0, Limits::kMaxLabels));
  for (const auto& [key, value] : labels) {
    if (!isLabelKey(key)) {
      return fieldError("labels (key)", absl::StrCat("'", key.substr(0, 80), "'"),
                        absl::StrCat("1 to ", Limits::kMaxLabelLength, " of a-z, 0-9, '_', '-', a letter first"));
    }
    TESSERA_RETURN_IF_ERROR(checkText(absl::StrCat("labels[", key, "]"), value, Limits::kMaxLabelLength, true));
  }
  return absl::OkStatus();
}

absl::Status checkEnclosed(const google::protobuf::RepeatedPtrField<v1::EnclosedFile>& files) {
  TESSERA_RETURN_IF_ERROR(checkRange("files (count)", files.size(), 0, Limits::kMaxEnclosedFiles));
  int64_t total = 0;
  for (int i = 0; i < files.size(); ++i) {
    const auto size = static_cast<int64_t>(files[i].data().size());
    TESSERA_RETURN_IF_ERROR(
        checkRange(absl::StrCat("files[", i, "].data (bytes)"), size, 0, Limits::kMaxEnclosedFileBytes));
    total += size;
  }
  return checkRange("files (bytes)", total, 0, Limits::kMaxEnclosedBytes);
}

}  // namespace

absl::Status checkCreateJob(const v1::CreateJobRequest& request, const Limits& limits) {
  TESSERA_RETURN_IF_ERROR(checkLabels(request.labels()));
  TESSERA_RETURN_IF_ERROR(checkEnclosed(request.files()));
  TESSERA_RETURN_IF_ERROR(checkText("request_id", request.request_id(), Limits::kMaxRequestIdLength, true));
  TESSERA_RETURN_IF_ERROR(checkRange("queue_timeout_us", request.queue_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_RETURN_IF_ERROR(checkRange("total_timeout_us", request.total_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_RETURN_IF_ERROR(checkText("client", request.client(), Limits::kMaxClientLength, true));
  TESSERA_RETURN_IF_ERROR(checkRange("run_timeout_us", request.run_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_RETURN_IF_ERROR(checkRange("priority", request.priority(), -Limits::kMaxPriority, Limits::kMaxPriority));
  switch (request.spec_case()) {
    case v1::CreateJobRequest::kCompile:
      return checkCompileSpec(request.compile(), limits);
    case v1::CreateJobRequest::kExecute:
      return checkRun("execute", request.execute(), limits);
    case v1::CreateJobRequest::kProfile:
      TESSERA_RETURN_IF_ERROR(checkRange("profile.warmup", request.profile().warmup(), 0, Limits::kMaxRepeat));
      TESSERA_RETURN_IF_ERROR(checkRange("profile.repeat", request.profile().repeat(), 0, Limits::kMaxRepeat));
      return checkRun("profile", request.profile(), limits);
    case v1::CreateJobRequest::kAnalyze:
      TESSERA_RETURN_IF_ERROR(
          checkRange("analyze.question", request.analyze().question(), 1, v1::AnalyzeSpec::Question_MAX));
      if (request.analyze().compile().options().has_knowledge()) {
        return fieldError("analyze.compile.options.knowledge", "tuning records to take over",
                          "none: compile with them; the artifact's plan contains their decisions");
      }
      return checkCompileSpec(request.analyze().compile(), limits);
    case v1::CreateJobRequest::kTune:
      return checkTuneSpec(request.tune(), limits);
    default:
      return fieldError("spec", "nothing", "compile, execute, profile, analyze or tune");
  }
}

}  // namespace tessera::server
