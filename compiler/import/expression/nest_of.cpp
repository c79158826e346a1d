#include "compiler/import/expression/nest_of.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/bounds.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::expression {
namespace {

class NestMaker {
 public:
  explicit NestMaker(const std::string& name) { nest_.name = name; }

  absl::StatusOr<loopnest::Nest> run(const Program& program) {
    for (const Param& param : program.params) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t value, evaluate(*param.value, constants_));
      if (!constants_.emplace(param.name, value).second)
        return errorAt(param.value->at, "this param is defined twice", param.name);
    }
    for (const Input& input : program.inputs) {
      if (shapes_.contains(input.name)) return errorAt(input.at, "this input is declared twice", input.name);
      std::vector<int64_t>& shape = shapes_[input.name];
      types_[input.name] = input.dtype;
      for (const NodePtr& extent : input.shape) {
        if (extent->kind == Kind::kName && !constants_.contains(extent->name))
          return errorAt(extent->at,
                         absl::StrCat("this extent has no value; write `param ", extent->name, " = ...;` above"),
                         extent->name);
        TESSERA_ASSIGN_OR_RETURN(const int64_t value, evaluate(*extent, constants_));
        if (value < 1) return errorAt(extent->at, "an extent is at least 1", absl::StrCat(value));
        shape.push_back(value);
      }
    }
    for (const Statement& statement : program.statements) TESSERA_RETURN_IF_ERROR(append(statement));
    if (program.statements.empty()) return errorAt({}, "the text has no statement");
    TESSERA_RETURN_IF_ERROR(loopnest::validate(nest_));
    return std::move(nest_);
  }

 private:
  absl::Status append(const Statement& statement) {
    if (shapes_.contains(statement.name))
      return errorAt(statement.at, "this tensor is defined already; each has one definition", statement.name);
    TESSERA_ASSIGN_OR_RETURN(const std::vector<Loop> loops, inferLoops(statement, shapes_, constants_));
    loopnest::Statement made{.name = statement.name, .loops = {}, .inputs = {}};
    std::vector<int64_t> shape;
    loopnest::Access output{.name = statement.name};
    bool reduces = false;
    for (const Loop& loop : loops) {
      TESSERA_ASSIGN_OR_RETURN(const int position, loopOf(loop, statement));
      made.loops.push_back(position);
      reduces = reduces || loop.reduction;
      if (loop.reduction) continue;
      shape.push_back(loop.extent);
      output.subscripts.push_back({.terms = {{position, 1}}});
    }
    std::optional<v1::DataType> type;
    if (statement.value->kind == Kind::kCall) type = typeOfName(statement.value->name);
    made.body.opaque = true;
    made.body.flops = reduces ? 1 : 0;
    TESSERA_RETURN_IF_ERROR(read(*statement.value, made, type));
    made.body.flops = std::max(made.body.flops, 1.0);
    made.body.combine = combineOf(statement.accumulation);
    output.dtype = type.value_or(v1::DATA_TYPE_F32);
    shapes_[statement.name] = std::move(shape);
    types_[statement.name] = output.dtype;
    made.output = accessOf(std::move(output));
    nest_.statements.push_back(std::move(made));
    return absl::OkStatus();
  }

  static loopnest::Combine combineOf(Accumulation accumulation) {
    switch (accumulation) {
      case Accumulation::kSum:
        return loopnest::Combine::kSum;
      case Accumulation::kProduct:
        return loopnest::Combine::kProduct;
      case Accumulation::kMax:
        return loopnest::Combine::kMaximum;
      case Accumulation::kMin:
        return loopnest::Combine::kMinimum;
      case Accumulation::kNone:
        return loopnest::Combine::kAssign;
    }
    return loopnest::Combine::kAssign;
  }

  absl::StatusOr<int> loopOf(const Loop& loop, const Statement& statement) {
    const int known = nest_.loopNamed(loop.variable);
    if (known < 0) {
      nest_.loops.push_back({.name = loop.variable, .extent = loop.extent});
      return static_cast<int>(nest_.loops.size()) - 1;
    }
    const int64_t extent = nest_.loops[static_cast<size_t>(known)].extent;
    if (extent == loop.extent) return known;
    return errorAt(statement.at,
                   absl::StrCat("variables of one name are one loop of the statements, and '", loop.variable, "' has ",
                                extent, " iterations above and ", loop.extent, " here"),
                   loop.variable, "another name for this loop");
  }

  /// Collects the accesses and counts the operations of an expression.
  absl::Status read(const Node& node, loopnest::Statement& made, std::optional<v1::DataType>& type) {
    if (node.kind == Kind::kAccess) {
      loopnest::Access access{.name = node.name, .dtype = types_.at(node.name)};
      for (const NodePtr& child : node.children) {
        TESSERA_ASSIGN_OR_RETURN(const Subscript subscript, analyse(*child, constants_));
        if (!subscript.linear)
          return errorAt(child->at, "this subscript is no sum of multiples of variables", child->name,
                         "sums of variables, multiples of them and numbers");
        loopnest::Subscript& sum = access.subscripts.emplace_back();
        sum.constant = subscript.offset;
        for (const auto& [variable, factor] : subscript.factors)
          if (factor != 0) sum.terms.push_back({nest_.loopNamed(variable), factor});
      }
      if (!type) type = access.dtype;
      const int position = accessOf(std::move(access));
      if (std::ranges::find(made.inputs, position) == made.inputs.end()) made.inputs.push_back(position);
      return absl::OkStatus();
    }
    if (node.kind != Kind::kNumber && node.kind != Kind::kName) made.body.flops += 1;
    for (const NodePtr& child : node.children) TESSERA_RETURN_IF_ERROR(read(*child, made, type));
    return absl::OkStatus();
  }

  /// Statements that access a tensor in the same way share the entry.
  int accessOf(loopnest::Access access) {
    for (size_t a = 0; a < nest_.accesses.size(); ++a)
      if (nest_.accesses[a].name == access.name && nest_.accesses[a].subscripts == access.subscripts)
        return static_cast<int>(a);
    nest_.accesses.push_back(std::move(access));
    return static_cast<int>(nest_.accesses.size()) - 1;
  }

  loopnest::Nest nest_;
  Constants constants_;
  Shapes shapes_;
  std::map<std::string, v1::DataType> types_;
};

}  // namespace

absl::StatusOr<loopnest::Nest> nestOf(const Program& program, const std::string& name) {
  return NestMaker(name).run(program);
}

}  // namespace tessera::compiler::expression
