// The interface of a graph: operator set versions, initializers, inputs with their shapes, outputs.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/graph_importer.h"
#include "compiler/import/graph_order.h"
#include "compiler/import/limits.h"
#include "compiler/import/operator.h"
#include "compiler/import/read_sparse.h"
#include "compiler/import/stated_formulas.h"
#include "compiler/import/symbolic_dimensions.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/Support/JSON.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::Status checkName(const std::string& name, const std::string& what) {
  if (!name.empty() && llvm::json::isUTF8(name)) return absl::OkStatus();
  return fault(v1::Failure::INVALID_MODEL,
               absl::StrCat(what, " of the graph has no valid name: '", printable(name), "'"),
               {.attribute = what, .found = name, .accepted = "a name in UTF-8"});
}

std::string domainOf(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

/// Advice for unsupported operators, by domain.
struct Remedy {
  const char* domain;
  const char* text;
};
constexpr Remedy kRemedies[] = {
    {kMachineLearning,
     "keep strings and maps out of the model: train on numbers, encode words before the artifact; or convert the "
     "estimator to tensor operations before export, as hummingbird-ml does"},
    {"ai.onnx.contrib", "remove tokenizers and file decoders from the model, and run those before the artifact"},
    {"ai.onnx.preview.training", "export the model for inference, without its optimizer"},
    {"ai.onnx.training", "export the model for inference, without its gradients"},
    {kMicrosoft, "export without ONNX Runtime's fusions: the model as it was before its optimizer"},
    {"org.pytorch.aten", "export with operators of ONNX alone: operator_export_type=OperatorExportTypes.ONNX"},
};

/// Advice for operators of ONNX that no artifact can have: equal inputs give equal results, and tensors hold numbers.
constexpr const char* kDrawBefore =
    "draw the random numbers before the artifact and make them an input of the model; or export the model without "
    "noise";
constexpr const char* kEncodeBefore =
    "convert text to numbers before the artifact, and remove that part from the model";
constexpr std::pair<const char*, const char*> kRemediesOfOperators[] = {
    {"Bernoulli", kDrawBefore},          {"Multinomial", kDrawBefore},   {"RandomNormal", kDrawBefore},
    {"RandomNormalLike", kDrawBefore},   {"RandomUniform", kDrawBefore}, {"RandomUniformLike", kDrawBefore},
    {"StringConcat", kEncodeBefore},     {"StringSplit", kEncodeBefore}, {"RegexFullMatch", kEncodeBefore},
    {"StringNormalizer", kEncodeBefore},
};

const char* remedyFor(const std::string& domain, const std::string& op) {
  // Remedies of single operators first, then of whole domains.
  for (const auto& [name, text] : kRemediesOfOperators)
    if (domain.empty() && op == name) return text;
  if (domain == kMachineLearning && op == "ZipMap") {
    return "export scores as a tensor: options={'zipmap': False} for skl2onnx, zipmap=False for onnxmltools";
  }
  if (domain.empty() && op == "ImageDecoder")
    return "remove it: decode images before the artifact, as Pillow or libjpeg-turbo do, and make its result, u8 "
           "pixels (height x width x channels), an input of the model";
  const std::string of = op == "ATen" ? "org.pytorch.aten" : domain;
  for (const Remedy& remedy : kRemedies)
    if (of == remedy.domain) return remedy.text;
  return "replace the operator, or lower it before export";
}

template <typename Imports>
absl::StatusOr<std::map<std::string, int64_t>> readImports(const Imports& imports) {
  std::map<std::string, int64_t> versions;
  for (const auto& entry : imports) {
    const std::string domain = domainOf(entry.domain());
    // Importing "" and "ai.onnx" in the same version is no contradiction.
    if (const auto known = versions.emplace(domain, entry.version()).first; known->second != entry.version()) {
      return fault(v1::Failure::INVALID_MODEL,
                   absl::StrCat("operator set '", printable(domain), "' is imported in two versions"),
                   {.attribute = "opset_import",
                    .found = absl::StrCat(known->second, " and ", entry.version()),
                    .accepted = "one version of each domain"});
    }
    const int newest = domain == kMachineLearning ? kNewestMachineLearning : kNewestOpset;
    if ((domain.empty() || domain == kMachineLearning) && (entry.version() < 1 || entry.version() > newest)) {
      return fault(v1::Failure::UNSUPPORTED_OPERATOR,
                   absl::StrCat("the model needs operator set version ", entry.version(),
                                domain.empty() ? "" : " of ai.onnx.ml"),
                   {.attribute = "opset_import",
                    .found = absl::StrCat(entry.version()),
                    .accepted = absl::StrCat("versions 1 to ", newest),
                    .remedy = "convert the model with onnx.version_converter"});
    }
  }
  return versions;
}

}  // namespace

std::optional<int64_t> importedVersion(const std::map<std::string, int64_t>& opsets, const std::string& domain) {
  if (const auto known = opsets.find(domain); known != opsets.end()) return known->second;
  // ONNX Runtime's own tools omit the import of its domain, which has one version.
  return domain == kMicrosoft ? std::optional<int64_t>(1) : std::nullopt;
}

absl::Status GraphImporter::readOpsets() {
  TESSERA_ASSIGN_OR_RETURN(opsets_, readImports(model_->opset_import()));
  if (opsets_.empty() && model_->ir_version() >= 3) {
    return fault(v1::Failure::INVALID_MODEL, "the model imports no operator set",
                 {.attribute = "opset_import",
                  .found = "none",
                  .accepted = "the version its operators are meant in",
                  .remedy = "the file may be cut off: compare it with its source"});
  }
  opsets_.emplace("", 1);  // models before IR version 3 import nothing and mean version 1
  for (const auto& function : model_->functions()) {
    const std::string key = absl::StrCat(domainOf(function.domain()), ":", function.name());
    if (!functions_.emplace(key, &function).second) {
      return fault(v1::Failure::INVALID_MODEL, absl::StrCat("function '", printable(key), "' is defined twice"),
                   {.attribute = "functions", .found = key, .accepted = "each function once"});
    }
    TESSERA_ASSIGN_OR_RETURN(function_opsets_[key], readImports(function.opset_import()));
  }
  return absl::OkStatus();
}

void GraphImporter::visitNodes(const onnx::NodeProto& node, int index, const Visitor& visit,
                               std::set<std::string>& entered) const {
  // Functions are kept in a list, because a chain of calls may be deeper than the stack allows.
  // Each function is visited once, from the first node that calls it.
  std::vector<std::string> waiting;
  visitWithSubgraphs(node, index, opsets_, visit, waiting);
  while (!waiting.empty()) {
    const std::string key = std::move(waiting.back());
    waiting.pop_back();
    if (!entered.insert(key).second) continue;
    const onnx::FunctionProto& function = *functions_.at(key);
    for (int i = 0; i < function.node_size(); ++i) {
      visitWithSubgraphs(function.node(i), i, function_opsets_.at(key), visit, waiting);
    }
  }
}

void GraphImporter::visitWithSubgraphs(const onnx::NodeProto& node, int index,
                                       const std::map<std::string, int64_t>& opsets, const Visitor& visit,
                                       std::vector<std::string>& calls) const {
  for (const auto& attribute : node.attribute()) {
    for (int i = 0; i < attribute.g().node_size(); ++i) {
      visitWithSubgraphs(attribute.g().node(i), i, opsets, visit, calls);
    }
  }
  std::string key = absl::StrCat(domainOf(node.domain()), ":", node.op_type());
  const bool is_call = functions_.contains(key);
  visit({node, index, opsets, is_call});
  if (is_call) calls.push_back(std::move(key));
}

std::optional<v1::Failure> GraphImporter::unsupportedOperator(const NodeVisit& visit) const {
  const onnx::NodeProto& node = visit.node;
  const std::string domain = domainOf(node.domain());
  const std::optional<int64_t> version = importedVersion(visit.opsets, domain);
  if (visit.is_call || (version && findOperator(domain, node.op_type(), *version))) {
    return std::nullopt;
  }
  v1::Failure failure;
  failure.set_node(printable(nodeLabel(node, visit.index)));
  failure.set_op_type(printable(node.op_type()));
  const std::string full = domain.empty() ? node.op_type() : absl::StrCat(domain, ".", node.op_type());
  if (!version) {
    failure.set_found(absl::StrCat(printable(full), " of the domain '", printable(domain), "' (not in opset_import)"));
  } else if (knowsOperator(domain, node.op_type())) {
    failure.set_found(absl::StrCat(printable(full), " in version ", *version));
  } else {
    failure.set_found(printable(full));
  }
  failure.set_fix(remedyFor(domain, node.op_type()));
  return failure;
}

absl::Status GraphImporter::checkOperators(const onnx::GraphProto& graph) {
  std::vector<v1::Failure> faults;
  std::set<std::string> entered;
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto collect = [&](const NodeVisit& visit) {
      if (auto failure = unsupportedOperator(visit)) faults.push_back(*std::move(failure));
    };
    visitNodes(graph.node(i), i, collect, entered);
  }
  if (faults.empty()) return absl::OkStatus();
  std::vector<std::string> list;
  for (const v1::Failure& failure : faults) {
    // A message lists the first few; their number tells the rest.
    if (list.size() == limits::kListedFaults) break;
    list.push_back(absl::StrCat("node '", failure.node(), "': ", failure.found()));
  }
  const size_t rest = faults.size() - list.size();
  return fault(v1::Failure::UNSUPPORTED_OPERATOR,
               absl::StrCat(faults.size(), faults.size() == 1 ? " node uses an operator" : " nodes use operators",
                            " that Tessera does not compile: ", absl::StrJoin(list, "; "),
                            rest > 0 ? absl::StrCat("; and ", rest, " more") : ""),
               {.found = faults[0].found(),
                .accepted = "the operators that `tessera ops` lists",
                .remedy = faults[0].fix(),
                .node = faults[0].node(),
                .op_type = faults[0].op_type()});
}

absl::Status GraphImporter::readInitializers(const onnx::GraphProto& graph, Scope& scope) {
  for (const auto& initializer : graph.initializer()) {
    TESSERA_RETURN_IF_ERROR(defineInitializer(initializer.name(), readTensor(initializer, model_, external_), scope));
  }
  for (const auto& initializer : graph.sparse_initializer()) {
    TESSERA_RETURN_IF_ERROR(defineInitializer(initializer.values().name(),
                                              readSparseTensor(initializer, model_, external_, sparse_bytes_), scope));
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::defineInitializer(const std::string& name, absl::StatusOr<ConstantPtr> constant,
                                              Scope& scope) {
  TESSERA_RETURN_IF_ERROR(tolerate(checkName(name, "an initializer")));
  TESSERA_RETURN_IF_ERROR(tolerate(constant.status()));
  // In a check the value is known to exist, but nothing of it.
  Tensor value = constant.ok() ? Emitter::wrap(*std::move(constant)) : Tensor{.unknown = true};
  if (scope.values.emplace(name, std::move(value)).second) return absl::OkStatus();
  return tolerate(fault(v1::Failure::INVALID_MODEL,
                        absl::StrCat("initializer '", printable(name), "' is defined twice"),
                        {.attribute = name, .accepted = "each value defined once"}));
}

absl::StatusOr<v1::TensorSpec> GraphImporter::inputSpec(const onnx::ValueInfoProto& info,
                                                        const std::vector<const onnx::ValueInfoProto*>& inputs,
                                                        std::map<std::string, int64_t>& dim_params) {
  const std::string what = absl::StrCat("input '", printable(info.name()), "'");
  if (!info.type().has_tensor_type()) {
    const bool sequence = info.type().has_sequence_type();
    return fault(v1::Failure::UNSUPPORTED_OPERATOR, absl::StrCat(what, " is not a tensor"),
                 {.attribute = info.name(),
                  .found = sequence                          ? "a sequence"
                           : info.type().has_optional_type() ? "an optional"
                                                             : "no tensor",
                  .accepted = "tensors",
                  .remedy = sequence ? "export with one tensor input for each element, and build the sequence from them"
                                     : "export the model once with the input as a tensor, and once without it"});
  }
  const auto& tensor = info.type().tensor_type();
  const auto dtype = elementType(tensor.elem_type());
  if (!dtype) return elementTypeError(tensor.elem_type(), what, info.name());
  // A shape that the caller gave for this input by name.
  const Shape* bound = givenShape(info.name());
  std::vector<std::string> declared;
  for (const auto& dim : tensor.shape().dim()) {
    declared.push_back(dim.has_dim_value()       ? absl::StrCat(dim.dim_value())
                       : dim.dim_param().empty() ? "?"
                                                 : printable(dim.dim_param()));
  }
  const std::string declared_text = tensor.has_shape() ? absl::StrJoin(declared, "x") : "unknown";
  if (bound && tensor.has_shape() && bound->size() != declared.size()) {
    return fault(v1::Failure::INVALID_INPUT, absl::StrCat("the shape given for ", what, " has another rank"),
                 {.attribute = info.name(), .found = shapeText(*bound), .accepted = declared_text});
  }
  v1::TensorSpec spec;
  spec.set_name(info.name());
  spec.set_dtype(storageType(*dtype));
  auto unbound = [&](const std::string& dim) {
    return fault(v1::Failure::UNBOUND_DIMENSION, absl::StrCat(what, " has ", dim),
                 {.attribute = info.name(),
                  .found = declared_text,
                  .accepted = "static shapes",
                  .remedy = bindingHint(inputs, info, dim_params)});
  };
  // Without any shape in the file, only a given one can help.
  if (!tensor.has_shape()) {
    if (!bound) return unbound("no shape");
    for (int64_t dim : *bound) spec.add_shape(dim);
  }
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const auto& dim = tensor.shape().dim(i);
    // A number in the file cannot be changed.
    if (dim.has_dim_value()) {
      if (bound && (*bound)[i] != dim.dim_value()) {
        return fault(v1::Failure::INVALID_INPUT,
                     absl::StrCat("the shape given for ", what, " differs from the model's in dimension ", i),
                     {.attribute = info.name(), .found = shapeText(*bound), .accepted = declared_text});
      }
      spec.add_shape(dim.dim_value());
    } else if (bound) {
      spec.add_shape((*bound)[i]);
      if (dim.dim_param().empty()) continue;
      // A given size also binds the dimension's name, for this input and all others.
      auto [known, fresh] = dim_params.emplace(dim.dim_param(), (*bound)[i]);
      if (!fresh && known->second != (*bound)[i]) {
        return fault(v1::Failure::INVALID_INPUT,
                     absl::StrCat("dimension '", printable(dim.dim_param()), "' is given two values"),
                     {.attribute = info.name(),
                      .found = absl::StrCat((*bound)[i]),
                      .accepted = absl::StrCat(known->second, options_.dimensions.contains(dim.dim_param())
                                                                  ? ", as the dimension is bound by name"
                                                                  : ", as in another input")});
      }
    } else if (auto known = dim_params.find(dim.dim_param()); known != dim_params.end()) {
      spec.add_shape(known->second);
    } else if (dimensions_.isDerivableFrom(dim.dim_param(), dim_params)) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t size, dimensions_.derivedSize(dim.dim_param(), dim_params));
      dim_params.emplace(dim.dim_param(), size);
      spec.add_shape(size);
    } else {
      absl::Status problem = unbound(absl::StrCat("the unbound dimension '", declared[i], "' at position ", i));
      // A check assumes a size and goes on.
      if (!check_) return problem;
      spec.add_shape(check_->assume(info.name(), dim.dim_param(), i, problem));
      if (!dim.dim_param().empty()) dim_params.emplace(dim.dim_param(), spec.shape(i));
    }
  }
  TESSERA_RETURN_IF_ERROR(checkShape(Shape(spec.shape().begin(), spec.shape().end()), *dtype, what));
  return spec;
}

absl::Status GraphImporter::bindInputs(const onnx::GraphProto& graph, Scope& scope) {
  findDefaults(graph, scope);
  std::set<std::string> names;
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const auto& input : graph.input()) {
    TESSERA_RETURN_IF_ERROR(tolerate(checkName(input.name(), "an input")));
    // In a check, the second declaration is reported and ignored.
    if (!names.insert(input.name()).second) {
      TESSERA_RETURN_IF_ERROR(tolerate(fault(v1::Failure::INVALID_MODEL,
                                             absl::StrCat("input '", printable(input.name()), "' is declared twice"),
                                             {.attribute = input.name(), .accepted = "each value defined once"})));
      continue;
    }
    // An initializer that is also listed as an input and is no default (default_inputs.cpp) is a constant.
    if (!scope.values.contains(input.name())) inputs.push_back(&input);
  }
  // Shapes for names that are no inputs are probably misspelled.
  for (const auto& [name, shape] : options_.input_shapes) {
    if (!names.contains(name)) {
      TESSERA_RETURN_IF_ERROR(
          tolerate(fault(v1::Failure::INVALID_INPUT, absl::StrCat("a shape is given for '", printable(name), "'"),
                         {.attribute = name, .found = name, .accepted = absl::StrJoin(names, ", ")})));
    }
  }
  TESSERA_RETURN_IF_ERROR(tolerate(readFixedInputs(graph, scope)));
  fixDefaults();
  // Binding a symbolic dimension in one input binds it in all, so inputs with given shapes come first.
  DimensionSizes dim_params = options_.dimensions;
  std::list<onnx::ValueInfoProto> renamed;
  // Formulas that the caller states may rename dimensions, so they come before the names are collected.
  TESSERA_RETURN_IF_ERROR(tolerate(applyRequestedFormulas(dim_params, inputs, renamed)));
  dimensions_ = NamedDimensions(symbolicDimensions(inputs), dim_params);
  TESSERA_RETURN_IF_ERROR(tolerate(checkDimensionNames(dim_params, dimensions_.names())));
  // Ranges are negative until here; from now on the bound stands for all sizes.
  for (auto& [name, size] : dim_params) size = std::abs(size);
  std::map<const onnx::ValueInfoProto*, v1::TensorSpec> specs;
  const auto passOf = [&](const onnx::ValueInfoProto* input) {
    if (givenShape(input->name()) != nullptr) return 0;
    const auto& dims = input->type().tensor_type().shape().dim();
    return std::any_of(dims.begin(), dims.end(),
                       [&](const auto& dim) { return dimensions_.formulaOf(dim.dim_param()); })
               ? 2  // derived from the others
               : 1;
  };
  for (const int pass : {0, 1, 2}) {
    for (const auto* input : inputs) {
      if (passOf(input) != pass) continue;
      absl::StatusOr<v1::TensorSpec> spec = inputSpec(*input, inputs, dim_params);
      TESSERA_RETURN_IF_ERROR(tolerate(spec.status()));
      if (spec.ok()) specs[input] = *std::move(spec);
    }
  }
  // Lists all bound names in the report, with the sizes that the inputs have given them.
  for (const std::string& name : dimensions_.names()) {
    if (!dim_params.contains(name)) continue;  // from an input with another problem; only while a model is checked
    v1::DimensionBinding& binding = result_.dimensions.emplace_back();
    binding.set_name(name);
    const absl::StatusOr<int64_t> size = dimensions_.bound(name, dim_params);
    TESSERA_RETURN_IF_ERROR(tolerate(size.status()));
    binding.set_size(size.ok() ? *size : dim_params.at(name));
  }
  Emitter e = emitter("inputs");
  for (const auto* input : inputs) {
    if (!specs.contains(input)) {
      scope.values[input->name()].unknown = true;
      continue;
    }
    const v1::TensorSpec& spec = specs[input];
    const Shape shape(spec.shape().begin(), spec.shape().end());
    // Booleans cross the border as bytes.
    const v1::DataType border = spec.dtype() == v1::DATA_TYPE_BOOL ? v1::DATA_TYPE_I8 : spec.dtype();
    mlir::Value argument = main_.getBody().front().addArgument(e.type(border, shape),
                                                               mlir::NameLoc::get(e.b.getStringAttr(input->name())));
    result_.inputs.push_back(spec);
    // A fixed input stays an argument, but its value is a constant inside.
    if (auto fixed = fixed_.find(input->name()); fixed != fixed_.end()) {
      v1::TensorValue& value = result_.fixed_inputs.emplace_back();
      *value.mutable_spec() = spec;
      value.set_data(std::string(fixed->second->bytes));
      scope.values[input->name()] = Emitter::wrap(fixed->second);
      continue;
    }
    // A default is only recorded: a run may give another value.
    if (auto known = defaults_.find(input->name()); known != defaults_.end()) {
      v1::TensorValue& value = result_.default_inputs.emplace_back();
      *value.mutable_spec() = spec;
      value.set_data(std::string(known->second->bytes));
    }
    const v1::DataType type = *elementType(input->type().tensor_type().elem_type());
    scope.values[input->name()] =
        isNarrow(type) ? Emitter::wrap(argument, type) : e.cast(Emitter::wrap(argument, border), type);
  }
  if (options_.is_variable) TESSERA_RETURN_IF_ERROR(bindVariables(graph, e, scope));
  return bindRanges(inputs, scope);
}

absl::Status GraphImporter::checkOutput(const onnx::ValueInfoProto& output, const Scope& scope,
                                        std::set<std::string>& names) const {
  TESSERA_RETURN_IF_ERROR(checkName(output.name(), "an output"));
  if (!names.insert(output.name()).second) {
    return fault(v1::Failure::INVALID_MODEL, absl::StrCat("output '", printable(output.name()), "' is declared twice"),
                 {.attribute = output.name(), .accepted = "each output once"});
  }
  const Tensor* tensor = scope.find(output.name());
  if (!tensor) {
    return fault(v1::Failure::INVALID_MODEL,
                 absl::StrCat("output '", printable(output.name()), "' is defined by nothing"),
                 {.attribute = output.name(), .accepted = "an input, an initializer or a node's output"});
  }
  if (tensor->unknown) return dependsOnProblem();
  if (tensor->sequence || !(tensor->value || tensor->constant)) {
    return fault(v1::Failure::UNSUPPORTED_OPERATOR,
                 absl::StrCat("output '", printable(output.name()), "' is not a tensor"),
                 {.attribute = output.name(),
                  .found = tensor->sequence ? "a sequence" : "an empty optional",
                  .accepted = "tensors",
                  .remedy = tensor->sequence
                                ? "export with one output for each element, or with their concatenation as the output"
                                : "export without this output"});
  }
  // Declared shapes may be stale (a model exported at another batch size); the computed one is used.
  const auto declared = elementType(output.type().tensor_type().elem_type());
  if (declared && *declared != tensor->dtype) {
    return fault(v1::Failure::INVALID_MODEL,
                 absl::StrCat("output '", printable(output.name()), "' is declared as ", typeName(*declared),
                              " but computed as ", typeName(tensor->dtype)),
                 {.attribute = output.name(), .found = typeName(*declared), .accepted = typeName(tensor->dtype)});
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::bindOutputs(const onnx::GraphProto& graph, Scope& scope) {
  if (graph.output_size() == 0) {
    return fault(v1::Failure::INVALID_MODEL, "the graph has no outputs",
                 {.attribute = "graph.output", .accepted = "at least one"});
  }
  Emitter e = emitter("outputs");
  mlir::Builder b(&context_);
  llvm::SmallVector<mlir::Value> values, extents;
  std::set<std::string> names;
  for (const auto& output : graph.output()) {
    TESSERA_RETURN_IF_ERROR(checkOutput(output, scope, names));
    const Tensor* tensor = scope.find(output.name());
    const bool is_bool = tensor->dtype == v1::DATA_TYPE_BOOL;
    // Outputs cross the border like inputs: booleans as bytes.
    values.push_back(e.value(is_bool ? e.cast(*tensor, v1::DATA_TYPE_I8) : *tensor));
    v1::TensorSpec& spec = result_.outputs.emplace_back();
    spec.set_name(output.name());
    spec.set_dtype(storageType(tensor->dtype));
    for (int64_t dim : tensor->shape) spec.add_shape(dim);
    for (const auto& [dim, extent] : tensor->extents) {
      spec.add_bounded_dims(static_cast<int32_t>(dim));
      result_.extents.push_back({static_cast<int>(result_.outputs.size()) - 1, static_cast<int>(dim)});
      extents.push_back(extent);
    }
  }
  // The extents are further results, after all outputs.
  values.append(extents);
  if (fault_.value) values.push_back(fault_.value);
  mlir::func::ReturnOp::create(e.b, e.loc, values);

  // Constants found during lowering became arguments, so the function's type is known only now.
  mlir::Block& body = main_.getBody().front();
  llvm::SmallVector<mlir::Type> results;
  for (mlir::Value value : values) results.push_back(value.getType());
  main_.setFunctionType(b.getFunctionType(body.getArgumentTypes(), results));
  // Sets all attributes at once: setArgAttr() builds a new array of all arguments' attributes each time, which the
  // context keeps.
  auto only = [&](const char* name, mlir::Attribute value) { return b.getDictionaryAttr(b.getNamedAttr(name, value)); };
  llvm::SmallVector<mlir::DictionaryAttr> of_arguments, of_results;
  for (const v1::TensorSpec& spec : result_.inputs)
    of_arguments.push_back(only("tessera.input", b.getStringAttr(spec.name())));
  for (size_t i = 0; i < result_.weights.size(); ++i)
    of_arguments.push_back(only(kWeightAttribute, b.getI64IntegerAttr(static_cast<int64_t>(i))));
  for (const v1::TensorSpec& spec : result_.outputs)
    of_results.push_back(only("tessera.output", b.getStringAttr(spec.name())));
  of_arguments.resize(body.getNumArguments(), b.getDictionaryAttr({}));
  of_results.resize(results.size(), b.getDictionaryAttr({}));
  main_.setAllArgAttrs(of_arguments);
  main_.setAllResultAttrs(of_results);
  return absl::OkStatus();
}

}  // namespace tessera::compiler
