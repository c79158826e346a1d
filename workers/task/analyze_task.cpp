#include "compiler/driver/pipeline.h"
#include "proto/support/status_macros.h"
#include "workers/task/model_task.h"
#include "workers/task/task_kinds.h"

namespace tessera::worker {
namespace {

constexpr const char* kReport = "report.pb";

}  // namespace

absl::StatusOr<v1::TaskResult> runAnalyzeTask(const TaskContext& task) {
  const v1::AnalyzeSpec& spec = task.spec().analyze().spec();
  TESSERA_ASSIGN_OR_RETURN(auto request, planRequestFor(task, spec.compile(), task.spec().analyze().target()));
  v1::Progress progress;
  progress.set_phase("analyze");
  progress.set_total(1);
  task.progress(progress);

  v1::TaskResult result;
  result.mutable_analyze()->set_report_file(kReport);
  absl::Status written;
  if (spec.question() == v1::AnalyzeSpec::CHECK) {
    TESSERA_ASSIGN_OR_RETURN(auto report, compiler::check(request));
    result.mutable_analyze()->set_problems(report.problems_size() + report.problems_left_out());
    written = writeOutput(task, kReport, report, result);
  } else {
    TESSERA_ASSIGN_OR_RETURN(auto explanation, compiler::explain(request));
    written = writeOutput(task, kReport, explanation, result);
  }
  if (!written.ok()) return written;
  return result;
}

}  // namespace tessera::worker
