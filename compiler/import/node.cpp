#include "compiler/import/node.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx/onnx.pb.h"
#include "proto/support/shell_quote.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

using onnx::AttributeProto;

Node::Node(const onnx::NodeProto& proto, std::string label, std::vector<Tensor> inputs, NodeEnvironment environment)
    : proto_(proto), label_(std::move(label)), inputs_(std::move(inputs)), environment_(std::move(environment)) {}

std::string Node::opType() const { return proto_.op_type(); }
int Node::numOutputs() const { return proto_.output_size(); }
bool Node::wants(int output) const { return output < proto_.output_size() && !proto_.output(output).empty(); }

std::string Node::named() const { return absl::StrCat("node '", printable(label_), "' (", printable(opType()), ")"); }

absl::Status Node::failed(v1::Failure::Reason reason, const std::string& message, ErrorDetails details) const {
  details.node = label_;
  details.op_type = proto_.op_type();
  return fault(reason, absl::StrCat(named(), ": ", message), details);
}

absl::Status Node::invalid(const std::string& message, ErrorDetails details) const {
  return failed(v1::Failure::INVALID_MODEL, message, std::move(details));
}

absl::Status Node::unsupported(const std::string& message, ErrorDetails details) const {
  return failed(v1::Failure::UNSUPPORTED_OPERATOR, message, std::move(details));
}

absl::Status Node::missing(const std::string& name) const {
  return invalid(absl::StrCat("attribute '", name, "' is missing"),
                 {.attribute = name, .found = "no value", .accepted = "the operator requires it"});
}

absl::Status Node::wrongType(const AttributeProto& attribute, const std::string& accepted) const {
  const std::string found = AttributeProto::AttributeType_Name(attribute.type());
  return invalid(absl::StrCat("attribute '", attribute.name(), "' is ", found, " where ", accepted, " is expected"),
                 {.attribute = attribute.name(), .found = found, .accepted = accepted});
}

bool Node::hasSubgraph() const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (attribute.type() == AttributeProto::GRAPH) return true;
  }
  return false;
}

const AttributeProto* Node::find(const std::string& name) {
  used_.insert(name);
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    if (!environment_.function_attributes) return nullptr;
    auto actual = environment_.function_attributes->find(attribute.ref_attr_name());
    return actual == environment_.function_attributes->end() ? nullptr : actual->second;
  }
  return nullptr;
}

bool Node::hasAttribute(const std::string& name) { return find(name) != nullptr; }

absl::StatusOr<int64_t> Node::integer(const std::string& name, std::optional<int64_t> fallback) {
  const AttributeProto* attribute = find(name);
  if (!attribute) {
    if (!fallback) return missing(name);
    return *fallback;
  }
  if (attribute->type() != AttributeProto::INT) return wrongType(*attribute, "INT");
  return attribute->i();
}

absl::StatusOr<double> Node::real(const std::string& name, std::optional<double> fallback) {
  const AttributeProto* attribute = find(name);
  if (!attribute) {
    if (!fallback) return missing(name);
    return static_cast<float>(*fallback);  // the standard's default 0.01, say, means the nearest f32
  }
  if (attribute->type() != AttributeProto::FLOAT) return wrongType(*attribute, "FLOAT");
  return attribute->f();
}

absl::StatusOr<std::string> Node::text(const std::string& name, std::optional<std::string> fallback) {
  const AttributeProto* attribute = find(name);
  if (!attribute) {
    if (!fallback) return missing(name);
    return *fallback;
  }
  if (attribute->type() != AttributeProto::STRING) return wrongType(*attribute, "STRING");
  return attribute->s();
}

absl::StatusOr<std::vector<int64_t>> Node::integers(const std::string& name,
                                                    std::optional<std::vector<int64_t>> fallback) {
  const AttributeProto* attribute = find(name);
  if (!attribute) {
    if (!fallback) return missing(name);
    return *std::move(fallback);
  }
  if (attribute->type() != AttributeProto::INTS) return wrongType(*attribute, "INTS");
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

absl::StatusOr<std::vector<double>> Node::reals(const std::string& name, std::optional<std::vector<double>> fallback) {
  const AttributeProto* attribute = find(name);
  if (!attribute) {
    if (!fallback) return missing(name);
    return *std::move(fallback);
  }
  if (attribute->type() != AttributeProto::FLOATS) return wrongType(*attribute, "FLOATS");
  return std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

absl::StatusOr<std::vector<std::string>> Node::texts(const std::string& name,
                                                     std::optional<std::vector<std::string>> fallback) {
  const AttributeProto* attribute = find(name);
  if (!attribute) {
    if (!fallback) return missing(name);
    return *std::move(fallback);
  }
  if (attribute->type() != AttributeProto::STRINGS) return wrongType(*attribute, "STRINGS");
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

absl::StatusOr<ConstantPtr> Node::tensor(const std::string& name) {
  const AttributeProto* attribute = find(name);
  if (!attribute) return missing(name);
  if (attribute->type() != AttributeProto::TENSOR) return wrongType(*attribute, "TENSOR");
  return environment_.read_tensor(*attribute);
}

absl::StatusOr<const onnx::GraphProto*> Node::graph(const std::string& name) {
  const AttributeProto* attribute = find(name);
  if (!attribute) return missing(name);
  if (attribute->type() != AttributeProto::GRAPH) return wrongType(*attribute, "GRAPH");
  return &attribute->g();
}

absl::StatusOr<bool> Node::flag(const std::string& name, bool fallback) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t value, integer(name, fallback ? 1 : 0));
  if (value != 0 && value != 1) {
    return invalid(absl::StrCat("attribute '", name, "' is ", value),
                   {.attribute = name, .found = absl::StrCat(value), .accepted = "0 or 1"});
  }
  return value == 1;
}

absl::StatusOr<v1::DataType> Node::dataType(const std::string& name, std::optional<v1::DataType> fallback) {
  if (!hasAttribute(name) && fallback) return *fallback;
  TESSERA_ASSIGN_OR_RETURN(const int64_t number, integer(name));
  const auto type = number >= 0 && number < INT32_MAX ? elementType(static_cast<int32_t>(number)) : std::nullopt;
  if (!type) {
    const std::string found =
        number >= 0 && number < INT32_MAX ? onnxTypeName(static_cast<int32_t>(number)) : absl::StrCat(number);
    return unsupported(absl::StrCat("element type ", found),
                       {.attribute = name, .found = found, .accepted = "floating point, integers, bool"});
  }
  return *type;
}

absl::StatusOr<int64_t> Node::normalizeAxis(int64_t axis, int64_t rank, const std::string& what) const {
  if (axis < -rank || axis >= rank) {
    return invalid(absl::StrCat(what, " is ", axis, " for a tensor of rank ", rank),
                   {.attribute = what,
                    .found = absl::StrCat(axis),
                    .accepted = rank == 0 ? "none: the tensor is a scalar" : absl::StrCat(-rank, " to ", rank - 1)});
  }
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<int64_t> Node::axis(const std::string& name, std::optional<int64_t> fallback, int64_t rank) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t axis, integer(name, fallback));
  return normalizeAxis(axis, rank, name);
}

absl::StatusOr<std::vector<int64_t>> Node::normalizeAxes(std::vector<int64_t> axes, int64_t rank,
                                                         const std::string& what) const {
  std::set<int64_t> seen;
  for (int64_t& axis : axes) {
    TESSERA_ASSIGN_OR_RETURN(axis, normalizeAxis(axis, rank, what));
    if (!seen.insert(axis).second) {
      return invalid(absl::StrCat(what, " names axis ", axis, " twice"),
                     {.attribute = what, .found = absl::StrJoin(axes, ","), .accepted = "each axis once"});
    }
  }
  return axes;
}

std::string Node::fixOf(const Tensor& value) const {
  const auto inputs = environment_.inputs_computing ? environment_.inputs_computing(value) : std::vector<std::string>{};
  return absl::StrJoin(inputs, " ", [](std::string* out, const std::string& name) {
    absl::StrAppend(out, "--fix ", shellQuote(absl::StrCat(printable(name), "=...")));
  });
}

std::string Node::inputsFor(const Tensor& condition, bool wanted) const {
  const auto inputs =
      environment_.inputs_computing ? environment_.inputs_computing(condition) : std::vector<std::string>{};
  if (inputs.empty()) return "";
  const auto known = environment_.value_compared ? environment_.value_compared(condition) : std::nullopt;
  const std::string names = absl::StrJoin(
      inputs, ", ", [](std::string* out, const std::string& name) { absl::StrAppend(out, "'", printable(name), "'"); });
  if (inputs.size() > 1) return absl::StrCat("give the inputs ", names, " other values");
  if (!known) return absl::StrCat("give input ", names, " another value");
  return absl::StrCat("give input ", names, wanted ? " the value " : " any value but ", *known);
}

absl::Status Node::dependsOnRunTimeValue(const Tensor& value, const std::string& message, ErrorDetails details) const {
  details.found = "a run-time value";
  details.remedy = "export the model with static shapes, or make the input an initializer";
  const std::string inputs = fixOf(value);
  if (environment_.examples && environment_.examples(value)) {
    details.found = "a value that follows a range";
    details.remedy = "instead of a range (--dim N=1..8), give sizes (--dim N=1,2,4,8)";
  } else if (!inputs.empty()) {
    details.remedy = absl::StrCat("fix its value for compilation: ", inputs);
  }
  return unsupported(message, std::move(details));
}

absl::StatusOr<ConstantPtr> Node::constantInput(int index, const std::string& what) const {
  TESSERA_RETURN_IF_ERROR(requireInputs({index}));  // older versions of the operator have fewer inputs
  if (inputs_[index].constant) return inputs_[index].constant;
  const auto* examples = environment_.examples_with_data ? environment_.examples_with_data(inputs_[index]) : nullptr;
  const auto equal = [&](const ConstantPtr& other) { return other->bytes == examples->front()->bytes; };
  if (examples && std::all_of(examples->begin(), examples->end(), equal)) return examples->front();
  return dependsOnRunTimeValue(
      inputs_[index], absl::StrCat("input '", what, "' is computed at run time, and a shape depends on it"),
      {.attribute = what, .accepted = "a constant or a value computed from constants and shapes"});
}

absl::StatusOr<std::vector<int64_t>> Node::constantIntegers(int index, const std::string& what) const {
  TESSERA_ASSIGN_OR_RETURN(const ConstantPtr constant, constantInput(index, what));
  if (!isInteger(constant->dtype) || constant->shape.size() > 1) {
    return invalid(
        absl::StrCat("input '", what, "' is ", shapeText(constant->shape), " of ", typeName(constant->dtype)),
        {.attribute = what, .accepted = "integers of rank 0 or 1"});
  }
  if (constant->elements() > 4096) {
    return invalid(absl::StrCat("input '", what, "' has ", constant->elements(), " elements"),
                   {.attribute = what, .accepted = "one per dimension"});
  }
  return constant->integers();
}

absl::StatusOr<SizeList> Node::sizes(int index, const std::string& what) const {
  TESSERA_RETURN_IF_ERROR(requireInputs({index}));
  SizeList list;
  const auto* examples = environment_.examples_with_data ? environment_.examples_with_data(inputs_[index]) : nullptr;
  if (inputs_[index].constant || !examples || !isInteger(inputs_[index].dtype) || inputs_[index].rank() > 1) {
    TESSERA_ASSIGN_OR_RETURN(list.most, constantIntegers(index, what));
    list.follows.resize(list.most.size());
    return list;
  }
  list.most = examples->front()->integers();
  list.follows.resize(list.most.size());
  for (const ConstantPtr& other : *examples) {
    for (size_t i = 0; i < list.most.size(); ++i)
      if (other->integerAt(static_cast<int64_t>(i)) != list.most[i]) list.follows[i] = true;
  }
  // Shapes use the bounds of all ranges, and extents are not negative.
  for (const ConstantPtr& other : *examples) {
    for (size_t i = 0; i < list.most.size(); ++i) {
      const int64_t size = other->integerAt(static_cast<int64_t>(i));
      if (!list.follows[i] || (size >= 0 && size <= list.most[i])) continue;
      return unsupported(absl::StrCat("input '", what, "' has a size that does not grow with the range: ", list.most[i],
                                      " at the greatest, ", size, " at another"),
                         {.attribute = what,
                          .found = absl::StrCat(size),
                          .accepted = absl::StrCat("0 to ", list.most[i], " at every size of the range"),
                          .remedy = "instead of a range (--dim N=1..8), give sizes (--dim N=1,2,4,8)"});
    }
  }
  return list;
}

Tensor Node::sizeAt(Emitter& e, int index, int64_t at) const {
  const Tensor all = e.cast(inputs_[index], v1::DATA_TYPE_I64);
  return all.rank() == 0 ? all : e.reshape(e.slice(all, {at}, {1}, {1}), {});
}

bool Node::divides(int64_t parts, mlir::Value extent) const {
  const auto* examples =
      environment_.examples ? environment_.examples(Emitter::wrap(extent, v1::DATA_TYPE_I64)) : nullptr;
  if (!examples) return !environment_.depends_on_ranges_only || !environment_.depends_on_ranges_only(extent);
  return std::all_of(examples->begin(), examples->end(),
                     [&](const ConstantPtr& example) { return example->integerAt(0) % parts == 0; });
}

std::optional<std::pair<int64_t, int64_t>> Node::bounds(const Tensor& extent) const {
  if (extent.constant) return std::pair(extent.constant->integerAt(0), extent.constant->integerAt(0));
  const auto* examples = environment_.examples ? environment_.examples(extent) : nullptr;
  if (!examples) return std::nullopt;
  std::pair<int64_t, int64_t> result = {INT64_MAX, INT64_MIN};
  for (const ConstantPtr& example : *examples) {
    result.first = std::min(result.first, example->integerAt(0));
    result.second = std::max(result.second, example->integerAt(0));
  }
  return result;
}

std::optional<int64_t> Node::extentBoundOf(const Tensor& extent) const {
  const auto* examples = environment_.examples ? environment_.examples(extent) : nullptr;
  if (!examples) return std::nullopt;
  const int64_t most = examples->front()->integerAt(0);  // all ranges at their bounds
  const bool grows = std::all_of(examples->begin(), examples->end(),
                                 [&](const ConstantPtr& example) { return example->integerAt(0) <= most; });
  return grows ? std::optional(most) : std::nullopt;
}

std::optional<int64_t> Node::always(mlir::Value extent) const {
  return environment_.always ? environment_.always(extent) : std::nullopt;
}

bool Node::sameExtent(mlir::Value a, mlir::Value b) const {
  return a == b || (environment_.same_extent && environment_.same_extent(a, b));
}

bool Node::makeEqualForMultiples(mlir::Value a, mlir::Value b, const std::string& what) const {
  return environment_.restrict_to_equal &&
         environment_.restrict_to_equal(a, b, absl::StrCat(named(), ": ", what, " for no sizes but multiples of "));
}

void Node::mustNotBecomeEmpty(const Tensor& from, mlir::Value result, std::string before, std::string after) const {
  if (!environment_.require_non_empty || !from.value) return;
  environment_.require_non_empty({from.value, result, named(), std::move(before), std::move(after)});
}

absl::StatusOr<Shape> Node::broadcastAll() const {
  Shape shape;
  for (const Tensor& input : inputs_) {
    if (!present(input)) continue;
    auto next = broadcastShape(shape, input.shape);
    if (!next) {
      return invalid(absl::StrCat("shapes ", shapeText(shape), " and ", shapeText(input.shape), " do not broadcast"),
                     {.found = absl::StrCat(shapeText(shape), " and ", shapeText(input.shape)),
                      .accepted = "dimensions that are equal or 1, aligned at the last"});
    }
    shape = *std::move(next);
  }
  return shape;
}

absl::Status Node::requireInputs(std::initializer_list<int> needed) const {
  for (int input : needed) {
    if (has(input)) continue;
    return invalid(absl::StrCat("input ", input, " is missing"),
                   {.attribute = absl::StrCat("input ", input), .found = "no value", .accepted = "a value"});
  }
  return absl::OkStatus();
}

absl::Status Node::requireRank(int input, int64_t least, int64_t most) const {
  const int64_t rank = inputs_[input].rank();
  if (rank >= least && rank <= most) return absl::OkStatus();
  const std::string accepted = least == most       ? absl::StrCat("rank ", least)
                               : most == INT64_MAX ? absl::StrCat("rank ", least, " or more")
                                                   : absl::StrCat("rank ", least, " to ", most);
  return invalid(
      absl::StrCat("input ", input, " has the shape ", shapeText(inputs_[input].shape)),
      {.attribute = absl::StrCat("input ", input), .found = absl::StrCat("rank ", rank), .accepted = accepted});
}

absl::Status Node::requireShape(int input, const Shape& shape, std::string_view name) const {
  if (!has(input)) return absl::OkStatus();
  const Shape& found = inputs_[input].shape;
  if (found == shape) return absl::OkStatus();
  const std::string what = name.empty() ? absl::StrCat("input ", input) : std::string(name);
  return invalid(absl::StrCat(what, " has the shape ", shapeText(found)),
                 {.attribute = what, .found = shapeText(found), .accepted = shapeText(shape)});
}

absl::Status Node::checkResult(const Shape& shape, v1::DataType type) const {
  absl::Status status =
      checkShape(shape, type, absl::StrCat("the result of node '", printable(label_), "' (", printable(opType()), ")"));
  if (status.ok()) return status;
  v1::Failure failure = failureOf(status);
  failure.set_node(printable(label_));
  failure.set_op_type(printable(opType()));
  return failureStatus(failure);
}

FunctionAttributes Node::resolvedAttributes() {
  FunctionAttributes attributes;
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (const AttributeProto* actual = find(attribute.name())) attributes[attribute.name()] = actual;
  }
  return attributes;
}

absl::Status Node::checkAllUsed() const {
  for (const AttributeProto& attribute : proto_.attribute()) {
    if (used_.contains(attribute.name())) continue;
    // ONNX's operators have exactly the attributes of their version; other domains add some without a new version.
    if (!domain().empty()) {
      return unsupported(absl::StrCat("attribute '", printable(attribute.name()), "' is not compiled"),
                         {.attribute = attribute.name(),
                          .found = attribute.name(),
                          .accepted = absl::StrJoin(used_, ", "),
                          .remedy = "remove the attribute if the model does not depend on it"});
    }
    return invalid(
        absl::StrCat("unknown attribute '", printable(attribute.name()), "' in operator set version ", opset()),
        {.attribute = attribute.name(),
         .found = attribute.name(),
         .accepted = absl::StrJoin(used_, ", "),
         .remedy = "remove the attribute if the model does not depend on it"});
  }
  return absl::OkStatus();
}

}  // namespace tessera::compiler
