#include "compiler/gradient/gradient.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/gradient/contraction.h"
#include "compiler/gradient/forward_program.h"
#include "compiler/gradient/padded_contraction.h"
#include "compiler/gradient/reductions.h"
#include "compiler/import/expression/make_node.h"
#include "compiler/import/expression/print.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::gradient {
namespace {

using expression::Loop;
using expression::NodePtr;
using expression::Program;
using expression::Statement;

/// Index conditions of an adjoint and the subscripts of its read: reads with the same key are one group.
std::string keyOf(const ReadAdjoint& read) {
  std::vector<std::string> parts;
  for (const NodePtr& condition : read.adjoint.conditions)
    if (!expression::readsTensor(*condition)) parts.push_back(expression::print(*condition));
  std::ranges::sort(parts);
  parts.push_back(expression::print(*read.read));
  return absl::StrJoin(parts, " & ");
}

class Differentiation {
 public:
  Differentiation(ForwardProgram forward, const GradientOptions& options)
      : forward_(std::move(forward)), options_(options), writer_(forward_.constants, forward_.shapes, forward_.types) {}

  absl::StatusOr<Gradient> run() {
    for (const std::string& output : forward_.outputs) {
      const std::string name = writer_.freshName("d" + output);
      writer_.declare(name, forward_.shapes.at(output), forward_.types.at(output));
      result_.output_gradients.push_back(name);
      parts_[output].push_back(name);
    }
    for (auto statement = forward_.statements.rbegin(); statement != forward_.statements.rend(); ++statement)
      TESSERA_RETURN_IF_ERROR(backward(*statement));
    for (const std::string& input : forward_.wanted_inputs) {
      TESSERA_ASSIGN_OR_RETURN(std::string name, total(input, true));
      result_.inputs.push_back({input, std::move(name), forward_.shapes.at(input)});
    }
    assemble();
    return std::move(result_);
  }

 private:
  /// The gradient of a tensor: the sum of its parts, in the tensor's type.
  absl::StatusOr<std::string> total(const std::string& tensor, bool is_input) {
    std::vector<std::string>& parts = parts_[tensor];
    const v1::DataType type = forward_.types.at(tensor);
    const bool given =
        std::ranges::find(result_.output_gradients, parts.empty() ? "" : parts[0]) != result_.output_gradients.end();
    const bool alone = parts.size() == 1 && writer_.types().at(parts[0]) == type;
    if (alone && !(given && is_input)) return parts[0];
    // The sum has the plain name, its parts are numbered.
    for (std::string& part : parts) {
      if (std::ranges::find(result_.output_gradients, part) != result_.output_gradients.end()) continue;
      const std::string numbered = writer_.freshName(absl::StrCat("d", tensor, "_part"));
      writer_.rename(part, numbered);
      part = numbered;
    }
    std::vector<Loop> loops;
    std::vector<std::string> indices;
    const std::vector<int64_t>& shape = forward_.shapes.at(tensor);
    for (size_t d = 0; d < shape.size(); ++d) {
      std::string index = absl::StrCat("z", d);
      while (writer_.constants().contains(index)) index += "_";
      indices.push_back(index);
      loops.push_back({index, shape[d], false});
    }
    NodePtr sum;
    for (const std::string& part : parts) {
      NodePtr value = expression::accessNode(part, expression::nameNodes(indices));
      if (writer_.types().at(part) != type)
        value = expression::callNode(expression::nameOfType(type), std::move(value));
      sum = sum == nullptr ? std::move(value) : expression::binaryNode("+", std::move(sum), std::move(value));
    }
    // Nothing depends on the input.
    if (sum == nullptr) sum = expression::callNode(expression::nameOfType(type), expression::integerNode(0));
    return writer_.add(writer_.freshName("d" + tensor), loops, std::move(sum));
  }

  absl::Status backward(const Statement& statement) {
    if (parts_[statement.name].empty() || !dependsOn(*statement.value, forward_.differentiated))
      return absl::OkStatus();
    TESSERA_ASSIGN_OR_RETURN(const std::string gradient, total(statement.name, false));
    const std::vector<Loop>& loops = forward_.loops.at(statement.name);
    TESSERA_ASSIGN_OR_RETURN(const Adjoint seed, seedOf(statement, loops, gradient, writer_));
    const AdjointQuestion question{statement, writer_.types(), forward_.differentiated};
    TESSERA_ASSIGN_OR_RETURN(const std::vector<ReadAdjoint> reads, adjointsOf(question, seed));
    std::vector<std::pair<std::string, ReadGroup>> groups;
    for (const ReadAdjoint& read : reads) {
      const std::string key = keyOf(read);
      auto group = std::ranges::find(groups, key, &std::pair<std::string, ReadGroup>::first);
      if (group == groups.end()) group = groups.insert(groups.end(), {key, ReadGroup{.read = read.read}});
      group->second.terms.push_back(&read.adjoint);
    }
    for (const auto& [key, group] : groups) TESSERA_RETURN_IF_ERROR(contribute(group, loops));
    return absl::OkStatus();
  }

  absl::Status contribute(const ReadGroup& group, const std::vector<Loop>& loops) {
    const std::string& tensor = group.read->name;
    auto contraction = contractionOf(group, loops, writer_);
    if (absl::IsOutOfRange(contraction.status()))
      return expression::errorAt(group.read->at, std::string(contraction.status().message()), tensor);
    TESSERA_RETURN_IF_ERROR(contraction.status());
    if (contraction->empty) return absl::OkStatus();
    std::vector<std::string>& parts = parts_[tensor];
    const std::string name = writer_.freshName("d" + tensor);
    bool written = false;
    if (options_.pads) {
      TESSERA_ASSIGN_OR_RETURN(written, writePadded(*contraction, name, writer_));
    }
    if (!written) TESSERA_RETURN_IF_ERROR(writeGuarded(*contraction, name, writer_));
    parts.push_back(name);
    return absl::OkStatus();
  }

  /// Declarations, the statements of the original that the gradients read, and the gradients.
  void assemble() {
    Program& program = result_.program;
    std::set<std::string> read;
    std::vector<Statement> statements = writer_.take();
    for (const Statement& statement : statements) collectReads(*statement.value, read);
    std::vector<Statement> again;
    for (auto statement = forward_.statements.rbegin(); statement != forward_.statements.rend(); ++statement) {
      if (!read.contains(statement->name)) continue;
      collectReads(*statement->value, read);
      again.push_back(std::move(*statement));
    }
    const auto declare = [&](const std::string& name) {
      expression::Input input{.name = name, .at = {}, .shape = {}, .dtype = writer_.types().at(name)};
      for (const int64_t extent : writer_.shapes().at(name)) input.shape.push_back(expression::integerNode(extent));
      program.inputs.push_back(std::move(input));
    };
    for (const std::string& input : forward_.inputs)
      if (read.contains(input)) declare(input);
    for (const std::string& gradient : result_.output_gradients) declare(gradient);
    program.statements.insert(program.statements.end(), std::make_move_iterator(again.rbegin()),
                              std::make_move_iterator(again.rend()));
    program.statements.insert(program.statements.end(), std::make_move_iterator(statements.begin()),
                              std::make_move_iterator(statements.end()));
    for (const InputGradient& input : result_.inputs) program.outputs.push_back(input.gradient);
    keepParams(program);
  }

  /// Extents are written as numbers, so only the statements of the original use params.
  void keepParams(Program& program) {
    std::set<std::string> names;
    for (const Statement& statement : program.statements) {
      collectNames(*statement.value, names);
      for (const expression::Bound& bound : statement.bounds) collectNames(*bound.extent, names);
    }
    for (auto param = forward_.params.rbegin(); param != forward_.params.rend(); ++param) {
      if (!names.contains(param->name)) continue;
      collectNames(*param->value, names);
      program.params.insert(program.params.begin(), std::move(*param));
    }
  }

  static void collectNames(const expression::Node& node, std::set<std::string>& names) {
    if (node.kind == expression::Kind::kName) names.insert(node.name);
    for (const NodePtr& child : node.children) collectNames(*child, names);
  }

  static void collectReads(const expression::Node& node, std::set<std::string>& read) {
    if (node.kind == expression::Kind::kAccess) read.insert(node.name);
    for (const NodePtr& child : node.children) collectReads(*child, read);
  }

  ForwardProgram forward_;
  const GradientOptions& options_;
  StatementWriter writer_;
  std::map<std::string, std::vector<std::string>> parts_;  ///< of the gradient of each tensor
  Gradient result_;
};

}  // namespace

absl::StatusOr<Gradient> gradientOf(const Program& program, const GradientOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(ForwardProgram forward, forwardProgram(program, options.inputs));
  return Differentiation(std::move(forward), options).run();
}

}  // namespace tessera::compiler::gradient
