#include "server/testing/fake_work.h"

#include <sstream>

#include "tessera/v1/analysis.pb.h"

namespace tessera::server {

void FakeWork::addFile(v1::TaskResult& result, const std::string& name, const std::string& bytes) const {
  v1::OutputFile* file = result.add_files();
  file->set_name(name);
  *file->mutable_digest() = put_(bytes);
}

v1::TaskResult FakeWork::plan(const v1::PlanTask& task) const {
  v1::TaskResult result;
  std::string model = get_(task.spec().model());
  if (pinned_units && task.spec().has_pins()) {
    model = model.substr(0, model.find(':') + 1) + " " + pinned_units(get_(task.spec().pins()));
  }
  std::istringstream units(model.substr(model.find(':') + 1));
  v1::PlanTaskResult* plan = result.mutable_plan();
  plan->set_import_ms(1);
  plan->set_plan_ms(2);
  plan->set_plan_file("plan.pb");
  plan->set_weights_file("weights.bin");
  addFile(result, "plan.pb", "plan of " + model + "\n" + task.target().name() + " " + task.spec().pins().sha256());
  addFile(result, "weights.bin", "weights of " + model);
  if (task.report_ambiguous_choices() && !task.spec().has_pins()) {
    plan->mutable_ambiguous_choices()->Assign(ambiguous_choices.begin(), ambiguous_choices.end());
  }
  std::string unit;
  while (units >> unit) {
    auto* entry = plan->add_units();
    entry->set_workload_hash(unit);
    entry->set_summary("workload " + unit);
    entry->mutable_shape()->set_operators("operators of " + unit);
    entry->set_file(std::to_string(plan->units_size()) + ".unit");
    addFile(result, entry->file(), "unit " + unit);
  }
  return result;
}

v1::TaskResult FakeWork::assemble(const v1::AssembleTask& task) const {
  v1::TaskResult result;
  std::string bytes = "artifact " + get_(task.plan()) + get_(task.weights());
  for (const v1::Digest& object : task.objects()) {
    bytes += "\n" + get_(object);
  }
  addFile(result, "out.tsra", bytes);
  result.mutable_assemble()->set_artifact_file("out.tsra");
  v1::Manifest* manifest = result.mutable_assemble()->mutable_manifest();
  manifest->set_name(task.name());
  manifest->set_kernels(task.objects_size());
  v1::TensorSpec x;  // optional in runs
  x.set_name("x");
  x.set_dtype(v1::DATA_TYPE_F32);
  x.add_shape(1);
  *manifest->add_inputs() = x;
  *manifest->add_fixed_inputs()->mutable_spec() = x;
  return result;
}

void FakeWork::finish(const v1::PlanTask& task, v1::TaskResult& result) const {
  v1::AssembleTask assembly;
  assembly.set_name(task.spec().name());
  const auto digestOf = [&](const std::string& name) {
    for (const v1::OutputFile& file : result.files()) {
      if (file.name() == name) {
        return file.digest();
      }
    }
    return v1::Digest();
  };
  *assembly.mutable_plan() = digestOf("plan.pb");
  *assembly.mutable_weights() = digestOf("weights.bin");
  for (auto& unit : *result.mutable_plan()->mutable_units()) {
    unit.set_object_file(unit.file() + ".object");
    addFile(result, unit.object_file(), "object of " + get_(digestOf(unit.file())));
    *assembly.add_objects() = digestOf(unit.object_file());
  }
  const v1::TaskResult assembled = assemble(assembly);
  *result.mutable_plan()->mutable_assembled() = assembled.assemble();
  *result.add_files() = assembled.files(0);
  result.mutable_plan()->set_build_ms(3);
  result.mutable_plan()->set_assemble_ms(4);
}

v1::TaskResult FakeWork::analyze(const v1::AnalyzeTask& task) const {
  const std::string model = get_(task.spec().compile().model());
  v1::CheckReport report;
  for (size_t at = model.find(" bad"); at != std::string::npos; at = model.find(" bad", at + 1)) {
    report.add_problems()->set_message("a bad unit");
  }
  v1::TaskResult result;
  addFile(result, "report.pb", report.SerializeAsString());
  result.mutable_analyze()->set_report_file("report.pb");
  result.mutable_analyze()->set_problems(report.problems_size());
  return result;
}

v1::TaskResult FakeWork::search(const v1::SearchTask& task) const {
  v1::TaskResult result;
  int tried = 0;
  for (const v1::SearchLog::Batch& batch : task.log().batches()) {
    tried += batch.speeds_size();
  }
  result.mutable_search();
  for (int i = 0; i < task.wanted(); ++i) {
    auto* proposal = result.mutable_search()->add_proposals();
    proposal->mutable_schedule()->set_vector_bits(++tried);
    proposal->set_unit_file("unit-" + std::to_string(i));
    v1::CandidateUnit unit;
    unit.mutable_unit()->set_ir("candidate of " + task.search() + " " + std::to_string(tried));
    unit.set_trial(task.search() + "-" + std::to_string(task.log().batches_size()) + "-" + std::to_string(i + 1));
    addFile(result, proposal->unit_file(), unit.SerializeAsString());
    result.mutable_search()->mutable_batch()->add_refused(false);
  }
  if (!task.log().batches().empty()) {
    const auto& last = task.log().batches().rbegin()->speeds();
    for (int at = 0; at < last.size(); ++at) {
      if (last[at] < 0) result.mutable_search()->mutable_batch()->add_pending(at);
    }
  }
  return result;
}

std::string FakeWork::build(const v1::BuildTask& task) const {
  const std::string unit = get_(task.unit());
  v1::CandidateUnit candidate;
  if (!task.candidate() || !candidate.ParseFromString(unit)) {
    return "object of " + unit;
  }
  v1::CandidateObject object;
  object.mutable_object()->set_object("object of " + candidate.unit().ir());
  object.set_trial(candidate.trial());
  return object.SerializeAsString();
}

v1::TaskResult FakeWork::measure(const v1::MeasureTask& task) const {
  v1::TaskResult result;
  v1::MeasureTaskResult& measured = *result.mutable_measure();
  measured.add_baseline_ms(1);
  if (task.workload_hash().empty()) {
    const std::string plan = get_(task.has_candidate_plan() ? task.candidate_plan() : task.plan());
    std::istringstream units(plan.substr(0, plan.find('\n')));
    std::string word;
    units >> word >> word >> word >> word;  // "plan of model <name>:"
    while (task.candidate().sha256().empty() && units >> word) {
      auto* step = measured.add_steps();
      step->set_workload_hash(word);
      step->set_median_ms(1);
    }
    measured.add_candidate_ms(0.5);
    const std::string pins = plan.substr(plan.rfind(' ') + 1);
    if (model && !pins.empty()) {
      v1::Digest digest;
      digest.set_sha256(pins);
      model(get_(digest), measured);
    }
    if (task.has_candidate_plan()) {
      *measured.mutable_baseline_own_ms() = measured.baseline_ms();
      *measured.mutable_candidate_own_ms() = measured.candidate_ms();
      if (own) {
        own(measured);
      }
    }
    return result;
  }
  measured.add_candidate_ms(1);
  if (trial) {
    v1::CandidateObject candidate;
    candidate.ParseFromString(get_(task.candidate()));
    const std::string& object = candidate.object().object();
    trial(task.workload_hash(), std::stoi(object.substr(object.rfind(' '))), measured);
  }
  return result;
}

v1::TaskResult FakeWork::run(const v1::TaskSpec& task) const {
  v1::TaskResult result;
  switch (task.kind()) {
    case v1::PLAN:
      result = plan(task.plan());
      if (finishes_small && task.plan().finish_small() && result.plan().units_size() <= 1) {
        finish(task.plan(), result);
      }
      break;
    case v1::BUILD:
      addFile(result, "object.pb", build(task.build()));
      result.mutable_build()->set_object_file("object.pb");
      break;
    case v1::ASSEMBLE:
      result = assemble(task.assemble());
      break;
    case v1::SEARCH:
      result = search(task.search());
      break;
    case v1::MEASURE:
      result = measure(task.measure());
      break;
    case v1::ANALYZE:
      result = analyze(task.analyze());
      break;
    case v1::EXECUTE:
      result.mutable_execute()->set_latency_ms(1.5);
      *result.mutable_execute()->mutable_outputs() = task.execute().inputs();
      break;
    default:
      for (int i = 0; i < 2; ++i) {
        auto* kernel = result.mutable_profile()->add_kernels();
        kernel->set_name("step " + std::to_string(i));
        kernel->set_symbol("kernel" + std::to_string(i));
        kernel->set_median_ms(0.25 * (i + 1));
        kernel->set_flops(1000);
        kernel->set_workload_hash("hash" + std::to_string(i));
        for (double ms : {0.2, 0.25, 0.3}) kernel->add_times_ms(ms * (i + 1));
      }
      result.mutable_profile()->add_latency_ms(0.75);
      break;
  }
  result.mutable_usage()->set_cpu_ms(5);
  return result;
}

v1::TaskResult failedResult(v1::Failure::Reason reason) {
  v1::TaskResult result;
  result.mutable_failure()->set_reason(reason);
  result.mutable_failure()->set_message("for the test: " + v1::Failure::Reason_Name(reason));
  return result;
}

}  // namespace tessera::server
