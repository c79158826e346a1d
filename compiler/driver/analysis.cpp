// Reports about a model that need no generated code: its problems, and what planning makes of it.
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/driver/model_format.h"
#include "compiler/driver/model_loader.h"
#include "compiler/driver/pipeline.h"
#include "compiler/import/operator_table.h"
#include "mlir/IR/MLIRContext.h"
#include "proto/messages/failure.h"
#include "proto/messages/plan_view.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Reasons about the model or the request: a check reports them. Other reasons end the task.
bool isAnswer(v1::Failure::Reason reason) {
  return reason >= v1::Failure::INVALID_MODEL && reason <= v1::Failure::MISSING_BLOB;
}

/// Formats other than ONNX are text; their parsers stop at the first error.
absl::StatusOr<v1::CheckReport> checkText(mlir::MLIRContext& context, const PlanRequest& request,
                                          const Bindings& bindings, const std::string& first_bytes) {
  TESSERA_ASSIGN_OR_RETURN(ImportedModel model, loadModel(context, request, bindings, first_bytes));
  v1::CheckReport report;
  report.set_nodes(model.nodes);
  report.mutable_inputs()->Assign(model.inputs.begin(), model.inputs.end());
  return report;
}

/// An unreadable file becomes the only problem of the report.
absl::StatusOr<v1::CheckReport> unreadable(const absl::Status& status) {
  const v1::Failure failure = failureOf(status);
  if (!isAnswer(failure.reason())) return status;
  v1::CheckReport report;
  *report.add_problems() = failure;
  return report;
}

absl::StatusOr<v1::CheckReport> checkVariant(const PlanRequest& request, const Bindings& bindings,
                                             const std::string& first_bytes) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  absl::StatusOr<v1::CheckReport> report =
      formatOf(request, first_bytes) == v1::ONNX
          ? checkOnnx(context, request.model_path, importOptions(request, bindings))
          : checkText(context, request, bindings, first_bytes);
  return report.ok() ? report : unreadable(report.status());
}

}  // namespace

absl::StatusOr<v1::CheckReport> check(const PlanRequest& request) {
  absl::StatusOr<FileIdentity> identity = identifyModel(request.model_path);
  if (!identity.ok()) return unreadable(identity.status());
  TESSERA_ASSIGN_OR_RETURN(std::vector<Bindings> variants, variantsOf(request.spec));
  std::vector<v1::CheckReport> reports;
  for (const Bindings& bindings : variants) {
    TESSERA_ASSIGN_OR_RETURN(v1::CheckReport report, checkVariant(request, bindings, identity->first_bytes));
    reports.push_back(std::move(report));
  }
  // For a problem that only some variants have, names the first of these.
  v1::CheckReport whole = reports.front();
  whole.clear_problems();
  std::map<std::string, size_t> having;  // variants with a problem
  const auto identityOf = [](const v1::Failure& problem) { return problem.node() + "\n" + problem.message(); };
  // A problem may occur several times in one variant, but counts once.
  for (const v1::CheckReport& report : reports) {
    std::set<std::string> of_variant;
    for (const v1::Failure& problem : report.problems())
      if (of_variant.insert(identityOf(problem)).second) ++having[identityOf(problem)];
  }
  std::set<std::string> told;
  for (size_t v = 0; v < reports.size(); ++v) {
    for (v1::Failure& problem : *reports[v].mutable_problems()) {
      const std::string identity_of_problem = identityOf(problem);
      if (!told.insert(identity_of_problem).second) continue;
      // A problem that all variants have needs no variant's name.
      if (having[identity_of_problem] < reports.size())
        problem.set_message(absl::StrCat("variant ", variants[v].text(), ": ", problem.message()));
      *whole.add_problems() = std::move(problem);
    }
  }
  whole.set_model_sha256(identity->sha256);
  return whole;
}

absl::StatusOr<v1::Explanation> explain(const PlanRequest& request) {
  PlanRequest question = request;
  question.weights_path.clear();
  question.describe_model = true;
  TESSERA_ASSIGN_OR_RETURN(PlanResult planned, plan(question, {}));
  v1::Explanation explanation;
  *explanation.mutable_before() = std::move(planned.model);
  explanation.mutable_operators()->Assign(planned.operators.begin(), planned.operators.end());
  *explanation.mutable_after() = viewPlan(planned.plan);
  *explanation.mutable_plan() = std::move(planned.plan);
  // The IR is large, and an explanation shows summaries.
  for (v1::Workload& workload : *explanation.mutable_plan()->mutable_workloads()) workload.clear_ir();
  return explanation;
}

std::vector<v1::OperatorInfo> operators() { return operatorTable(); }

}  // namespace tessera::compiler
