#include "compiler/gradient/forward_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/expression/make_node.h"
#include "compiler/import/model_error.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Accumulation;
using expression::Input;
using expression::Kind;
using expression::Loop;
using expression::Node;
using expression::NodePtr;
using expression::Program;
using expression::Statement;

bool isFloat(v1::DataType type) {
  return type == v1::DATA_TYPE_F64 || type == v1::DATA_TYPE_F32 || type == v1::DATA_TYPE_F16 ||
         type == v1::DATA_TYPE_BF16;
}

class Reader {
 public:
  absl::StatusOr<ForwardProgram> run(const Program& program, const std::vector<std::string>& wanted) {
    for (const Input& input : program.inputs) names_.insert(input.name);
    for (const Statement& statement : program.statements) names_.insert(statement.name);
    for (const expression::Param& param : program.params) {
      names_.insert(param.name);
      TESSERA_ASSIGN_OR_RETURN(const int64_t value, expression::evaluate(*param.value, result_.constants));
      if (!result_.constants.emplace(param.name, value).second)
        return expression::errorAt(param.value->at, "this param is defined twice", param.name);
      result_.types[param.name] = v1::DATA_TYPE_UNSPECIFIED;
      result_.params.push_back({param.name, expression::copyOf(*param.value)});
    }
    for (const Input& input : program.inputs) TESSERA_RETURN_IF_ERROR(declare(input));
    TESSERA_RETURN_IF_ERROR(choose(program, wanted));
    for (const Statement& statement : program.statements) TESSERA_RETURN_IF_ERROR(append(statement));
    TESSERA_RETURN_IF_ERROR(chooseOutputs(program));
    return std::move(result_);
  }

 private:
  absl::Status declare(const Input& input) {
    if (result_.shapes.contains(input.name))
      return expression::errorAt(input.at, "this input is declared twice", input.name);
    std::vector<int64_t>& shape = result_.shapes[input.name];
    for (const NodePtr& extent : input.shape) {
      if (extent->kind == Kind::kName && !result_.constants.contains(extent->name))
        return expression::errorAt(
            extent->at, absl::StrCat("this extent has no value; write `param ", extent->name, " = ...;` above"),
            extent->name);
      TESSERA_ASSIGN_OR_RETURN(const int64_t value, expression::evaluate(*extent, result_.constants));
      if (value < 1) return expression::errorAt(extent->at, "an extent is at least 1", absl::StrCat(value));
      shape.push_back(value);
    }
    result_.types[input.name] = input.dtype;
    result_.inputs.push_back(input.name);
    return absl::OkStatus();
  }

  absl::Status choose(const Program& program, const std::vector<std::string>& wanted) {
    for (const std::string& name : wanted) {
      const auto input = std::ranges::find(program.inputs, name, &Input::name);
      if (input == program.inputs.end())
        return fault(v1::Failure::INVALID_INPUT, absl::StrCat("there is no input '", name, "' to differentiate by"),
                     {.attribute = "wrt", .found = name, .accepted = absl::StrJoin(result_.inputs, ", ")});
      if (!isFloat(input->dtype))
        return expression::errorAt(input->at, "an integer input has no gradient", input->name, "f64, f32, f16 or bf16");
      if (result_.differentiated.insert(name).second) result_.wanted_inputs.push_back(name);
    }
    if (!wanted.empty()) return absl::OkStatus();
    for (const Input& input : program.inputs) {
      if (!isFloat(input.dtype)) continue;
      result_.wanted_inputs.push_back(input.name);
      result_.differentiated.insert(input.name);
    }
    if (result_.wanted_inputs.empty())
      return fault(v1::Failure::INVALID_MODEL, "no input has a float type, so none has a gradient");
    return absl::OkStatus();
  }

  absl::Status append(const Statement& from) {
    if (result_.shapes.contains(from.name))
      return expression::errorAt(from.at, "this tensor is defined already; each has one definition", from.name);
    Statement statement;
    statement.name = from.name;
    statement.at = from.at;
    statement.indices = from.indices;
    statement.accumulation = from.accumulation;
    statement.axes = from.axes;
    statement.value = expression::copyOf(*from.value);
    for (const expression::Bound& bound : from.bounds)
      statement.bounds.push_back({bound.variable, bound.at, expression::copyOf(*bound.extent)});
    TESSERA_ASSIGN_OR_RETURN(std::vector<Loop> loops,
                             expression::inferLoops(statement, result_.shapes, result_.constants));
    const bool splits = statement.accumulation != Accumulation::kNone && statement.accumulation != Accumulation::kSum &&
                        statement.value->kind != Kind::kAccess && dependsOn(*statement.value, result_.differentiated);
    if (splits) splitReduction(statement, loops);
    return add(std::move(statement), std::move(loops));
  }

  /// M[i] max= value becomes V[i, k] = value; M[i] max= V[i, k], so that an element that is compared with the maximum
  /// is the very one that it came from.
  void splitReduction(Statement& statement, const std::vector<Loop>& loops) {
    Statement values;
    values.name = statement.name + "_values";
    while (!names_.insert(values.name).second) values.name += "_";
    values.at = statement.at;
    for (const Loop& loop : loops) values.indices.push_back(loop.variable);
    values.value = std::move(statement.value);
    values.bounds = std::move(statement.bounds);
    statement.bounds.clear();
    statement.value = expression::accessNode(values.name, expression::nameNodes(values.indices));
    std::vector<Loop> parallel = loops;
    for (Loop& loop : parallel) loop.reduction = false;
    // Extents that follow from the value still do.
    add(std::move(values), std::move(parallel)).IgnoreError();
  }

  absl::Status add(Statement statement, std::vector<Loop> loops) {
    std::vector<int64_t> shape;
    for (const Loop& loop : loops)
      if (!loop.reduction) shape.push_back(loop.extent);
    const v1::DataType type = typeOf(*statement.value, result_.types);
    result_.types[statement.name] = type == v1::DATA_TYPE_UNSPECIFIED ? v1::DATA_TYPE_F32 : type;
    result_.shapes[statement.name] = std::move(shape);
    if (dependsOn(*statement.value, result_.differentiated)) result_.differentiated.insert(statement.name);
    places_[statement.name] = statement.at;
    result_.loops[statement.name] = std::move(loops);
    result_.statements.push_back(std::move(statement));
    return absl::OkStatus();
  }

  absl::Status chooseOutputs(const Program& program) {
    std::set<std::string> read;
    for (const Statement& statement : program.statements) collectReads(*statement.value, read);
    result_.outputs = program.outputs;
    if (program.outputs.empty())
      for (const Statement& statement : program.statements)
        if (!read.contains(statement.name)) result_.outputs.push_back(statement.name);
    if (result_.outputs.empty()) return fault(v1::Failure::INVALID_MODEL, "the text has no statement and so no result");
    std::set<std::string> seen;
    for (const std::string& output : result_.outputs) {
      if (!result_.shapes.contains(output))
        return fault(v1::Failure::INVALID_MODEL, absl::StrCat("the output '", output, "' is not defined"),
                     {.attribute = "output", .found = output});
      if (!seen.insert(output).second)
        return fault(v1::Failure::INVALID_MODEL, absl::StrCat("the output '", output, "' is listed twice"),
                     {.attribute = "output", .found = output});
      if (!isFloat(result_.types.at(output)))
        return expression::errorAt(places_[output],
                                   "this output is of an integer type and has no derivative (positions of a maximum, "
                                   "for example, are constant)",
                                   output, "outputs of float types; `output NAME;` names those to differentiate");
    }
    return absl::OkStatus();
  }

  static void collectReads(const Node& node, std::set<std::string>& read) {
    if (node.kind == Kind::kAccess) read.insert(node.name);
    for (const NodePtr& child : node.children) collectReads(*child, read);
  }

  ForwardProgram result_;
  std::set<std::string> names_;  ///< of tensors and params of the program
  std::map<std::string, expression::Position> places_;
};

}  // namespace

absl::StatusOr<ForwardProgram> forwardProgram(const Program& program, const std::vector<std::string>& wanted_inputs) {
  return Reader().run(program, wanted_inputs);
}

}  // namespace tessera::compiler::gradient
