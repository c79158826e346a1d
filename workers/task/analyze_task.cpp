#include "compiler/pipeline.h"
#include "workers/task/model_task.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

constexpr const char* kReport = "report.pb";

}  // namespace

absl::StatusOr<v1::TaskResult> runAnalyzeTask(const TaskContext& task) {
  const v1::AnalyzeSpec& spec = task.spec().analyze().spec();
  auto request = planRequestFor(task, spec.compile(), task.spec().analyze().target());
  if (!request.ok()) return request.status();
  v1::Progress progress;
  progress.set_phase("analyze");
  progress.set_total(1);
  task.progress(progress);

  v1::TaskResult result;
  result.mutable_analyze()->set_report_file(kReport);
  absl::Status written;
  if (spec.question() == v1::AnalyzeSpec::CHECK) {
    auto report = compiler::check(*request);
    if (!report.ok()) return report.status();
    result.mutable_analyze()->set_problems(report->problems_size() + report->problems_left_out());
    written = writeOutput(task, kReport, *report, result);
  } else {
    auto explanation = compiler::explain(*request);
    if (!explanation.ok()) return explanation.status();
    written = writeOutput(task, kReport, *explanation, result);
  }
  if (!written.ok()) return written;
  return result;
}

}  // namespace tessera::worker
