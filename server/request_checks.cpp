#include "server/request_checks.h"

#include <set>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/failure.h"
#include "proto/sha256.h"
#include "server/status_macros.h"

namespace tessera::server {
namespace {

/// `fillable`: a tensor without a value is filled, its shape counts.
absl::Status checkTensor(const std::string& field, const v1::TensorValue& value, bool fillable, const Limits& limits) {
  TESSERA_TRY(checkText(absl::StrCat(field, ".spec.name"), value.spec().name(), Limits::kMaxNameLength, false));
  TESSERA_TRY(checkRange(absl::StrCat(field, ".spec.dtype"), value.spec().dtype(), 1, v1::DataType_MAX));
  TESSERA_TRY(checkRange(absl::StrCat(field, ".spec.shape (rank)"), value.spec().shape_size(), 0, Limits::kMaxRank));
  for (int i = 0; i < value.spec().shape_size(); ++i) {
    TESSERA_TRY(
        checkRange(absl::StrCat(field, ".spec.shape[", i, "]"), value.spec().shape(i), 0, Limits::kMaxDimension));
  }
  switch (value.value_case()) {
    case v1::TensorValue::kData:
      return checkRange(absl::StrCat(field, ".data (bytes; larger ones go as a blob)"),
                        static_cast<int64_t>(value.data().size()), 0, Limits::kMaxInlineTensorBytes);
    case v1::TensorValue::kBlob:
      return checkDigest(absl::StrCat(field, ".blob"), value.blob(), limits.max_blob_bytes);
    default:
      return fillable ? absl::OkStatus() : fieldError(absl::StrCat(field, ".value"), "nothing", "data or blob");
  }
}

/// Bindings of a CompileSpec or of one Specialization; `names` are those that are bound already, by both.
template <typename Message>
absl::Status checkBindings(const std::string& where, const Message& message, std::set<std::string>& dimensions,
                           std::set<std::string>& inputs) {
  TESSERA_TRY(
      checkRange(absl::StrCat(where, ".dimensions (count)"), message.dimensions_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < message.dimensions_size(); ++i) {
    const v1::DimensionBinding& dimension = message.dimensions(i);
    const std::string field = absl::StrCat(where, ".dimensions[", i, "]");
    TESSERA_TRY(checkText(absl::StrCat(field, ".name"), dimension.name(), Limits::kMaxNameLength, false));
    TESSERA_TRY(
        checkRange(absl::StrCat(field, ".size"), dimension.size(), -Limits::kMaxDimension, Limits::kMaxDimension));
    if (!dimensions.insert(dimension.name()).second) {
      return fieldError(absl::StrCat(field, ".name"), dimension.name(), "each dimension bound once");
    }
  }
  TESSERA_TRY(
      checkRange(absl::StrCat(where, ".input_shapes (count)"), message.input_shapes_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < message.input_shapes_size(); ++i) {
    const v1::InputShape& shape = message.input_shapes(i);
    const std::string field = absl::StrCat(where, ".input_shapes[", i, "]");
    TESSERA_TRY(checkText(absl::StrCat(field, ".name"), shape.name(), Limits::kMaxNameLength, false));
    TESSERA_TRY(checkRange(absl::StrCat(field, ".shape (rank)"), shape.shape_size(), 0, Limits::kMaxRank));
    for (int d = 0; d < shape.shape_size(); ++d) {
      TESSERA_TRY(checkRange(absl::StrCat(field, ".shape[", d, "]"), shape.shape(d), 0, Limits::kMaxDimension));
    }
    if (!inputs.insert(shape.name()).second) {
      return fieldError(absl::StrCat(field, ".name"), shape.name(), "each name once");
    }
  }
  return absl::OkStatus();
}

absl::Status checkSpecializations(const v1::CompileSpec& spec) {
  std::set<std::string> dimensions, inputs;
  TESSERA_TRY(checkBindings("compile", spec, dimensions, inputs));
  TESSERA_TRY(
      checkRange("compile.specializations (count)", spec.specializations_size(), 0, Limits::kMaxSpecializations));
  for (int i = 0; i < spec.specializations_size(); ++i) {
    std::set<std::string> own_dimensions = dimensions, own_inputs = inputs;
    TESSERA_TRY(checkBindings(absl::StrCat("compile.specializations[", i, "]"), spec.specializations(i), own_dimensions,
                              own_inputs));
  }
  return absl::OkStatus();
}

template <typename Spec>
absl::Status checkRun(const std::string& field, const Spec& spec, const Limits& limits) {
  if (spec.job_id().empty()) {
    TESSERA_TRY(checkSha256(absl::StrCat(field, ".artifact_id"), spec.artifact_id()));
    TESSERA_TRY(checkRange(absl::StrCat(field, ".version"), spec.version(), 0, 0));
  } else {
    if (!spec.artifact_id().empty()) {
      return fieldError(absl::StrCat(field, ".artifact_id"), "an artifact beside a job_id", "one of the two");
    }
    TESSERA_TRY(checkText(absl::StrCat(field, ".job_id"), spec.job_id(), Limits::kMaxNameLength, false));
    TESSERA_TRY(checkRange(absl::StrCat(field, ".version"), spec.version(), 0, INT32_MAX));
  }
  TESSERA_TRY(checkRange(absl::StrCat(field, ".threads"), spec.threads(), 0, Limits::kMaxThreads));
  TESSERA_TRY(checkRange(absl::StrCat(field, ".inputs (count)"), spec.inputs_size(), 0, Limits::kMaxTensors));
  std::set<std::string> names;
  for (int i = 0; i < spec.inputs_size(); ++i) {
    const std::string input = absl::StrCat(field, ".inputs[", i, "]");
    TESSERA_TRY(checkTensor(input, spec.inputs(i), std::is_same_v<Spec, v1::ProfileSpec>, limits));
    if (!names.insert(spec.inputs(i).spec().name()).second) {
      return fieldError(absl::StrCat(input, ".spec.name"), spec.inputs(i).spec().name(), "each name once");
    }
  }
  return absl::OkStatus();
}

absl::Status checkFixedInputs(const v1::CompileSpec& spec, const Limits& limits) {
  TESSERA_TRY(checkRange("compile.fixed_inputs (count)", spec.fixed_inputs_size(), 0, Limits::kMaxFixedInputs));
  std::set<std::string> names;
  int64_t bytes = 0;
  for (int i = 0; i < spec.fixed_inputs_size(); ++i) {
    const v1::TensorValue& value = spec.fixed_inputs(i);
    const std::string field = absl::StrCat("compile.fixed_inputs[", i, "]");
    TESSERA_TRY(checkTensor(field, value, /*fillable=*/false, limits));
    if (value.value_case() != v1::TensorValue::kData) {
      return fieldError(absl::StrCat(field, ".value"), "blob", "data: the value itself");
    }
    const auto size = static_cast<int64_t>(value.data().size());
    TESSERA_TRY(checkRange(absl::StrCat(field, ".data (bytes)"), size, 0, Limits::kMaxFixedInputBytes));
    bytes += size;
    if (!names.insert(value.spec().name()).second) {
      return fieldError(absl::StrCat(field, ".spec.name"), value.spec().name(), "each name once");
    }
  }
  return checkRange("compile.fixed_inputs (bytes of all)", bytes, 0, Limits::kMaxAllFixedInputBytes);
}

/// What heartbeats and reports say about the lease they are of.
template <typename Request>
absl::Status checkLease(const Request& request) {
  TESSERA_TRY(checkText("worker_id", request.worker_id(), Limits::kMaxWorkerIdLength, false));
  TESSERA_TRY(checkText("task_id", request.task_id(), Limits::kMaxNameLength, false));
  TESSERA_TRY(checkRange("fencing_token", request.fencing_token(), 1, INT64_MAX));
  return checkRange("secret (bytes)", static_cast<int64_t>(request.secret().size()), Limits::kLeaseSecretBytes,
                    Limits::kLeaseSecretBytes);
}

absl::Status checkShare(const std::string& field, double value, double least, double most) {
  return value >= least && value <= most ? absl::OkStatus()
                                         : fieldError(field, absl::StrCat(value), absl::StrCat(least, " to ", most));
}

absl::Status checkFileName(const std::string& field, std::string_view name) {
  TESSERA_TRY(checkText(field, name, Limits::kMaxNameLength, false));
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') {
      return fieldError(field, absl::StrCat("the character '", std::string(1, c), "'"), "[A-Za-z0-9._-]+");
    }
  }
  return absl::OkStatus();
}

absl::Status checkTime(const std::string& field, double ms) {
  return ms >= 0 && ms < 1e12 ? absl::OkStatus() : fieldError(field, absl::StrCat(ms), "milliseconds that passed");
}

absl::Status checkTimes(const std::string& field, const google::protobuf::RepeatedField<double>& times_ms) {
  TESSERA_TRY(checkRange(absl::StrCat(field, " (count)"), times_ms.size(), 0, Limits::kMaxMeasuredRuns));
  for (const double ms : times_ms) {
    TESSERA_TRY(checkTime(field, ms));
  }
  return absl::OkStatus();
}

absl::Status checkFailure(const v1::Failure& failure) {
  TESSERA_TRY(checkRange("result.failure.reason", failure.reason(), 0, v1::Failure::Reason_MAX));
  for (const std::string* text : {&failure.message(), &failure.node(), &failure.op_type(), &failure.attribute(),
                                  &failure.found(), &failure.accepted(), &failure.fix()}) {
    TESSERA_TRY(checkRange("result.failure (bytes of a text)", static_cast<int64_t>(text->size()), 0,
                           Limits::kMaxFailureTextBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status fieldError(std::string_view field, std::string_view found, std::string_view accepted,
                        std::string_view fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(
      absl::StrCat(std::string(field), ": found ", std::string(found), ", accepted: ", std::string(accepted)));
  failure.set_attribute(std::string(field));
  failure.set_found(std::string(found));
  failure.set_accepted(std::string(accepted));
  failure.set_fix(fix.empty() ? absl::StrCat("correct ", std::string(field), " in the request") : std::string(fix));
  return failureStatus(failure);
}

absl::Status checkRange(std::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) {
    return absl::OkStatus();
  }
  return fieldError(field, absl::StrCat(value), absl::StrCat(least, " to ", most));
}

absl::Status checkPageSize(int64_t page_size) {
  return page_size >= 0
             ? absl::OkStatus()
             : fieldError("page_size", absl::StrCat(page_size), "0 (meaning 50) or more, of which 1000 come");
}

absl::Status checkText(std::string_view field, std::string_view text, int longest, bool optional) {
  const std::string accepted = absl::StrCat(optional ? 0 : 1, " to ", longest, " bytes of printable text");
  if ((text.empty() && !optional) || text.size() > static_cast<size_t>(longest)) {
    return fieldError(field, absl::StrCat(text.size(), " bytes"), accepted);
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return fieldError(field, absl::StrCat("control character ", static_cast<int>(c)), accepted);
    }
  }
  return absl::OkStatus();
}

absl::Status checkSha256(std::string_view field, std::string_view sha256) {
  if (isSha256(sha256)) {
    return absl::OkStatus();
  }
  return fieldError(field, absl::StrCat("'", std::string(sha256.substr(0, 80)), "'"),
                    "64 lower-case hexadecimal digits");
}

absl::Status checkDigest(std::string_view field, const v1::Digest& digest, int64_t max_bytes) {
  TESSERA_TRY(checkSha256(absl::StrCat(std::string(field), ".sha256"), digest.sha256()));
  return checkRange(absl::StrCat(std::string(field), ".size_bytes"), digest.size_bytes(), 0, max_bytes);
}

namespace {

absl::Status checkKnowledge(const v1::CompileSpec& spec) {
  const std::string field = "compile.options.knowledge";
  const v1::Knowledge& knowledge = spec.options().knowledge();
  TESSERA_TRY(checkRange(field + ".mode", knowledge.mode(), 0, v1::Knowledge::Mode_MAX));
  TESSERA_TRY(checkRange(field + ".threads", knowledge.threads(), 0, Limits::kMaxThreads));
  const bool snapshot = knowledge.mode() == v1::Knowledge::SNAPSHOT;
  TESSERA_TRY(checkRange(field + ".until_us", knowledge.until_us(), snapshot ? 1 : 0, snapshot ? INT64_MAX : 0));
  return spec.has_pins() && (snapshot || knowledge.mode() == v1::Knowledge::NEWEST)
             ? fieldError(field, "trees of tuning records beside compile.pins", "one of the two")
             : absl::OkStatus();
}

}  // namespace

absl::Status checkCompileSpec(const v1::CompileSpec& spec, const Limits& limits) {
  TESSERA_TRY(checkDigest("compile.model", spec.model(), limits.max_model_bytes));
  TESSERA_TRY(checkRange("compile.format", spec.format(), 0, v1::ModelFormat_MAX));
  TESSERA_TRY(checkText("compile.name", spec.name(), Limits::kMaxNameLength, true));
  TESSERA_TRY(checkRange("compile.options.opt_level", spec.options().opt_level(), 0, 2));
  TESSERA_TRY(
      checkRange("compile.options.precision", spec.options().precision(), 0, v1::CompileOptions::Precision_MAX));
  TESSERA_TRY(checkKnowledge(spec));
  TESSERA_TRY(checkSpecializations(spec));
  TESSERA_TRY(checkFixedInputs(spec, limits));
  if (spec.has_pins()) {
    TESSERA_TRY(checkDigest("compile.pins", spec.pins(), Limits::kMaxPinsBytes));
  } else if (spec.pin_use() != v1::PIN_USE_UNSPECIFIED) {
    return fieldError("compile.pin_use", "a use of no compile.pins", "the text of the pins as compile.pins");
  }
  TESSERA_TRY(checkRange("compile.pin_use", spec.pin_use(), 0, v1::PinUse_MAX));
  TESSERA_TRY(checkRange("compile.external_data (count)", static_cast<int64_t>(spec.external_data().size()), 0,
                         Limits::kMaxExternalFiles));
  for (const auto& [location, digest] : spec.external_data()) {
    TESSERA_TRY(checkText("compile.external_data (location)", location, Limits::kMaxLocationLength, false));
    TESSERA_TRY(checkDigest(absl::StrCat("compile.external_data[", location, "]"), digest, limits.max_blob_bytes));
  }
  return absl::OkStatus();
}

absl::Status checkTuneSpec(const v1::TuneSpec& spec, const Limits& limits) {
  TESSERA_TRY(checkCompileSpec(spec.compile(), limits));
  if (spec.compile().has_pins()) {
    return fieldError("tune.compile.pins", "a text of pins", "none: tuning finds the schedules itself");
  }
  if (spec.compile().specializations_size() > 0) {
    return fieldError("tune.compile.specializations", "several variants of the code",
                      "none: bind the dimensions of the variant to tune");
  }
  if (spec.compile().options().has_knowledge()) {
    return fieldError("tune.compile.options.knowledge", "tuning records to take over",
                      "none: what was measured before is tried first");
  }
  TESSERA_TRY(checkText("tune.method", spec.method(), Limits::kMaxNameLength, true));
  TESSERA_TRY(checkRange("tune.trials", spec.trials(), 0, Limits::kMaxTrials));
  TESSERA_TRY(checkRange("tune.budget_us", spec.budget_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_TRY(checkRange("tune.threads", spec.threads(), 0, Limits::kMaxThreads));
  TESSERA_TRY(checkRange("tune.top", spec.top(), 0, Limits::kMaxKernels));
  TESSERA_TRY(checkRange("tune.choices", spec.choices(), 0, Limits::kMaxChoices));
  TESSERA_TRY(checkShare("tune.least_share", spec.least_share(), 0, 1));
  TESSERA_TRY(checkRange("tune.workloads (count)", spec.workloads_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < spec.workloads_size(); ++i) {
    TESSERA_TRY(checkText(absl::StrCat("tune.workloads[", i, "]"), spec.workloads(i), Limits::kMaxNameLength, false));
  }
  const v1::MeasuringRules& rules = spec.measuring();
  TESSERA_TRY(checkRange("tune.measuring.repeat", rules.repeat(), 0, Limits::kMaxTrialRuns));
  TESSERA_TRY(checkRange("tune.measuring.most", rules.most(), 0, Limits::kMaxTrialRuns));
  TESSERA_TRY(checkShare("tune.measuring.stable", rules.stable(), 0, 1));
  TESSERA_TRY(checkRange("tune.measuring.trial_timeout_us", rules.trial_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_TRY(checkShare("tune.measuring.tolerance", rules.tolerance(), 0, 1));
  return rules.least_gain() == 0 ? absl::OkStatus()
                                 : checkShare("tune.measuring.least_gain", rules.least_gain(), 1, 100);
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
  TESSERA_TRY(checkRange("labels (count)", static_cast<int64_t>(labels.size()), 0, Limits::kMaxLabels));
  for (const auto& [key, value] : labels) {
    if (!isLabelKey(key)) {
      return fieldError("labels (key)", absl::StrCat("'", key.substr(0, 80), "'"),
                        absl::StrCat("1 to ", Limits::kMaxLabelLength, " of a-z, 0-9, '_', '-', a letter first"));
    }
    TESSERA_TRY(checkText(absl::StrCat("labels[", key, "]"), value, Limits::kMaxLabelLength, true));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status checkCreateJob(const v1::CreateJobRequest& request, const Limits& limits) {
  TESSERA_TRY(checkLabels(request.labels()));
  TESSERA_TRY(checkText("request_id", request.request_id(), Limits::kMaxRequestIdLength, true));
  TESSERA_TRY(checkRange("queue_timeout_us", request.queue_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_TRY(checkRange("total_timeout_us", request.total_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_TRY(checkText("client", request.client(), Limits::kMaxClientLength, true));
  TESSERA_TRY(checkRange("run_timeout_us", request.run_timeout_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_TRY(checkRange("priority", request.priority(), -Limits::kMaxPriority, Limits::kMaxPriority));
  switch (request.spec_case()) {
    case v1::CreateJobRequest::kCompile:
      return checkCompileSpec(request.compile(), limits);
    case v1::CreateJobRequest::kExecute:
      return checkRun("execute", request.execute(), limits);
    case v1::CreateJobRequest::kProfile:
      TESSERA_TRY(checkRange("profile.warmup", request.profile().warmup(), 0, Limits::kMaxRepeat));
      TESSERA_TRY(checkRange("profile.repeat", request.profile().repeat(), 0, Limits::kMaxRepeat));
      return checkRun("profile", request.profile(), limits);
    case v1::CreateJobRequest::kAnalyze:
      TESSERA_TRY(checkRange("analyze.question", request.analyze().question(), 1, v1::AnalyzeSpec::Question_MAX));
      if (request.analyze().compile().options().has_knowledge()) {
        return fieldError("analyze.compile.options.knowledge", "tuning records to take over",
                          "none: compile with them, the artifact's plan says what they decided");
      }
      return checkCompileSpec(request.analyze().compile(), limits);
    case v1::CreateJobRequest::kTune:
      return checkTuneSpec(request.tune(), limits);
    default:
      return fieldError("spec", "nothing", "compile, execute, profile, analyze or tune");
  }
}

absl::Status checkWorker(const v1::RegisterWorkerRequest& request) {
  TESSERA_TRY(checkText("worker_id", request.worker_id(), Limits::kMaxWorkerIdLength, false));
  TESSERA_TRY(checkRange("slots", request.slots(), 0, Limits::kMaxSlots));
  TESSERA_TRY(checkRange("measuring_cores", request.measuring_cores(), 0, Limits::kMaxThreads));
  TESSERA_TRY(checkText("host.hostname", request.host().hostname(), Limits::kMaxNameLength, true));
  TESSERA_TRY(checkRange("operators (count)", request.operators_size(), 0, Limits::kMaxOperators));
  for (const v1::OperatorInfo& info : request.operators()) {
    TESSERA_TRY(checkText("operators.name", info.name(), Limits::kMaxNameLength, false));
    TESSERA_TRY(checkText("operators.domain", info.domain(), Limits::kMaxNameLength, true));
    TESSERA_TRY(checkText("operators.family", info.family(), Limits::kMaxNameLength, true));
  }
  TESSERA_TRY(checkRange("sandbox (count)", request.sandbox_size(), 0, Limits::kMaxMeasures));
  for (const v1::SandboxMeasure& measure : request.sandbox()) {
    TESSERA_TRY(checkText("sandbox.name", measure.name(), Limits::kMaxNameLength, false));
    TESSERA_TRY(checkText("sandbox.detail", measure.detail(), Limits::kMaxTroubleLength, true));
  }
  return checkText("compiler_version", request.compiler_version(), Limits::kMaxNameLength, false);
}

absl::Status checkHeartbeat(const v1::HeartbeatRequest& request) {
  TESSERA_TRY(checkLease(request));
  TESSERA_TRY(checkRange("run_us", request.run_us(), 0, Limits::kMaxTimeoutUs));
  TESSERA_TRY(checkText("progress.phase", request.progress().phase(), Limits::kMaxNameLength, true));
  TESSERA_TRY(checkText("progress.detail", request.progress().detail(), Limits::kMaxLocationLength, true));
  TESSERA_TRY(checkRange("progress.total", request.progress().total(), 0, INT32_MAX));
  return checkRange("progress.done", request.progress().done(), 0, INT32_MAX);
}

absl::Status checkReport(const v1::ReportTaskRequest& request, const Limits& limits) {
  TESSERA_TRY(checkLease(request));
  const v1::TaskResult& result = request.result();
  if (result.has_failure()) {
    TESSERA_TRY(checkFailure(result.failure()));
  }
  TESSERA_TRY(checkRange("result.files (count)", result.files_size(), 0, Limits::kMaxOutputFiles));
  for (int i = 0; i < result.files_size(); ++i) {
    const v1::OutputFile& file = result.files(i);
    const std::string field = absl::StrCat("result.files[", i, "]");
    TESSERA_TRY(checkFileName(absl::StrCat(field, ".name"), file.name()));
    TESSERA_TRY(checkDigest(absl::StrCat(field, ".digest"), file.digest(), limits.max_blob_bytes));
  }
  TESSERA_TRY(checkRange("result.plan.units (count)", result.plan().units_size(), 0, Limits::kMaxOutputFiles));
  TESSERA_TRY(checkRange("result.execute.outputs (count)", result.execute().outputs_size(), 0, Limits::kMaxTensors));
  for (int i = 0; i < result.execute().outputs_size(); ++i) {
    TESSERA_TRY(
        checkTensor(absl::StrCat("result.execute.outputs[", i, "]"), result.execute().outputs(i), false, limits));
  }
  TESSERA_TRY(
      checkRange("result.search.proposals (count)", result.search().proposals_size(), 0, Limits::kMaxProposals));
  TESSERA_TRY(checkRange("result.search.batch.refused (count)", result.search().batch().refused_size(), 0,
                         Limits::kMaxOutputFiles));
  // What came of the trees is the server's to say.
  TESSERA_TRY(checkRange("result.search.batch.speeds (count)", result.search().batch().speeds_size(), 0, 0));
  TESSERA_TRY(checkRange("result.measure.steps (count)", result.measure().steps_size(), 0, Limits::kMaxKernels));
  for (const v1::MeasureTaskResult::StepTime& step : result.measure().steps()) {
    TESSERA_TRY(checkText("result.measure.steps.workload_hash", step.workload_hash(), Limits::kMaxNameLength, true));
    TESSERA_TRY(checkTime("result.measure.steps.median_ms", step.median_ms()));
    TESSERA_TRY(checkText("result.measure.steps.fusion.kind", step.fusion().kind(), Limits::kMaxNameLength, true));
  }
  TESSERA_TRY(checkText("result.measure.wrong", result.measure().wrong(), Limits::kMaxFailureTextBytes, true));
  TESSERA_TRY(checkTimes("result.measure.baseline_ms", result.measure().baseline_ms()));
  TESSERA_TRY(checkTimes("result.measure.candidate_ms", result.measure().candidate_ms()));
  return checkRange("result.profile.kernels (count)", result.profile().kernels_size(), 0, Limits::kMaxKernels);
}

}  // namespace tessera::server
