// Questions about a model that need no code: what is wrong with it, and what becomes of it.
#include "compiler/front_door.h"
#include "compiler/import/operator_table.h"
#include "compiler/model_format.h"
#include "compiler/pipeline.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/failure.h"
#include "proto/plan_view.h"

namespace tessera::compiler {
namespace {

/// Reasons that lie in the model or in how it was asked for: a check reports them. The others end the task.
bool isAnswer(v1::Failure::Reason reason) {
  return reason >= v1::Failure::INVALID_MODEL && reason <= v1::Failure::MISSING_BLOB;
}

/// Formats other than ONNX are texts, and end at the first mistake.
absl::StatusOr<v1::CheckReport> checkText(mlir::MLIRContext& context, const PlanRequest& request,
                                          const std::string& first_bytes) {
  absl::StatusOr<ImportedModel> model = importModel(context, request, first_bytes);
  if (!model.ok()) return model.status();
  v1::CheckReport report;
  report.set_nodes(model->nodes);
  report.mutable_inputs()->Assign(model->inputs.begin(), model->inputs.end());
  return report;
}

}  // namespace

absl::StatusOr<v1::CheckReport> check(const PlanRequest& request) {
  absl::StatusOr<FileIdentity> identity = identifyModel(request.model_path);
  if (!identity.ok()) return identity.status();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  const bool is_text = formatOf(request, identity->first_bytes) != v1::ONNX;
  absl::StatusOr<v1::CheckReport> report = is_text ? checkText(context, request, identity->first_bytes)
                                                   : checkOnnx(context, request.model_path, importOptions(request));
  if (!report.ok()) {
    const v1::Failure failure = failureOf(report.status());
    if (!isAnswer(failure.reason())) return report.status();
    report = v1::CheckReport();
    *report->add_problems() = failure;
  }
  report->set_model_sha256(identity->sha256);
  return report;
}

absl::StatusOr<v1::Explanation> explain(const PlanRequest& request) {
  PlanRequest question = request;
  question.weights_path.clear();
  question.describe_model = true;
  absl::StatusOr<PlanResult> planned = plan(question, {});
  if (!planned.ok()) return planned.status();
  v1::Explanation explanation;
  *explanation.mutable_before() = std::move(planned->model);
  *explanation.mutable_after() = viewPlan(planned->plan);
  *explanation.mutable_plan() = std::move(planned->plan);
  for (v1::Workload& workload : *explanation.mutable_plan()->mutable_workloads()) workload.clear_ir();
  return explanation;
}

std::vector<v1::OperatorInfo> operators() { return operatorTable(); }

}  // namespace tessera::compiler
