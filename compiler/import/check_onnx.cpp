// Checking: an import that continues after a problem, so that one pass finds all problems.
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/import/graph_importer.h"
#include "compiler/import/graph_order.h"
#include "compiler/import/limits.h"
#include "compiler/ir/loop_op.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Sizes assumed for unbound dimensions. 1 suits nearly every batch and sequence; an image must be larger than the
/// windows on it.
constexpr int64_t kStandIns[] = {1, 224, 64};

std::string domainOf(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

absl::Status completed(v1::Failure failure) {
  failure.set_reason(v1::Failure::UNSUPPORTED_OPERATOR);
  failure.set_message(absl::StrCat("node '", failure.node(), "' uses ", failure.found(),
                                   ", an operator that Tessera does not compile"));
  failure.set_accepted("the operators that `tessera ops` lists");
  return failureStatus(failure);
}

std::map<std::string, int64_t> lenientImports(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, int64_t> versions;
  for (const auto& entry : imports) {
    const std::string domain = domainOf(entry.domain());
    const int64_t version = domain.empty() ? std::clamp<int64_t>(entry.version(), 1, kNewestOpset) : entry.version();
    versions.emplace(domain, version);
  }
  return versions;
}

}  // namespace

absl::Status GraphImporter::tolerate(absl::Status status) {
  if (!check_) return status;
  check_->add(status);
  return absl::OkStatus();
}

/// After an error in the imports or functions, uses the nearest known version, so that the nodes can still be checked.
void GraphImporter::readOpsetsLeniently() {
  opsets_ = lenientImports(model_->opset_import());
  opsets_.emplace("", kNewestOpset);
  for (const auto& function : model_->functions()) {
    const std::string key = absl::StrCat(domainOf(function.domain()), ":", function.name());
    functions_.emplace(key, &function);
    function_opsets_[key] = lenientImports(function.opset_import());
  }
}

/// Reads the static types that the model declares for its values.
void GraphImporter::readDeclaredTypes(const onnx::GraphProto& graph) {
  const auto read = [&](const onnx::ValueInfoProto& info) {
    const auto& type = info.type().tensor_type();
    const auto dtype = elementType(type.elem_type());
    if (!dtype || !type.has_shape()) return;
    v1::TensorSpec spec;
    spec.set_dtype(*dtype);
    for (const auto& dim : type.shape().dim()) {
      if (!dim.has_dim_value()) return;
      spec.add_shape(dim.dim_value());
    }
    if (!checkShape(Shape(spec.shape().begin(), spec.shape().end()), *dtype, "a value").ok()) return;
    declared_.emplace(info.name(), std::move(spec));
  };
  // The file's annotations stand for what a failed node would have computed.
  for (const auto& info : graph.value_info()) read(info);
  for (const auto& info : graph.output()) read(info);
}

/// Declarations may be stale (a model exported at another batch size): one wrong declaration discards all.
void GraphImporter::compareWithDeclared(const std::string& name, const Tensor& value) {
  // Inside a function a name may mean another value.
  if (declared_.empty() || value.unknown || function_depth_ > 0 || !(value.value || value.constant)) return;
  auto declared = declared_.find(name);
  if (declared == declared_.end()) return;
  const v1::TensorSpec& spec = declared->second;
  if (spec.dtype() != value.dtype ||
      !std::equal(spec.shape().begin(), spec.shape().end(), value.shape.begin(), value.shape.end())) {
    declared_.clear();
  }
}

std::optional<Tensor> GraphImporter::declaredValue(const std::string& name) {
  auto declared = function_depth_ > 0 ? declared_.end() : declared_.find(name);
  if (declared == declared_.end()) return std::nullopt;
  const v1::TensorSpec& spec = declared->second;
  // An argument of the main function gives a value of the declared type without computing anything.
  Emitter e = emitter("declared");
  const auto type = e.type(spec.dtype(), Shape(spec.shape().begin(), spec.shape().end()));
  return Emitter::wrap(main_.getBody().front().addArgument(type, e.loc), spec.dtype());
}

/// Gives the results of a failed node their declared types, or marks them as unknown.
void GraphImporter::standInForResults(const onnx::NodeProto& proto, Scope& scope) {
  for (const std::string& output : proto.output()) {
    if (output.empty()) continue;
    std::optional<Tensor> declared = declaredValue(output);
    scope.values[output] = declared ? *std::move(declared) : Tensor{.unknown = true};
  }
}

/// A lowering stops at the first subgraph with a problem; this checks the remaining ones.
void GraphImporter::checkOtherBranches(const onnx::NodeProto& proto, Scope& scope) {
  for (const auto& attribute : proto.attribute()) {
    if (!attribute.has_g() || attribute.g().input_size() > 0 || entered_.contains(&attribute.g())) continue;
    check_->add(inlineGraph(attribute.g(), {}, scope).status());
  }
}

void GraphImporter::check(ModelCheck& problems, v1::CheckReport& report) {
  check_ = &problems;
  const onnx::GraphProto& graph = model_->graph();
  if (absl::Status status = readOpsets(); !status.ok()) {
    check_->add(status);
    readOpsetsLeniently();
  }
  for (const auto& [domain, version] : opsets_) {
    v1::CheckReport::OpsetVersion* opset = report.add_opsets();
    opset->set_domain(printable(domain));
    opset->set_version(version);
  }

  // First counts operators in all subgraphs and functions, also in those that lowering never reaches.
  std::map<std::pair<std::string, std::string>, v1::CheckReport::OperatorUse> uses;
  std::set<std::string> entered;
  for (int i = 0; i < graph.node_size(); ++i) {
    check_->setPosition(i);
    const auto visit = [&](const NodeVisit& node) {
      const std::string domain = domainOf(node.node.domain());
      std::optional<v1::Failure> failure = unsupportedOperator(node);
      auto [use, fresh] = uses.try_emplace({domain, node.node.op_type()});
      use->second.set_domain(printable(domain));
      use->second.set_name(printable(node.node.op_type()));
      use->second.set_count(use->second.count() + 1);
      // An operator counts as supported only if all its nodes are.
      use->second.set_supported((fresh || use->second.supported()) && !failure);
      report.set_nodes(report.nodes() + 1);
      if (failure) check_->add(completed(*std::move(failure)));
    };
    visitNodes(graph.node(i), i, visit, entered);
  }
  for (auto& [name, use] : uses) *report.add_operators() = std::move(use);

  beginModule();
  readDeclaredTypes(graph);
  Scope scope;
  scope.opsets = &opsets_;
  check_->setPosition(ModelCheck::kBeforeNodes);
  // While a model is checked these return OK even after problems, unless the check cannot continue.
  absl::Status status = readInitializers(graph, scope);
  if (status.ok()) status = bindInputs(graph, scope);
  for (const v1::TensorSpec& input : result_.inputs) {
    *report.add_inputs() = input;
    report.mutable_inputs()->rbegin()->set_name(printable(input.name()));
  }
  if (status.ok()) status = lowerNodes(graph, scope);
  check_->add(status);
  if (stop_checking_) return;

  check_->setPosition(ModelCheck::kAfterNodes);
  // Without outputs, bindOutputs() reports just that.
  if (graph.output_size() == 0) check_->add(bindOutputs(graph, scope));
  // Values of nodes on a cycle count as known, because the cycle itself is reported.
  for (const auto& node : graph.node()) {
    for (const auto& output : node.output()) {
      if (!scope.find(output)) scope.values[output].unknown = true;
    }
  }
  std::set<std::string> names;
  for (const auto& output : graph.output()) check_->add(checkOutput(output, scope, names));
  report.mutable_run_faults()->Assign(result_.run_faults.begin(), result_.run_faults.end());
}

absl::StatusOr<v1::CheckReport> checkOnnx(mlir::MLIRContext& context, const std::string& path,
                                          const ImportOptions& options) {
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect, LoopDialect>();
  TESSERA_ASSIGN_OR_RETURN(auto model, parseModelFile(path));
  if (!model->has_graph()) return noGraph();
  std::optional<v1::CheckReport> best;
  int fewest = 0;
  bool fix_defaults = false;
  // Unbound dimensions are tried at several sizes, as one size can break a model that another fits. The attempt with
  // the fewest problems is reported.
  for (size_t i = 0; i < std::size(kStandIns);) {
    ModelCheck problems(kStandIns[i]);
    v1::CheckReport report;
    GraphImporter importer(context, model, options, fix_defaults);
    importer.check(problems, report);
    // A model that would work with an input fixed is also checked that way; the report then suggests it.
    if (ImportOptions fixed = options;
        importer.inputToFix() &&
        fixed.fixed_inputs.emplace(importer.inputToFix()->spec().name(), *importer.inputToFix()).second) {
      ModelCheck other_problems(kStandIns[i]);
      v1::CheckReport other_report;
      GraphImporter(context, model, fixed, fix_defaults).check(other_problems, other_report);
      if (other_problems.real() < problems.real()) {
        other_problems.write(other_report);
        if (!best || other_problems.real() < fewest) {
          fewest = other_problems.real();
          best = std::move(other_report);
        }
        if (fewest == 0 || !other_problems.hasAssumptions()) break;
        ++i;
        continue;
      }
    }
    problems.write(report);
    if (!best || problems.real() < fewest) {
      fewest = problems.real();
      best = std::move(report);
    }
    if (fewest == 0) break;
    if (importer.hasDefaults()) {  // as importOnnx does
      fix_defaults = true;
      continue;
    }
    if (!problems.hasAssumptions()) break;
    ++i;
  }
  return *std::move(best);
}

}  // namespace tessera::compiler
