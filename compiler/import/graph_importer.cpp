#include "compiler/import/graph_importer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/evaluate.h"
#include "compiler/import/graph_order.h"
#include "compiler/import/limits.h"
#include "compiler/import/ops/dynamic_slice.h"
#include "compiler/import/sixteen_bit_floats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Verifier.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

const Tensor* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->outer) {
    if (auto known = scope->values.find(name); known != scope->values.end()) return &known->second;
  }
  return nullptr;
}

GraphImporter::GraphImporter(mlir::MLIRContext& context, std::shared_ptr<const onnx::ModelProto> model,
                             const ImportOptions& options, bool fix_defaults)
    : context_(context),
      model_(std::move(model)),
      options_(options),
      external_(options.external_data),
      fix_defaults_(fix_defaults),
      fold_steps_(limits::kFoldedSteps),
      small_fold_steps_(limits::kFoldedSteps) {}

namespace {

/// Returns the number of elements of a value known at import; nothing if the module computes some of it.
std::optional<int64_t> knownElements(const Tensor& tensor) {
  if (tensor.value || tensor.unknown) return std::nullopt;
  if (!tensor.sequence) return tensor.constant ? tensor.elements() : 0;
  int64_t elements = 0;
  for (const Tensor& part : *tensor.sequence) {
    const std::optional<int64_t> known = knownElements(part);
    if (!known) return std::nullopt;
    elements += *known;
  }
  return elements;
}

}  // namespace

absl::Status noGraph() {
  return fault(v1::Failure::INVALID_MODEL, "the model has no graph",
               {.attribute = "model.graph", .accepted = "a serialized onnx.ModelProto"});
}

absl::StatusOr<ImportedModel> GraphImporter::run() {
  if (!model_->has_graph()) return noGraph();
  TESSERA_RETURN_IF_ERROR(readOpsets());
  const onnx::GraphProto& graph = model_->graph();
  // Reports all unsupported operators before any lowering: a user then sees the whole list in one run.
  TESSERA_RETURN_IF_ERROR(checkOperators(graph));

  beginModule();

  Scope scope;
  scope.opsets = &opsets_;
  // Initializers come first, because an input of the same name is then known to be a constant or a default.
  TESSERA_RETURN_IF_ERROR(readInitializers(graph, scope));
  TESSERA_RETURN_IF_ERROR(bindInputs(graph, scope));
  TESSERA_RETURN_IF_ERROR(lowerNodes(graph, scope));
  TESSERA_RETURN_IF_ERROR(bindOutputs(graph, scope));
  // Two sources of refused sizes: multiples that an operator demanded, and extents that would become empty.
  result_.refused_sizes = shape_values_.refused();
  const std::vector<v1::RefusedSizes> emptied = refusedSizes(result_, main_, non_empty_extents_);
  result_.refused_sizes.insert(result_.refused_sizes.end(), emptied.begin(), emptied.end());
  result_.nodes = static_cast<int>(nodes_);
  removeWindowMarks(*result_.module);

  // Collects the verifier's first message; without a handler MLIR would print it to stderr.
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(&context_, [&](mlir::Diagnostic& diagnostic) {
    if (errors.empty()) errors = diagnostic.str();
    return mlir::success();
  });
  if (mlir::failed(mlir::verify(*result_.module))) {
    return fault(v1::Failure::INTERNAL, absl::StrCat("the importer made an invalid module: ", errors));
  }
  return std::move(result_);
}

void GraphImporter::beginModule() {
  mlir::OpBuilder b(&context_);
  const std::string& name = model_->graph().name();
  const mlir::Location loc = mlir::NameLoc::get(b.getStringAttr(name.empty() ? "main" : name));
  result_.module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(result_.module->getBody());
  main_ = mlir::func::FuncOp::create(b, loc, "main", b.getFunctionType({}, {}));
  block_ = main_.addEntryBlock();
}

absl::Status GraphImporter::lowerNodes(const onnx::GraphProto& graph, Scope& scope) {
  // Only nodes of the main graph have a position that a report can show.
  const bool of_main_graph = scope.outer == nullptr && function_depth_ == 0;
  std::vector<OrderError> faults;
  TESSERA_ASSIGN_OR_RETURN(
      const std::vector<int> order,
      orderNodes(
          graph, [&](const std::string& name) { return scope.find(name) != nullptr; }, check_ ? &faults : nullptr));
  // `faults` fills only in a check; an import has stopped at the first one.
  for (OrderError& found : faults) {
    if (of_main_graph) check_->setPosition(found.node);
    check_->add(found.status);
  }
  // Static single assignment also forbids a node's output that shares its name with an input or initializer.
  for (const auto& node : graph.node()) {
    for (const auto& output : node.output()) {
      if (!output.empty() && scope.values.contains(output)) {
        TESSERA_RETURN_IF_ERROR(tolerate(
            fault(v1::Failure::INVALID_MODEL,
                  absl::StrCat("value '", printable(output), "' is both an input or initializer and a node's output"),
                  {.attribute = output,
                   .accepted = "each value defined once",
                   .node = node.name(),
                   .op_type = node.op_type()})));
      }
    }
  }
  for (int index : order) {
    if (check_ && of_main_graph) check_->setPosition(index);
    mlir::Block& body = main_.getBody().front();
    // Remembers the last operation, so that recordNode() sees exactly the operations this node adds.
    mlir::Operation* last = body.empty() ? nullptr : &body.back();
    absl::Status status = lowerNode(graph.node(index), index, scope);
    if (status.ok()) {
      if (options_.record_nodes && of_main_graph) recordNode(graph.node(index), index, scope, last);
      continue;
    }
    if (!check_ || stop_checking_) return status;
    // A check continues: it looks into branches that were not lowered, and lets results stand for unknown values.
    check_->add(status);
    checkOtherBranches(graph.node(index), scope);
    standInForResults(graph.node(index), scope);
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::lowerNode(const onnx::NodeProto& proto, int index, Scope& scope) {
  // Counted after inlining, because few nodes can expand to very many: functions that call functions, unrolled loops.
  if (++nodes_ > limits::kNodes) {
    stop_checking_ = true;
    return fault(
        v1::Failure::LIMIT_EXCEEDED,
        absl::StrCat("the model has more than ", limits::kNodes, " nodes once functions and loops are expanded"),
        {.accepted = absl::StrCat("up to ", limits::kNodes, " nodes"),
         .node = nodeLabel(proto, index),
         .op_type = proto.op_type()});
  }
  std::vector<Tensor> inputs;
  // Trailing empty names are absent inputs.
  int given = proto.input_size();
  while (given > 0 && proto.input(given - 1).empty()) --given;
  for (int i = 0; i < given; ++i) {
    const std::string& name = proto.input(i);
    const Tensor* value = name.empty() ? nullptr : scope.find(name);
    // Only a check reaches an undefined value, and has reported it.
    inputs.push_back(value ? *value : Tensor{.unknown = !name.empty()});
  }
  const std::string domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  // A node gets access to the importer only by these functions, which keeps operators free of its state.
  NodeEnvironment environment;
  environment.opset = importedVersion(*scope.opsets, domain).value_or(0);
  environment.domain = domain;
  environment.function_attributes = scope.attributes;
  environment.read_tensor = [this](const onnx::AttributeProto& attribute) {
    return readTensor(attribute.t(), model_, external_);
  };
  // A node in a branch or an iteration may not run at all.
  const bool perhaps = (proto.op_type() == "If" && !inputs.empty() && !inputs[0].constant) || proto.op_type() == "Loop";
  environment.inline_where = [this, &scope, perhaps](const onnx::GraphProto& graph,
                                                     const std::vector<Tensor>& arguments, const Tensor& condition,
                                                     bool holds) {
    // Extents derived in a branch that may not run must not refuse sizes of the whole model.
    const size_t known = non_empty_extents_.size();
    uncertain_ += perhaps ? 1 : 0;
    auto results = inlineWhere(graph, arguments, condition, holds, scope);
    uncertain_ -= perhaps ? 1 : 0;
    if (perhaps) non_empty_extents_.resize(known);
    return results;
  };
  environment.inline_graph = [where = environment.inline_where](const onnx::GraphProto& graph,
                                                                const std::vector<Tensor>& arguments) {
    return where(graph, arguments, {}, true);
  };
  environment.refuse_runs = [this](const Tensor& condition, bool holds, const std::string& message) {
    refuseRuns(condition, holds, message);
  };
  environment.lower_loop = [this](const Node& node, Emitter& e, const LoopRequest& request, LoopBuilder build) {
    return lowerLoopBody(node, e, request, build);
  };
  environment.restrict_to_equal = [this](mlir::Value a, mlir::Value b, const std::string& reason) {
    return shape_values_.restrictToEqual(a, b, reason);
  };
  environment.require_non_empty = [this](NonEmptyExtent extent) {
    // Shape values after this node are used for accepted sizes alone, and may be negative at the others.
    const auto accepted = uncertain_ == 0 ? leastSize(result_, main_, extent) : std::nullopt;
    if (accepted) shape_values_.raiseLeast(accepted->dimension, accepted->refused_from, accepted->least);
    non_empty_extents_.push_back(std::move(extent));
  };
  environment.examples = [this](const Tensor& value) { return shape_values_.examplesOf(value.value, value.dtype); };
  environment.examples_with_data = [this](const Tensor& value) {
    return shape_values_.examplesWithDataOf(value.value, value.dtype);
  };
  environment.always = [this](mlir::Value extent) { return shape_values_.constantValueOf(extent); };
  environment.depends_on_ranges_only = [this](mlir::Value value) { return shape_values_.dependsOnRangesOnly(value); };
  environment.same_extent = [this](mlir::Value a, mlir::Value b) { return shape_values_.same(a, b); };
  // Only inputs of the main graph can be fixed by the user.
  if (scope.outer == nullptr && function_depth_ == 0)
    environment.suggest_fixing = [this](const Tensor& condition) { suggestFixing(condition); };
  environment.value_compared = [this](const Tensor& value) { return valueCompared(value); };
  environment.inputs_computing = [this](const Tensor& value) { return inputsComputing(value); };
  Node node(proto, nodeLabel(proto, index), std::move(inputs), std::move(environment));

  std::vector<Tensor> results;
  // A function of the model takes precedence over an operator with the same name.
  if (auto function = functions_.find(absl::StrCat(domain, ":", proto.op_type())); function != functions_.end()) {
    TESSERA_ASSIGN_OR_RETURN(results, inlineFunction(*function->second, node));
  } else {
    const Operator* op = findOperator(domain, proto.op_type(), node.opset());
    // Only a check arrives here without an operator: an import has stopped in checkOperators().
    if (!op && check_) return dependsOnProblem();  // reported together with all others
    if (std::any_of(node.inputs().begin(), node.inputs().end(), [](const Tensor& input) { return input.unknown; })) {
      if (scope.outer == nullptr && function_depth_ == 0) check_->countUnchecked();
      return dependsOnProblem();
    }
    if (!op) return node.unsupported("unknown operator", {.found = proto.op_type()});
    TESSERA_RETURN_IF_ERROR(checkInputs(*op, node));
    TESSERA_ASSIGN_OR_RETURN(results, applyOperator(*op, node));
  }
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty()) continue;
    if (i >= static_cast<int>(results.size())) {
      return node.unsupported(absl::StrCat("output ", i, " ('", printable(proto.output(i)), "')"),
                              {.attribute = proto.output(i),
                               .found = absl::StrCat(proto.output_size(), " outputs"),
                               .accepted = absl::StrCat(results.size(), " outputs")});
    }
    // Shapes that the file states are compared in checks only: the importer relies on its own.
    if (check_) compareWithDeclared(proto.output(i), results[i]);
    // An extent that is computed like a known one is replaced by it, so that the two compare as the same value.
    for (auto& [dim, extent] : results[i].extents) extent = shape_values_.addExtent(extent, results[i].shape[dim]);
    scope.values[proto.output(i)] = std::move(results[i]);
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::checkInputs(const Operator& op, const Node& node) const {
  const int given = node.numInputs();
  if (given < op.min_inputs || given > op.max_inputs) {
    return node.invalid(
        absl::StrCat("has ", given, " inputs"),
        {.found = absl::StrCat(given),
         .accepted = op.max_inputs == kVariadic       ? absl::StrCat(op.min_inputs, " or more")
                     : op.min_inputs == op.max_inputs ? absl::StrCat(op.min_inputs)
                                                      : absl::StrCat(op.min_inputs, " to ", op.max_inputs)});
  }
  for (int i = 0; i < op.min_inputs; ++i) {
    if (!node.has(i)) {
      return node.invalid(absl::StrCat("input ", i, " is missing"),
                          {.attribute = absl::StrCat("input ", i), .accepted = "a value"});
    }
  }
  for (int i = 0; i < given && !takesSequences(op); ++i) {
    if (!node.in(i).sequence) continue;
    return node.invalid(
        absl::StrCat("input ", i, " is a sequence"),
        {.attribute = absl::StrCat("input ", i), .found = "a sequence of tensors", .accepted = "a tensor"});
  }
  if (given == 0 || !node.has(0) || node.in(0).sequence) return absl::OkStatus();
  // Input 0 decides the types: the table lists those it may have, and how many of the first inputs share its type.
  if (!contains(op.types, node.in(0).dtype)) {
    return node.unsupported(
        absl::StrCat("element type ", typeName(node.in(0).dtype)),
        {.attribute = "input 0", .found = typeName(node.in(0).dtype), .accepted = typeSetText(op.types)});
  }
  for (int i = 1; i < std::min(op.same, given); ++i) {
    if (!node.has(i) || node.in(i).dtype == node.in(0).dtype) continue;
    return node.invalid(
        absl::StrCat("input ", i, " is ", typeName(node.in(i).dtype), ", but input 0 is ", typeName(node.in(0).dtype)),
        {.attribute = absl::StrCat("input ", i),
         .found = typeName(node.in(i).dtype),
         .accepted = typeName(node.in(0).dtype),
         .remedy = "insert a Cast"});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> GraphImporter::applyOperator(const Operator& op, Node& node) {
  TESSERA_ASSIGN_OR_RETURN(auto folded, tryFold(op, node));
  if (folded) return *std::move(folded);
  const RunFaults faults = runFaults();
  const auto applied = [&]() -> absl::StatusOr<std::vector<Tensor>> {
    Emitter e = emitter(node.label());
    const bool bounded = hasBoundedInput(node);
    if (bounded && !op.extents) {
      TESSERA_RETURN_IF_ERROR(refuseExtents(node, absl::StrCat(op.name, " needs to know it")));
    }
    TESSERA_ASSIGN_OR_RETURN(auto results, lowerOperator(op, node, e));
    if (bounded) {
      TESSERA_RETURN_IF_ERROR(op.extents(node, e, results));
    }
    TESSERA_RETURN_IF_ERROR(node.checkAllUsed());
    return results;
  };
  // Tries twice if an input has the extent of a window: few operators accept it, and it is shorter only at an end.
  absl::StatusOr<std::vector<Tensor>> results = applied();
  if (!results.ok()) rewindTo(faults);
  const auto hasWindow = [](const Tensor& tensor) {
    return std::any_of(tensor.extents.begin(), tensor.extents.end(),
                       [](const auto& extent) { return isWindow(extent.second); });
  };
  if (results.ok() || std::none_of(node.inputs().begin(), node.inputs().end(), hasWindow)) return results;
  // The second attempt assumes that all windows have their full length.
  const std::vector<Tensor> inputs = node.exchangeInputs(withoutWindowExtents(node.inputs()));
  absl::StatusOr<std::vector<Tensor>> of_whole = applied();
  // If both fail, the first attempt's inputs and error are reported.
  if (of_whole.ok()) return of_whole;
  rewindTo(faults);
  node.exchangeInputs(inputs);
  return results;  // its error says more
}

absl::StatusOr<std::optional<std::vector<Tensor>>> GraphImporter::tryFold(const Operator& op, Node& node) {
  // The nodes of a subgraph fold individually when they are inlined.
  if (node.hasSubgraph()) return std::nullopt;
  // Adds up the inputs; one that is not constant ends the attempt.
  int64_t elements = 0, bytes = 0;
  for (const Tensor& input : node.inputs()) {
    const std::optional<int64_t> known = knownElements(input);
    if (!known) return std::nullopt;
    elements += *known;
    if (!input.sequence && *known > 0) bytes += *known * elementBytes(input.dtype);
  }
  // Values that decide shapes are small and have a budget of their own, which large tables cannot exhaust.
  int64_t& budget = elements <= limits::kSmallFold ? small_fold_steps_ : fold_steps_;
  if (elements > limits::kFoldedElements || budget <= 0) return std::nullopt;

  // Lowers the node into a module of its own, evaluates it, and throws the module away: an operator's semantics then
  // exist once, and folding cannot differ from running.
  mlir::OpBuilder b(&context_);
  const mlir::Location loc = b.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> scratch(mlir::ModuleOp::create(loc));
  b.setInsertionPointToEnd(scratch->getBody());
  Emitter e(b, loc, [](Emitter& emitter, const ConstantPtr& constant) { return inlineConstant(emitter, *constant); });
  TESSERA_ASSIGN_OR_RETURN(std::vector<Tensor> results, lowerOperator(op, node, e));
  TESSERA_RETURN_IF_ERROR(node.checkAllUsed());
  std::vector<mlir::Value> values;
  std::vector<v1::DataType> types;
  auto evaluated = [&](mlir::Value value, v1::DataType type) {
    values.push_back(value);
    types.push_back(type);
  };
  // Collects the values to evaluate: each result, followed by its extents.
  for (const Tensor& result : results) {
    if (result.sequence && !knownElements(result)) return std::nullopt;
    if (!result.value) continue;
    if (result.elements() > limits::kFoldedElements) return std::nullopt;
    // Weights that would grow stay in their stored form: dequantized, they may never be needed. Integers may decide
    // shapes, and so may tensors with extents.
    if (elements > limits::kSmallFold && isFloat(result.dtype) && result.extents.empty() &&
        result.elements() * elementBytes(result.dtype) > bytes)
      return std::nullopt;
    evaluated(result.value, result.dtype);
    for (const auto& [dim, extent] : result.extents) evaluated(extent, v1::DATA_TYPE_I64);
  }
  if (!values.empty()) {
    // A node may take only a part of the budget, so that one large fold does not prevent all later ones.
    int64_t steps = std::min(budget, limits::kFoldedStepsOfNode);
    const int64_t given = steps;
    auto constants = evaluate(*scratch->getBody(), values, types, steps);
    budget -= given - steps;
    if (!constants) return std::nullopt;
    auto next = constants->begin();
    for (Tensor& result : results) {
      if (!result.value) continue;
      ConstantPtr whole = *next++;
      Shape shape = whole->shape;
      // The extents are known now, so the tensor gets its actual size.
      for (const auto& [dim, extent] : result.extents) shape[dim] = (*next++)->integerAt(0);
      result = Emitter::wrap(leadingPart(whole, shape));
    }
  }
  return std::optional(std::move(results));
}

Emitter GraphImporter::emitter(const std::string& label) {
  mlir::OpBuilder b = mlir::OpBuilder::atBlockEnd(block_);
  // Node names appear in messages, which must be valid text, but the model's names may be any bytes.
  return Emitter(b, mlir::NameLoc::get(b.getStringAttr(printable(label))),
                 [this](Emitter& e, const ConstantPtr& constant) { return materialize(e, constant); });
}

mlir::Value inlineConstant(Emitter& e, const Constant& constant) {
  auto type = e.type(constant.dtype, constant.shape);
  mlir::DenseElementsAttr value;
  if (constant.dtype == v1::DATA_TYPE_BOOL) {
    llvm::SmallVector<bool> bits;
    for (char byte : constant.bytes) bits.push_back(byte != 0);
    value = mlir::DenseElementsAttr::get(type, bits);
  } else {
    // The copy is aligned for every element type; bytes inside a file may not be.
    const std::vector<char> bytes(constant.bytes.begin(), constant.bytes.end());
    value = mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
  }
  return mlir::arith::ConstantOp::create(e.b, e.loc, value);
}

mlir::Value GraphImporter::materialize(Emitter& e, const ConstantPtr& constant) {
  mlir::Value& value = materialized_[constant.get()];
  if (value) return value;
  kept_.push_back(constant);
  const auto bytes = static_cast<int64_t>(constant->bytes.size());
  const bool small = bytes <= limits::kInlineConstantBytes;
  // A block is straight-line code that grows only at its end, so later nodes can use a value made here.
  value = small ? inlineConstant(e, *constant) : weightArgument(e, constant);
  return value;
}

mlir::Value GraphImporter::weightArgument(Emitter& e, const ConstantPtr& constant) {
  // Weights are always arguments, never constants in IR: MLIR would hash and keep their bytes.
  const bool is_bool = constant->dtype == v1::DATA_TYPE_BOOL;
  const v1::DataType border = is_bool ? v1::DATA_TYPE_I8 : constant->dtype;
  mlir::Value argument = main_.getBody().front().addArgument(e.type(border, constant->shape), e.loc);
  Weight weight;
  weight.spec.set_name(absl::StrCat("weight", result_.weights.size()));
  weight.spec.set_dtype(storageType(constant->dtype));
  for (int64_t dim : constant->shape) weight.spec.add_shape(dim);
  weight.bytes = constant->bytes;
  weight.owner = constant->owner;
  result_.weights.push_back(std::move(weight));
  return is_bool ? e.cast(Emitter::wrap(argument, border), v1::DATA_TYPE_BOOL).value : argument;
}

}  // namespace tessera::compiler
