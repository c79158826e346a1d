#include "compiler/driver/pipeline.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/backends/backend.h"
#include "compiler/driver/merge_variants.h"
#include "compiler/driver/model_format.h"
#include "compiler/driver/model_loader.h"
#include "compiler/driver/model_operators.h"
#include "compiler/driver/model_view.h"
#include "compiler/driver/schedules.h"
#include "compiler/driver/specializations.h"
#include "compiler/driver/state_pairs.h"
#include "compiler/driver/weights_file.h"
#include "compiler/graph/graph.h"
#include "compiler/graph/planning_context.h"
#include "compiler/schedule/pins.h"
#include "compiler/target/target.h"
#include "compiler/verification/graph_check.h"
#include "proto/messages/failure.h"
#include "proto/support/shell_quote.h"
#include "proto/support/status_macros.h"
#include "proto/version/version.h"

namespace tessera::compiler {
namespace {

constexpr int64_t kToldEvery = 64'000'000;  // bytes of weights

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void report(const ProgressFn& progress, const char* phase, int done, int total, const std::string& detail) {
  if (!progress) return;
  v1::Progress message;
  message.set_phase(phase);
  message.set_done(done);
  message.set_total(total);
  message.set_detail(detail);
  progress(message);
}

std::string megabytes(int64_t bytes) { return absl::StrCat(bytes / 1'000'000, " MB"); }

/// Folded weights beyond the memory window are kept in a file next to the weights section.
FoldedWeightStorage memoryOf(const PlanRequest& request) {
  if (request.weights_path.empty()) return {};
  return {std::filesystem::absolute(request.weights_path).parent_path(), FoldedWeightStorage::kWindow};
}

/// Names the workload in a failure that names no node.
absl::Status inWorkload(const v1::Workload& workload, const absl::Status& status) {
  v1::Failure failure = failureOf(status);
  if (failure.node().empty()) failure.set_node(workload.summary());
  failure.set_message(absl::StrCat("workload ", workload.symbol(), " (", workload.summary(), "): ", failure.message()));
  return failureStatus(failure);
}

/// Returns the fused groups that code generation cannot run slice by slice, with the reasons.
absl::StatusOr<std::vector<GraphChoices::Refused>> refusedSlices(const PlannedGraph& graph, Schedules& schedules) {
  std::vector<const v1::Workload*> sliced;
  for (const v1::Workload& workload : graph.plan.workloads())
    if (workload.has_slices()) sliced.push_back(&workload);
  schedules.decideAll(sliced, {});
  std::vector<GraphChoices::Refused> refused;
  for (const v1::Workload* workload : sliced) {
    const absl::Status status = schedules.of(*workload).status();
    if (status.ok()) continue;
    const auto choices = graph.fused.find(workload->hash());
    // A group that the user pinned, or that no choice made, cannot be taken back.
    if (choices == graph.fused.end() || schedules.isPinned(*workload)) return inWorkload(*workload, status);
    for (const v1::Choice& choice : choices->second)
      refused.push_back({choice, std::string(failureOf(status).message())});
  }
  return refused;
}

/// Adds the measured error of rounding, found by interpreting the model on seeded inputs, to the decision to round.
void sayWhatIsLost(double part, v1::GraphReport& report) {
  for (v1::Decision& decision : *report.mutable_decisions())
    if (decision.kind() == "precision")
      decision.set_reason(absl::StrCat(decision.reason(), "; outputs differ from the model's by at most ",
                                       absl::StrFormat("%.2g", part), " of the largest value on seeded inputs"));
}

/// Names the variant in a failure, if there are several.
absl::Status inVariant(const Bindings& bindings, int variants, const absl::Status& status) {
  // With one variant its name would tell nothing.
  if (variants == 1) return status;
  v1::Failure failure = failureOf(status);
  failure.set_message(absl::StrCat("variant ", bindings.text(), ": ", failure.message()));
  return failureStatus(failure);
}

/// INVALID_INPUT for a dimension that is a range, with what to do.
absl::Status checkSizes(const v1::Target& target, const std::vector<Bindings>& variants) {
  // A range may be cut into several variants, each with a greatest size of its own.
  std::map<std::string, int64_t> greatest;
  for (const Bindings& variant : variants)
    for (const auto& [name, size] : variant.dimensions)
      if (size < 0) greatest[name] = std::max(greatest[name], -size);
  if (greatest.empty()) return absl::OkStatus();
  const auto& [name, size] = *greatest.begin();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat("dimension ", name, " is a range up to ", size, ": programs for ", target.name(),
                                   " have one size for each dimension"));
  failure.set_attribute(name);
  failure.set_fix(absl::StrCat("bind one size, --dim ", shellQuote(absl::StrCat(name, "=", size)),
                               ", or a list of sizes, of which each becomes a variant"));
  return failureStatus(failure);
}

/// INVALID_INPUT for states, which the simulator does not keep.
absl::Status checkNoState(const v1::Target& target, const v1::StateOptions& state) {
  if (state.pairs().empty() && !state.automatic()) return absl::OkStatus();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat("programs for ", target.name(), " run on the simulator, which keeps no state"));
  failure.set_attribute("state");
  failure.set_accepted("no state");
  failure.set_fix("leave --state out: each run then takes the value as an input and returns it as an output");
  return failureStatus(failure);
}

/// If the model works in no run of a variant with ranges, returns the options that start these ranges at a later
/// variant's size, if the model works there. `failed` is a position in `variants`, which are in ascending order.
std::string whereToBegin(const PlanRequest& request, const std::vector<Bindings>& variants, size_t failed,
                         const std::string& first_bytes) {
  // Later variants have larger sizes: a model that needs, say, an image larger than its windows works there.
  for (size_t v = failed + 1; v < variants.size(); ++v) {
    const std::unique_ptr<PlanningContext> workbench = acquirePlanningContext();
    if (!loadModel(workbench->context, request, variants[v], first_bytes).ok()) continue;
    std::string flags;
    for (const auto& [name, size] : variants[v].dimensions) {
      const auto before = variants[failed].dimensions.find(name);
      if (before == variants[failed].dimensions.end() || before->second == size) continue;
      if (size >= 0 || before->second >= 0) return "";  // the sizes were listed one by one: the request must omit one
      int64_t greatest = 0;
      for (const Bindings& each : variants)
        if (const auto other = each.dimensions.find(name); other != each.dimensions.end())
          greatest = std::max(greatest, -other->second);
      absl::StrAppend(&flags, " --dim ", shellQuote(absl::StrCat(name, "=", -size, "..", greatest)));
    }
    return flags.empty() ? "" : absl::StrCat("begin where the model works:", flags);
  }
  return "";
}

}  // namespace

absl::StatusOr<PlanResult> plan(const PlanRequest& request, const ProgressFn& progress) {
  PlanResult result;
  const v1::Target target = canonicalTarget(request.target);
  // Describing a model needs no code, so a target without a back end is accepted; it gets no schedules.
  absl::Status coded = modelsCompileFor(target);
  if (!coded.ok() && !request.describe_model) return coded;
  const Backend* const backend = coded.ok() ? backendOf(target.family()) : nullptr;
  TESSERA_ASSIGN_OR_RETURN(std::vector<Bindings> variants, variantsOf(request.spec));
  const int count = static_cast<int>(variants.size());
  auto finished = [&](const char* step) {
    if (request.finished) request.finished(step);
  };
  report(progress, "import", 0, count, request.spec.name());
  TESSERA_ASSIGN_OR_RETURN(FileIdentity identity, identifyModel(request.model_path));

  // Each variant is imported and planned separately; the merger then shares their common parts.
  const bool optimized = request.spec.options().opt_level() != kPlainLoops;
  // Without a back end nobody can run slices or prepare weights.
  const CodeFacts facts =
      backend ? backend->facts(target, !optimized) : CodeFacts{.slices = false, .prepares_weights = false};
  if (!facts.ranges) TESSERA_RETURN_IF_ERROR(checkSizes(target, variants));
  if (isSimulated(target)) TESSERA_RETURN_IF_ERROR(checkNoState(target, request.spec.state()));
  // One place decides all schedules, so that equal workloads of different variants are planned once.
  VariantMerger merger;
  Schedules schedules(target, backend, request.spec, request.pins, request.steps);
  std::vector<v1::Decision> left_out;  // suggestions that were dropped to plan a variant
  std::optional<std::vector<v1::Choice>> suggested;
  for (auto next = variants.begin(); next != variants.end();) {
    const Bindings& bindings = *next;
    // 1. Import: untrusted bytes become linalg on tensors.
    const Stopwatch import_time;
    const std::unique_ptr<PlanningContext> workbench = acquirePlanningContext();
    v1::StateOptions state_options = request.spec.state();
    absl::StatusOr<ImportedModel> model =
        loadModel(workbench->context, request, bindings, identity.first_bytes, &state_options);
    if (!model.ok()) {
      // Failures that another size may avoid get a hint with that size.
      v1::Failure failure = failureOf(inVariant(bindings, count, model.status()));
      const auto index = static_cast<size_t>(&bindings - variants.data());
      const bool by_size =
          failure.reason() == v1::Failure::INVALID_MODEL || failure.reason() == v1::Failure::UNSUPPORTED_OPERATOR;
      const std::string begin = by_size ? whereToBegin(request, variants, index, identity.first_bytes) : "";
      if (!begin.empty()) failure.set_fix(begin);
      return failureStatus(failure);
    }
    if (request.describe_model && result.model.nodes().empty()) {
      result.model = viewModel(*model);
      result.operators = operatorsOf(*model);
    }
    result.import_ms += import_time.ms();
    finished("import");
    const std::string nodes = absl::StrCat(model->nodes, " nodes");
    model->least = minSizes(variants, bindings);

    // The last inputs are the sizes of ranges, which are no state.
    const auto sizes = std::ranges::count_if(model->dimensions, [](const auto& each) { return each.size() < 0; });
    absl::StatusOr<std::vector<v1::State>> states =
        statesOf(state_options, {model->inputs.begin(), model->inputs.end() - sizes}, model->outputs);
    if (!states.ok()) return inVariant(bindings, count, states.status());

    // 2. Graph: rewrites, fused groups, one workload for equal groups, one arena for intermediates.
    const Stopwatch graph_time;
    const std::vector<v1::DimensionBinding> dimensions = model->dimensions;
    std::optional<verification::GraphCheck> check;
    if (request.spec.options().verify()) check.emplace();
    GraphOptions options{
        .winograd = optimized,
        .round_products = request.spec.options().precision() == v1::CompileOptions::BF16,
        .fusion_policy = optimized && facts.slices ? request.fusion_policy : fusion::FusionPolicy::kNever,
        .observer = check ? &*check : nullptr,
        .canonicalizer = &workbench->canonicalizer,
        .folded_weights = memoryOf(request),
        .code = facts,
        .pins = suggested ? *suggested : choicesOf(request.pins, variantText(model->inputs)),
        .states = *std::move(states)};
    options.folded_weights.folded = [&, told = int64_t{0}](int64_t bytes) mutable {
      if (bytes < told) told = 0;  // a new pass over the weights
      if (bytes - told < kToldEvery) return;
      told = bytes;
      report(progress, "import", static_cast<int>(&bindings - variants.data()), count,
             absl::StrCat("weights: ", megabytes(bytes), " folded"));
    };
    // Only code generation knows which groups it cannot slice.
    options.find_refused = [&](const PlannedGraph& graph) { return refusedSlices(graph, schedules); };
    options.on_step = request.finished;
    absl::StatusOr<PlannedGraph> graph = planGraph(*std::move(model), target, options);
    // A suggestion that does not fit is left out and the variant planned again; a pin that does not fit is an error.
    if (!graph.ok()) {
      suggested = options.pins;
      if (request.spec.pin_use() == v1::SUGGESTIONS && dropFailedSuggestion(graph.status(), *suggested, left_out))
        continue;
      return inVariant(bindings, count, graph.status());
    }
    for (const v1::Decision& decision : left_out) *graph->plan.mutable_report()->add_decisions() = decision;
    if (request.spec.pin_use() == v1::WHOLE_PLAN) {
      if (absl::Status status = checkAllPinned(graph->plan.report(), options.pins); !status.ok())
        return inVariant(bindings, count, status);
    }
    if (check && check->lost()) sayWhatIsLost(*check->lost(), *graph->plan.mutable_report());
    if (check) graph->plan.mutable_report()->mutable_verified()->Assign(check->steps().begin(), check->steps().end());
    graph->plan.mutable_dimensions()->Assign(dimensions.begin(), dimensions.end());
    result.shapes.merge(graph->shapes);
    TESSERA_RETURN_IF_ERROR(merger.add(*std::move(graph), bindings.text()));
    result.plan_ms += graph_time.ms();
    finished("merge-variants");
    report(progress, "import", merger.plan().variants_size() + 1, count,
           count == 1 ? nodes : absl::StrCat(bindings.text(), ": ", nodes));
    ++next;
    // Later variants start from the request's choices again.
    suggested.reset();
    left_out.clear();
  }
  const Stopwatch plan_time;
  result.plan = std::move(merger.plan());
  result.plan.set_model_sha256(identity.sha256);
  result.plan.set_compiler_version(compilerVersion());

  // 3. Loops: a schedule for each distinct workload.
  const int total = result.plan.workloads_size();
  std::vector<const v1::Workload*> workloads;
  // Schedules need code generation; a description does not.
  for (const v1::Workload& workload : result.plan.workloads())
    if (backend) workloads.push_back(&workload);
  schedules.decideAll(workloads, [&](int done, int open, const v1::Workload& workload) {
    report(progress, "plan", total - open + done, total, workload.summary());
  });
  for (v1::Workload& workload : *result.plan.mutable_workloads()) {
    if (!backend) break;
    v1::BuildUnit& unit = result.units.emplace_back(schedules.unitOf(workload));
    const absl::StatusOr<v1::Schedule>& schedule = schedules.of(workload);
    if (!schedule.ok()) return inWorkload(workload, schedule.status());
    *unit.mutable_schedule() = *schedule;
    *workload.mutable_schedule() = *schedule;
  }

  finished("schedules");
  TESSERA_RETURN_IF_ERROR(schedules.finish(*result.plan.mutable_report()));

  // 4. Weights: already folded and laid out, written in the order that the kernels read.
  result.has_weights = result.plan.weights_bytes() > 0;
  if (result.has_weights && !request.weights_path.empty()) {
    absl::Status status =
        writeWeights(merger.weights().take(), result.plan.weights_bytes(), request.weights_path, [&](int64_t bytes) {
          report(
              progress, "plan", total, total,
              absl::StrCat("weights: ", megabytes(bytes), " of ", megabytes(result.plan.weights_bytes()), " written"));
        });
    if (!status.ok()) return status;
  }
  finished("weights");
  report(progress, "plan", total, total, "");
  result.plan_ms += plan_time.ms();
  return result;
}

absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit) {
  const Backend* const backend = backendOf(unit.family());
  if (!backend) {
    return failureStatus(v1::Failure::INTERNAL,
                         absl::StrCat("no back end builds for family ", v1::Target::Family_Name(unit.family())));
  }
  absl::StatusOr<v1::BuiltObject> built = backend->build(unit);
  if (!built.ok() || !unit.verify()) return built;
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::VerifiedStep> steps, backend->verify(unit, *built));
  built->mutable_info()->mutable_verified()->Assign(steps.begin(), steps.end());
  return built;
}

absl::StatusOr<v1::BuiltObject> build(const v1::BuildUnit& unit, StepCache* steps, bool& known) {
  known = false;
  return onceMade<v1::BuiltObject>(
      steps, stepKey("object", {deterministicBytes(unit)}), [&] { return build(unit); }, &known);
}

}  // namespace tessera::compiler
