#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/loopnest/body.h"

namespace tessera::compiler::loopnest {
namespace {

/// How tightly an expression binds: parentheses surround a looser one.
enum Binding { kSum, kProduct, kPrimary };

struct Text {
  std::string text;
  Binding binding = kPrimary;
  std::string within(Binding context) const { return binding < context ? absl::StrCat("(", text, ")") : text; }
};

Text textOf(const Operation& operation, const std::vector<Text>& values) {
  const auto operand = [&](size_t i) -> const Text& { return values[static_cast<size_t>(operation.operands[i])]; };
  if (operation.name == "constant") return {absl::StrCat(operation.constant), kPrimary};
  // A sign binds as tightly as an access: parse() reads it before a factor.
  if (operation.name == "neg") return {absl::StrCat("-", operand(0).within(kPrimary)), kPrimary};
  const OperationKind* kind = operationKind(operation.name);
  if (kind != nullptr && !kind->symbol.empty()) {
    const Binding binding = operation.name == "add" || operation.name == "sub" ? kSum : kProduct;
    // Operators associate to the left, so an equal one on the right needs parentheses.
    const Binding right = binding == kSum ? kProduct : kPrimary;
    return {absl::StrCat(operand(0).within(binding), " ", std::string(kind->symbol), " ", operand(1).within(right)),
            binding};
  }
  return {absl::StrCat(operation.name, "(",
                       absl::StrJoin(operation.operands, ", ",
                                     [&](std::string* out, int v) { *out += values[static_cast<size_t>(v)].text; }),
                       ")"),
          kPrimary};
}

class Printer {
 public:
  explicit Printer(const Nest& nest) : nest_(nest) {
    for (const Loop& loop : nest.loops) loops_.push_back(loop.name);
  }

  std::string statement(const Statement& statement) const {
    const std::string output = access(statement.output);
    const Body& body = statement.body;
    if (body.opaque) {
      return absl::StrCat(
          output, " = ", statement.name, "(",
          absl::StrJoin(statement.inputs, ", ", [&](std::string* out, int input) { *out += access(input); }), ")");
    }
    const std::string value = valueOf(statement);
    const auto reduced = [&](const char* assignment, const char* call) {
      return body.keeps ? absl::StrCat(output, " ", assignment, " ", value)
                        : absl::StrCat(output, " = ", call, "(", value, ")");
    };
    switch (body.combine) {
      case Combine::kProduct:
        return reduced("*=", "prod");
      case Combine::kMaximum:
        return reduced("max=", "max");
      case Combine::kMinimum:
        return reduced("min=", "min");
      default:
        return absl::StrCat(output, body.keeps ? " += " : " = ", value);
    }
  }

 private:
  std::string access(int position) const {
    const Access& access = nest_.accesses[static_cast<size_t>(position)];
    return absl::StrCat(
        access.name, "[",
        absl::StrJoin(access.subscripts, ", ",
                      [&](std::string* out, const Subscript& subscript) { *out += print(subscript, loops_); }),
        "]");
  }

  std::string valueOf(const Statement& statement) const {
    std::vector<Text> values;
    for (const int input : statement.inputs) values.push_back({access(input), kPrimary});
    for (const Operation& operation : statement.body.operations) values.push_back(textOf(operation, values));
    return values.back().text;
  }

  const Nest& nest_;
  std::vector<std::string> loops_;
};

}  // namespace

std::string print(const Nest& nest) {
  const Printer printer(nest);
  return absl::StrJoin(nest.statements, "; ",
                       [&](std::string* out, const Statement& statement) { *out += printer.statement(statement); });
}

}  // namespace tessera::compiler::loopnest
