// Lowers subgraphs and model-local functions at the node that holds or calls them.
#include "absl/strings/str_cat.h"
#include "compiler/import/graph_importer.h"
#include "compiler/import/limits.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

absl::StatusOr<std::vector<Tensor>> GraphImporter::inlineGraph(const onnx::GraphProto& graph,
                                                               const std::vector<Tensor>& arguments,
                                                               const Scope& outer) {
  if (arguments.size() != static_cast<size_t>(graph.input_size())) {
    return fault(v1::Failure::INVALID_MODEL,
                 absl::StrCat("subgraph '", printable(graph.name()), "' has ", graph.input_size(), " inputs"),
                 {.attribute = graph.name(),
                  .found = absl::StrCat(graph.input_size()),
                  .accepted = absl::StrCat(arguments.size())});
  }
  // Remembers visited subgraphs: a check lowers those that an If or Loop did not reach.
  if (check_) entered_.insert(&graph);
  Scope scope;
  // A subgraph sees the values around it, a function below only its arguments.
  scope.outer = &outer;
  scope.attributes = outer.attributes;
  scope.opsets = outer.opsets;
  TESSERA_RETURN_IF_ERROR(readInitializers(graph, scope));
  for (int i = 0; i < graph.input_size(); ++i) scope.values[graph.input(i).name()] = arguments[i];
  TESSERA_RETURN_IF_ERROR(lowerNodes(graph, scope));
  std::vector<Tensor> results;
  for (const auto& output : graph.output()) {
    const Tensor* value = scope.find(output.name());
    if (!value) {
      return fault(v1::Failure::INVALID_MODEL,
                   absl::StrCat("output '", printable(output.name()), "' of subgraph '", printable(graph.name()),
                                "' is defined by nothing"),
                   {.attribute = output.name(), .accepted = "a value of the subgraph or around it"});
    }
    if (value->unknown) return dependsOnProblem();  // no lowering could use it
    results.push_back(*value);
  }
  return results;
}

absl::StatusOr<std::vector<Tensor>> GraphImporter::inlineFunction(const onnx::FunctionProto& function, Node& call) {
  // Functions may call each other in a circle.
  if (function_depth_ >= limits::kFunctionNesting) {
    return call.invalid("functions call each other without end",
                        {.found = absl::StrCat("calls nested deeper than ", limits::kFunctionNesting),
                         .accepted = "functions that do not call themselves"});
  }
  if (call.numInputs() > function.input_size()) {
    return call.invalid(
        absl::StrCat("has ", call.numInputs(), " inputs"),
        {.found = absl::StrCat(call.numInputs()), .accepted = absl::StrCat("up to ", function.input_size())});
  }
  const FunctionAttributes attributes = call.resolvedAttributes();
  const std::string domain = function.domain() == "ai.onnx" ? "" : function.domain();
  Scope scope;
  scope.attributes = &attributes;
  scope.opsets = &function_opsets_[absl::StrCat(domain, ":", function.name())];
  for (int i = 0; i < function.input_size(); ++i) {
    // A missing argument is an absent value, as for operators.
    scope.values[function.input(i)] = i < call.numInputs() ? call.in(i) : Tensor{};
  }
  // A function body is a graph without types; orderNodes requires a graph.
  onnx::GraphProto body;
  *body.mutable_node() = function.node();
  for (const std::string& output : function.output()) body.add_output()->set_name(output);
  ++function_depth_;
  absl::Status status = lowerNodes(body, scope);
  --function_depth_;
  TESSERA_RETURN_IF_ERROR(status);
  std::vector<Tensor> results;
  for (const std::string& output : function.output()) {
    const Tensor* value = scope.find(output);
    if (!value) {
      return call.invalid(absl::StrCat("the function's output '", printable(output), "' is defined by nothing"),
                          {.attribute = output, .accepted = "a value of the function's body"});
    }
    results.push_back(*value);
  }
  return results;
}

}  // namespace tessera::compiler
