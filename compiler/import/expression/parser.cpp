#include <algorithm>
#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/expression/lexer.h"
#include "compiler/import/expression/syntax.h"
#include "compiler/import/model_error.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::expression {
namespace {

struct TypeName {
  std::string_view name;
  v1::DataType dtype;
};
constexpr TypeName kTypes[] = {
    {"f32", v1::DATA_TYPE_F32}, {"f64", v1::DATA_TYPE_F64}, {"f16", v1::DATA_TYPE_F16}, {"bf16", v1::DATA_TYPE_BF16},
    {"i8", v1::DATA_TYPE_I8},   {"i16", v1::DATA_TYPE_I16}, {"i32", v1::DATA_TYPE_I32}, {"i64", v1::DATA_TYPE_I64},
    {"u8", v1::DATA_TYPE_U8},   {"u16", v1::DATA_TYPE_U16}, {"u32", v1::DATA_TYPE_U32}, {"u64", v1::DATA_TYPE_U64},
};

// Binary operators from loosest to tightest; all are left-associative. & and | are the thesis' spelling.
constexpr std::array<std::array<std::string_view, 4>, 6> kLevels = {
    {{"||", "|"}, {"&&", "&"}, {"==", "!="}, {"<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}}};

struct AccumulationName {
  std::string_view call, assignment;
  Accumulation accumulation;
};
constexpr AccumulationName kAccumulations[] = {{"sum", "+=", Accumulation::kSum},
                                               {"prod", "*=", Accumulation::kProduct},
                                               {"max", "max=", Accumulation::kMax},
                                               {"min", "min=", Accumulation::kMin}};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Program> run() {
    Program program;
    // Declarations and statements may alternate: each needs only what is above it.
    while (peek().kind != TokenKind::kEnd) {
      if (take("param")) {
        TESSERA_RETURN_IF_ERROR(list([&] { return param(program); }));
      } else if (take("input")) {
        TESSERA_RETURN_IF_ERROR(inputs(program));
      } else if (take("output")) {
        TESSERA_RETURN_IF_ERROR(list([&]() -> absl::Status {
          TESSERA_ASSIGN_OR_RETURN(std::string output, name("the name of a tensor"));
          program.outputs.push_back(std::move(output));
          return absl::OkStatus();
        }));
      } else {
        // Everything else is a statement, which begins with the name of its result.
        if (program.statements.size() == kMaxStatements) {
          return fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat("more than ", kMaxStatements, " statements"));
        }
        TESSERA_ASSIGN_OR_RETURN(Statement parsed, statement());
        program.statements.push_back(std::move(parsed));
      }
      TESSERA_RETURN_IF_ERROR(expect(";"));
    }
    return program;
  }

 private:
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  Token take() { return tokens_[std::min(next_++, tokens_.size() - 1)]; }
  bool take(std::string_view text) {
    if (peek().text != text || peek().kind == TokenKind::kEnd) return false;
    ++next_;
    return true;
  }
  absl::Status unexpected(const std::string& accepted) const {
    const bool end = peek().kind == TokenKind::kEnd;
    return errorAt(peek().at, absl::StrCat(accepted, " is expected here"), end ? "end of text" : peek().text, accepted);
  }
  absl::Status expect(const std::string& symbol) {
    return take(symbol) ? absl::OkStatus() : unexpected(absl::StrCat("'", symbol, "'"));
  }
  absl::StatusOr<std::string> name(const std::string& what) {
    if (peek().kind != TokenKind::kName) return unexpected(what);
    return take().text;
  }
  template <typename Item>
  absl::Status list(Item&& item) {
    do {
      TESSERA_RETURN_IF_ERROR(item());
    } while (take(","));
    return absl::OkStatus();
  }

  absl::Status param(Program& program) {
    TESSERA_ASSIGN_OR_RETURN(std::string named, name("the name of a param"));
    TESSERA_RETURN_IF_ERROR(expect("="));
    TESSERA_ASSIGN_OR_RETURN(NodePtr value, expr());
    program.params.push_back({std::move(named), std::move(value)});
    return absl::OkStatus();
  }

  // input A[M, K], B[K, N]: f32  -- a type applies to the tensors since the last type.
  absl::Status inputs(Program& program) {
    const size_t first = program.inputs.size();
    TESSERA_RETURN_IF_ERROR(list([&]() -> absl::Status {
      Input input;
      input.at = peek().at;
      TESSERA_ASSIGN_OR_RETURN(input.name, name("the name of a tensor"));
      TESSERA_RETURN_IF_ERROR(expect("["));
      if (!take("]")) {
        TESSERA_RETURN_IF_ERROR(list([&]() -> absl::Status {
          TESSERA_ASSIGN_OR_RETURN(NodePtr extent, expr());
          input.shape.push_back(std::move(extent));
          return absl::OkStatus();
        }));
        TESSERA_RETURN_IF_ERROR(expect("]"));
      }
      program.inputs.push_back(std::move(input));
      return absl::OkStatus();
    }));
    if (!take(":")) return absl::OkStatus();
    const auto dtype = typeOfName(peek().text);
    if (!dtype) return unexpected("a type such as f32, f64, i32, i64, i8 or u8");
    take();
    for (size_t i = first; i < program.inputs.size(); ++i) program.inputs[i].dtype = *dtype;
    return absl::OkStatus();
  }

  absl::StatusOr<Statement> statement() {
    Statement result;
    result.at = peek().at;
    TESSERA_ASSIGN_OR_RETURN(result.name, name("a statement, 'param', 'input' or 'output'"));
    TESSERA_RETURN_IF_ERROR(expect("["));
    if (!take("]")) {
      TESSERA_RETURN_IF_ERROR(list([&]() -> absl::Status {
        TESSERA_ASSIGN_OR_RETURN(std::string index, name("an index variable"));
        result.indices.push_back(std::move(index));
        return absl::OkStatus();
      }));
      TESSERA_RETURN_IF_ERROR(expect("]"));
    }
    TESSERA_RETURN_IF_ERROR(assignment(result));
    TESSERA_ASSIGN_OR_RETURN(result.value, expr());
    TESSERA_RETURN_IF_ERROR(unwrapReduction(result));
    if (take("where")) {
      TESSERA_RETURN_IF_ERROR(list([&]() -> absl::Status {
        Bound bound;
        bound.at = peek().at;
        TESSERA_ASSIGN_OR_RETURN(bound.variable, name("an index variable"));
        TESSERA_RETURN_IF_ERROR(expect("<"));
        TESSERA_ASSIGN_OR_RETURN(bound.extent, level(4));  // an arithmetic expression, not a comparison
        result.bounds.push_back(std::move(bound));
        return absl::OkStatus();
      }));
    }
    return result;
  }

  absl::Status assignment(Statement& result) {
    for (const AccumulationName& row : kAccumulations) {
      // max= and min= are two tokens, a name and "=".
      const bool word = peek().text == row.call && peek(1).text == "=";
      if (peek().text != row.assignment && !word) continue;
      next_ += word ? 2 : 1;
      result.accumulation = row.accumulation;
      return absl::OkStatus();
    }
    return take("=") ? absl::OkStatus() : unexpected("one of = += *= max= min=");
  }

  // Removes a reduction around the whole right side: sum(x), sum(x, axis = k), max(x, axis = (r, s)). max(x, y) is a
  // function.
  absl::Status unwrapReduction(Statement& result) {
    Node& value = *result.value;
    // Any call in the statement adds an entry, and the call around the whole right side adds the last one.
    if (value.kind != Kind::kCall || reduction_axes_.empty()) return absl::OkStatus();
    for (const AccumulationName& row : kAccumulations) {
      if (value.name != row.call || value.children.size() != 1) continue;
      if (result.accumulation != Accumulation::kNone) {
        return errorAt(value.at, "a reduction is written once, by the assignment or by the function");
      }
      result.accumulation = row.accumulation;
      result.axes = std::move(reduction_axes_.back());
      NodePtr inner = std::move(value.children[0]);
      result.value = std::move(inner);
      break;
    }
    reduction_axes_.clear();
    return absl::OkStatus();
  }

  absl::StatusOr<NodePtr> expr() {
    // Recursion follows the text's nesting, so its depth is limited.
    if (++depth_ > kMaxNesting) {
      return fault(v1::Failure::LIMIT_EXCEEDED,
                   absl::StrCat("line ", peek().at.line, ": an expression nests deeper than ", kMaxNesting));
    }
    TESSERA_ASSIGN_OR_RETURN(NodePtr condition, level(0));
    if (take("?")) {
      NodePtr node = make(Kind::kCondition, "?");
      TESSERA_ASSIGN_OR_RETURN(NodePtr yes, expr());
      // Both branches are whole expressions: conditions associate to the right.
      TESSERA_RETURN_IF_ERROR(expect(":"));
      TESSERA_ASSIGN_OR_RETURN(NodePtr no, expr());
      node->children.push_back(std::move(condition));
      node->children.push_back(std::move(yes));
      node->children.push_back(std::move(no));
      condition = std::move(node);
    }
    --depth_;
    return condition;
  }

  absl::StatusOr<NodePtr> level(size_t at) {
    if (at == kLevels.size()) return unary();
    TESSERA_ASSIGN_OR_RETURN(NodePtr left, level(at + 1));
    // Limits the chain, because it makes a deep tree that later steps walk recursively.
    int chain = 0;
    while (peek().kind == TokenKind::kSymbol &&
           std::find(kLevels[at].begin(), kLevels[at].end(), peek().text) != kLevels[at].end()) {
      if (++chain > kMaxNesting) {
        return fault(v1::Failure::LIMIT_EXCEEDED,
                     absl::StrCat("line ", peek().at.line, ": more than ", kMaxNesting, " operators in a row"));
      }
      std::string op = take().text;
      // Single & and | mean the same as && and ||.
      if (op == "&" || op == "|") op += op;
      NodePtr node = make(Kind::kBinary, op);
      TESSERA_ASSIGN_OR_RETURN(NodePtr right, level(at + 1));
      node->children.push_back(std::move(left));
      node->children.push_back(std::move(right));
      left = std::move(node);
    }
    return left;
  }

  absl::StatusOr<NodePtr> unary() {
    if (peek().text == "-" || peek().text == "!") {
      if (++depth_ > kMaxNesting) return fault(v1::Failure::LIMIT_EXCEEDED, "too many signs in a row");
      NodePtr node = make(Kind::kUnary, peek().text);
      take();
      TESSERA_ASSIGN_OR_RETURN(NodePtr operand, unary());
      node->children.push_back(std::move(operand));
      --depth_;
      return node;
    }
    return primary();
  }

  absl::StatusOr<NodePtr> primary() {
    NodePtr node = make(Kind::kNumber, peek().text);
    // Parentheses leave no node behind.
    if (take("(")) {
      TESSERA_ASSIGN_OR_RETURN(NodePtr inner, expr());
      TESSERA_RETURN_IF_ERROR(expect(")"));
      return inner;
    }
    if (peek().kind == TokenKind::kNumber) {
      node->real = node->name.find_first_of(".eE") != std::string::npos;
      if (!absl::SimpleAtod(take().text, &node->number)) return errorAt(node->at, "not a number", node->name);
      return node;
    }
    if (peek().kind != TokenKind::kName) return unexpected("a number, a name or '('");
    take();
    node->kind = take("[") ? Kind::kAccess : take("(") ? Kind::kCall : Kind::kName;
    if (node->kind == Kind::kName) return node;
    const std::string close = node->kind == Kind::kAccess ? "]" : ")";
    if (take(close)) return node;
    std::vector<std::string> axes;
    TESSERA_RETURN_IF_ERROR(list([&]() -> absl::Status {
      // `axis =` is no argument but lists the reduced variables.
      if (node->kind == Kind::kCall && peek().text == "axis" && peek(1).text == "=") return axis(axes);
      TESSERA_ASSIGN_OR_RETURN(NodePtr argument, expr());
      node->children.push_back(std::move(argument));
      return absl::OkStatus();
    }));
    TESSERA_RETURN_IF_ERROR(expect(close));
    if (node->kind == Kind::kCall) reduction_axes_.push_back(std::move(axes));
    return node;
  }

  absl::Status axis(std::vector<std::string>& axes) {
    next_ += 2;  // axis =
    const bool several = take("(");
    do {
      TESSERA_ASSIGN_OR_RETURN(std::string variable, name("an index variable"));
      axes.push_back(std::move(variable));
    } while (several && take(","));
    return several ? expect(")") : absl::OkStatus();
  }

  NodePtr make(Kind kind, const std::string& named) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->at = peek().at;
    node->name = named;
    return node;
  }

  std::vector<Token> tokens_;
  size_t next_ = 0;
  int depth_ = 0;
  std::vector<std::vector<std::string>> reduction_axes_;  // of the calls in this statement; the outermost is last
};

}  // namespace

std::optional<v1::DataType> typeOfName(std::string_view name) {
  for (const TypeName& row : kTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string nameOfType(v1::DataType dtype) {
  for (const TypeName& row : kTypes) {
    if (row.dtype == dtype) return std::string(row.name);
  }
  return "";
}

absl::StatusOr<Program> parse(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat("the text has ", text.size(), " bytes"),
                 {.accepted = absl::StrCat("at most ", kMaxTextBytes)});
  }
  TESSERA_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(text));
  return Parser(std::move(tokens)).run();
}

}  // namespace tessera::compiler::expression
