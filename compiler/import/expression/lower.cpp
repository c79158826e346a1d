#include "compiler/import/expression/lower.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/import/expression/padded_read.h"
#include "compiler/import/model_error.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::expression {
namespace {

using mlir::AffineExpr;
using mlir::AffineMap;
using mlir::Value;
using mlir::utils::IteratorType;

// A value of the body and its type; conditions are DATA_TYPE_BOOL. Literals and constant integers take the type of the
// other operand: until then `literal` points to their node, and there is a number but no value.
struct Typed {
  Value value = {};
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  const Node* literal = nullptr;
  double number = 0;
};

using UnaryFunction = Value (*)(const Scalars&, Value);
struct FunctionRow {
  std::string_view name;
  UnaryFunction emit;
};
template <typename Op>
Value mathOp(const Scalars& s, Value x) {
  return s.math<Op>(x);
}
const FunctionRow kFunctions[] = {
    {"exp", mathOp<mlir::math::ExpOp>},     {"log", mathOp<mlir::math::LogOp>},
    {"sqrt", mathOp<mlir::math::SqrtOp>},   {"rsqrt", mathOp<mlir::math::RsqrtOp>},
    {"tanh", mathOp<mlir::math::TanhOp>},   {"erf", mathOp<mlir::math::ErfOp>},
    {"sin", mathOp<mlir::math::SinOp>},     {"cos", mathOp<mlir::math::CosOp>},
    {"floor", mathOp<mlir::math::FloorOp>}, {"ceil", mathOp<mlir::math::CeilOp>},
};

struct RelationRow {
  std::string_view name;
  Relation relation;
};
constexpr RelationRow kRelations[] = {{"==", Relation::kEqual},  {"!=", Relation::kNotEqual},
                                      {"<", Relation::kLess},    {"<=", Relation::kLessOrEqual},
                                      {">", Relation::kGreater}, {">=", Relation::kGreaterOrEqual}};

bool isVariable(const Node& node, const Constants& constants) {
  return node.kind == Kind::kName && !constants.contains(node.name);
}

class StatementLowering {
 public:
  StatementLowering(Emitter& emitter, const Statement& statement, const std::vector<Loop>& loops,
                    const std::map<std::string, Tensor>& tensors, const Constants& constants)
      : e_(emitter), statement_(statement), loops_(loops), tensors_(tensors), constants_(constants) {}

  absl::StatusOr<Tensor> run() {
    // Operands must be known before the operation is created; its body then uses or extracts them.
    findOperands(*statement_.value, false);
    TESSERA_ASSIGN_OR_RETURN(const v1::DataType dtype, typeOf(*statement_.value));
    if (dtype == v1::DATA_TYPE_BOOL) {
      return errorAt(statement_.at, "a condition is no value", "", "condition ? 1 : 0");
    }
    addExtentOperands();

    Shape shape;
    for (size_t i = 0; i < statement_.indices.size(); ++i) shape.push_back(loops_[i].extent);
    // Checked before anything is emitted, because a small program can declare an enormous result.
    TESSERA_RETURN_IF_ERROR(checkShape(shape, dtype, absl::StrCat("'", statement_.name, "'")));
    if (auto padded = pad(dtype)) return *std::move(padded);
    std::vector<IteratorType> iterators;
    for (const Loop& loop : loops_) {
      iterators.push_back(loop.reduction ? IteratorType::reduction : IteratorType::parallel);
    }
    const auto rank = static_cast<unsigned>(loops_.size());
    // Does not use getMajorSubMap(), which returns no map for a result of rank 0.
    llvm::SmallVector<AffineExpr> kept;
    for (unsigned i = 0; i < shape.size(); ++i) kept.push_back(e_.b.getAffineDimExpr(i));
    const AffineMap result = AffineMap::get(rank, 0, kept, e_.b.getContext());
    std::optional<Tensor> start;
    if (statement_.accumulation != Accumulation::kNone) start = e_.filled(neutral(dtype), dtype, shape);

    // The body is a callback without a result for errors, so it stores the first one here.
    absl::Status status;
    Tensor tensor = e_.generic(dtype, shape, operands_, result, iterators, start ? &*start : nullptr,
                               [&](const Scalars& s, mlir::ValueRange arguments) -> Value {
                                 const Scalars typed = s.as(dtype);
                                 auto value = emit(typed, *statement_.value, arguments);
                                 if (value.ok()) value = settle(typed, *value, dtype);
                                 if (!value.ok()) {
                                   status = value.status();
                                   return typed.constant(0);  // never used, since the import fails
                                 }
                                 return start ? accumulate(typed, arguments.back(), value->value) : value->value;
                               });
    if (!status.ok()) return status;
    return tensor;
  }

 private:
  // Emits a statement that surrounds a part of a tensor by a number as a pad operation, which copies rows.
  std::optional<Tensor> pad(v1::DataType dtype) {
    const Node& value = *statement_.value;
    if (value.kind != Kind::kCondition || value.children[1]->kind != Kind::kAccess) return std::nullopt;
    const Tensor& tensor = tensors_.at(value.children[1]->name);
    const auto padded = paddedRead(statement_, loops_, tensor.shape, constants_);
    if (!padded || tensor.dtype != dtype || (value.children[2]->real && !isFloat(dtype))) return std::nullopt;
    const Tensor part = e_.slice(tensor, padded->first, padded->extent, Shape(tensor.shape.size(), 1));
    return e_.pad(part, padded->before, padded->behind, e_.scalars(dtype).constant(padded->number));
  }

  // Finds reads that can be operands: linear, never negative, unconditional.
  void findOperands(const Node& node, bool guarded) {
    if (node.kind == Kind::kAccess) {
      if (!guarded) addOperand(node);
      return;
    }
    for (size_t i = 0; i < node.children.size(); ++i) {
      // Both sides of a condition are guarded, the condition itself is not.
      findOperands(*node.children[i], guarded || (node.kind == Kind::kCondition && i > 0));
    }
  }

  // A conditional read with exactly an operand's subscripts uses that operand: B = A >= 0 ? A : 0 reads A once.
  std::optional<AffineMap> accessMap(const Node& access) {
    llvm::SmallVector<AffineExpr> results;
    for (const NodePtr& child : access.children) {
      auto subscript = analyse(*child, constants_);
      if (!subscript.ok() || !subscript->linear || subscript->offset < 0) return std::nullopt;
      AffineExpr sum = e_.b.getAffineConstantExpr(subscript->offset);
      for (size_t i = 0; i < loops_.size(); ++i) {
        const auto factor = subscript->factors.find(loops_[i].variable);
        if (factor == subscript->factors.end()) continue;
        // Affine maps of linalg operands must not count down.
        if (factor->second < 0) return std::nullopt;
        sum = sum + e_.b.getAffineDimExpr(static_cast<unsigned>(i)) * factor->second;
      }
      results.push_back(sum);
    }
    return AffineMap::get(static_cast<unsigned>(loops_.size()), 0, results, e_.b.getContext());
  }

  void addOperand(const Node& access) {
    const std::optional<AffineMap> map = accessMap(access);
    // Equal reads share an operand.
    if (!map || operandOf(access.name, *map) >= 0) return;
    operands_.push_back({readPart(tensors_.at(access.name), *map), *map});
    operand_names_.push_back(access.name);
  }

  /// Slices a tensor to the loops that index it alone, because linalg requires their extents to be equal.
  Tensor readPart(const Tensor& tensor, AffineMap map) {
    Shape sizes = tensor.shape;
    for (auto [d, subscript] : llvm::enumerate(map.getResults()))
      if (auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(subscript))
        sizes[d] = std::min(sizes[d], loops_[dim.getPosition()].extent);
    return sizes == tensor.shape ? tensor : e_.slice(tensor, Shape(sizes.size(), 0), sizes, Shape(sizes.size(), 1));
  }

  int operandOf(const std::string& name, AffineMap map) const {
    for (size_t i = 0; i < operand_names_.size(); ++i) {
      if (operand_names_[i] == name && operands_[i].map == map) return static_cast<int>(i);
    }
    return -1;
  }

  // linalg takes a loop's extent from an operand that the loop alone indexes. If there is none (a pooling window), an
  // operand without contents provides it.
  void addExtentOperands() {
    for (size_t i = statement_.indices.size(); i < loops_.size(); ++i) {
      const AffineExpr dim = e_.b.getAffineDimExpr(static_cast<unsigned>(i));
      const bool known = std::any_of(operands_.begin(), operands_.end(), [&](const Access& operand) {
        return llvm::is_contained(operand.map.getResults(), dim);
      });
      if (known) continue;
      const v1::DataType dtype = operands_.empty() ? v1::DATA_TYPE_F32 : operands_[0].tensor.dtype;
      operands_.push_back({Emitter::wrap(e_.empty(dtype, {loops_[i].extent}), dtype),
                           AffineMap::get(static_cast<unsigned>(loops_.size()), 0, dim)});
      // Without a name, so that no read finds it.
      operand_names_.emplace_back();
    }
  }

  Value neutral(v1::DataType dtype) {
    const Scalars s = e_.scalars(dtype);
    switch (statement_.accumulation) {
      case Accumulation::kProduct:
        return s.constant(1);
      case Accumulation::kMax:
        return s.lowest();
      case Accumulation::kMin:
        return s.highest();
      default:
        return s.constant(0);
    }
  }

  Value accumulate(const Scalars& s, Value so_far, Value x) const {
    switch (statement_.accumulation) {
      case Accumulation::kProduct:
        return s.mul(so_far, x);
      case Accumulation::kMax:
        return s.max(so_far, x);
      case Accumulation::kMin:
        return s.min(so_far, x);
      default:
        return s.add(so_far, x);
    }
  }

  static absl::Status mixed(const Node& node, v1::DataType x, v1::DataType y) {
    return errorAt(node.at, "operands of different types", absl::StrCat(typeName(x), " ", node.name, " ", typeName(y)),
                   "a cast, e.g. f32(x)");
  }

  // Whether the node is a number, or arithmetic on integers and params: 1/2 is 0 here, as for all integers.
  bool isConstant(const Node& node) const {
    if (node.kind == Kind::kNumber) return true;
    if (node.kind == Kind::kName) return constants_.contains(node.name);
    const bool arithmetic =
        node.name == "+" || node.name == "-" || node.name == "*" || node.name == "/" || node.name == "%";
    return (node.kind == Kind::kBinary || node.kind == Kind::kUnary) && arithmetic &&
           std::all_of(node.children.begin(), node.children.end(),
                       [&](const NodePtr& child) { return isConstant(*child) && !child->real; });
  }

  // Returns an expression's type without context; UNSPECIFIED for literals. Index variables and params are i64.
  absl::StatusOr<v1::DataType> bareTypeOf(const Node& node) const {
    switch (node.kind) {
      case Kind::kNumber:
        return v1::DATA_TYPE_UNSPECIFIED;
      case Kind::kName:
        return constants_.contains(node.name) ? v1::DATA_TYPE_UNSPECIFIED : v1::DATA_TYPE_I64;
      case Kind::kAccess:
        return tensors_.at(node.name).dtype;
      case Kind::kCall:
        if (auto cast = typeOfName(node.name)) return *cast;
        break;
      default:
        break;
    }
    const bool relation = std::any_of(std::begin(kRelations), std::end(kRelations),
                                      [&](const RelationRow& row) { return row.name == node.name; });
    if (relation || node.name == "&&" || node.name == "||" || node.name == "!") return v1::DATA_TYPE_BOOL;
    v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
    // A condition has the type of its two values.
    for (size_t i = node.kind == Kind::kCondition ? 1 : 0; i < node.children.size(); ++i) {
      TESSERA_ASSIGN_OR_RETURN(const v1::DataType child, bareTypeOf(*node.children[i]));
      if (child == v1::DATA_TYPE_UNSPECIFIED) continue;
      if (type != v1::DATA_TYPE_UNSPECIFIED && type != child) return mixed(node, type, child);
      type = child;
    }
    return type;
  }

  absl::StatusOr<v1::DataType> typeOf(const Node& node) const {
    TESSERA_ASSIGN_OR_RETURN(const v1::DataType type, bareTypeOf(node));
    return type == v1::DATA_TYPE_UNSPECIFIED ? v1::DATA_TYPE_F32 : type;
  }

  // Gives a literal the type that its context requires.
  absl::StatusOr<Typed> settle(const Scalars& s, const Typed& x, v1::DataType dtype) const {
    if (!x.literal) return x.dtype == dtype ? absl::StatusOr<Typed>(x) : mixed(*statement_.value, x.dtype, dtype);
    if (x.literal->real && !isFloat(dtype)) {
      return errorAt(x.literal->at, absl::StrCat("this number is no ", typeName(dtype)), x.literal->name);
    }
    return Typed{s.as(dtype).constant(x.number), dtype};
  }

  absl::StatusOr<Typed> emit(const Scalars& s, const Node& node, mlir::ValueRange arguments) {
    if (isConstant(node)) {
      // A literal has no type yet: settle() gives it the type of its neighbour.
      Typed literal;
      literal.literal = &node;
      literal.number = node.number;
      if (node.kind == Kind::kNumber) return literal;
      TESSERA_ASSIGN_OR_RETURN(const int64_t value, evaluate(node, constants_));
      literal.number = static_cast<double>(value);
      return literal;
    }
    switch (node.kind) {
      case Kind::kName:
        return Typed{mlir::arith::IndexCastOp::create(s.b, s.loc, s.b.getI64Type(), index(s, node)), v1::DATA_TYPE_I64};
      case Kind::kAccess:
        return read(s, node, arguments);
      case Kind::kCall:
        return call(s, node, arguments);
      default:
        return operate(s, node, arguments);
    }
  }

  // Returns an operand's element, or one that the body extracts.
  absl::StatusOr<Typed> read(const Scalars& s, const Node& node, mlir::ValueRange arguments) {
    const Tensor& tensor = tensors_.at(node.name);
    if (const auto map = accessMap(node)) {
      if (const int operand = operandOf(node.name, *map); operand >= 0) {
        return Typed{arguments[static_cast<size_t>(operand)], tensor.dtype};
      }
    }
    // A read that is no operand: clamped, because its condition may be false where the subscript is outside.
    llvm::SmallVector<Value> indices;
    for (size_t d = 0; d < node.children.size(); ++d) {
      const Value zero = mlir::arith::ConstantIndexOp::create(s.b, s.loc, 0);
      const Value last = mlir::arith::ConstantIndexOp::create(s.b, s.loc, tensor.shape[d] - 1);
      const Value low = mlir::arith::MaxSIOp::create(s.b, s.loc, index(s, *node.children[d]), zero);
      indices.push_back(mlir::arith::MinSIOp::create(s.b, s.loc, low, last));
    }
    return Typed{e_.extract(s.as(tensor.dtype), e_.value(tensor), indices), tensor.dtype};
  }

  // Emits an integer expression as an index value. bounds.cpp has checked its form.
  Value index(const Scalars& s, const Node& node) {
    if (node.kind == Kind::kName && isVariable(node, constants_)) {
      const auto loop =
          std::find_if(loops_.begin(), loops_.end(), [&](const Loop& l) { return l.variable == node.name; });
      return mlir::linalg::IndexOp::create(s.b, s.loc, loop - loops_.begin());
    }
    if (node.kind != Kind::kBinary && node.kind != Kind::kUnary) {
      return mlir::arith::ConstantIndexOp::create(s.b, s.loc, *evaluate(node, constants_));
    }
    const Value x = index(s, *node.children[0]);
    if (node.kind == Kind::kUnary) {
      return mlir::arith::SubIOp::create(s.b, s.loc, mlir::arith::ConstantIndexOp::create(s.b, s.loc, 0), x);
    }
    const Value y = index(s, *node.children[1]);
    if (node.name == "+") return mlir::arith::AddIOp::create(s.b, s.loc, x, y);
    if (node.name == "-") return mlir::arith::SubIOp::create(s.b, s.loc, x, y);
    if (node.name == "*") return mlir::arith::MulIOp::create(s.b, s.loc, x, y);
    // Subscripts divide towards minus infinity, unlike values.
    const Value quotient = mlir::arith::FloorDivSIOp::create(s.b, s.loc, x, y);
    if (node.name == "/") return quotient;
    return mlir::arith::SubIOp::create(s.b, s.loc, x, mlir::arith::MulIOp::create(s.b, s.loc, quotient, y));
  }

  absl::StatusOr<Typed> call(const Scalars& s, const Node& node, mlir::ValueRange arguments) {
    std::vector<Typed> values;
    for (const NodePtr& child : node.children) {
      TESSERA_ASSIGN_OR_RETURN(Typed value, emit(s, *child, arguments));
      values.push_back(value);
    }
    // A type's name is a cast, a literal then takes the type itself.
    if (const auto cast = typeOfName(node.name); cast && values.size() == 1) {
      if (values[0].literal) return settle(s, values[0], *cast);
      return Typed{s.as(values[0].dtype).cast(values[0].value, *cast), *cast};
    }
    TESSERA_ASSIGN_OR_RETURN(const v1::DataType dtype, typeOf(node));
    for (Typed& value : values) {
      TESSERA_ASSIGN_OR_RETURN(value, settle(s, value, dtype));
    }
    const Scalars typed = s.as(dtype);
    if (values.size() == 2 && (node.name == "max" || node.name == "min")) {
      const Value x = values[0].value, y = values[1].value;
      return Typed{node.name == "max" ? typed.max(x, y) : typed.min(x, y), dtype};
    }
    if (values.size() == 2 && node.name == "pow" && isFloat(dtype)) {
      return Typed{typed.math<mlir::math::PowFOp>(values[0].value, values[1].value), dtype};
    }
    if (values.size() == 1 && node.name == "abs") return Typed{typed.abs(values[0].value), dtype};
    for (const FunctionRow& row : kFunctions) {
      if (row.name == node.name && values.size() == 1 && isFloat(dtype)) {
        return Typed{row.emit(typed, values[0].value), dtype};
      }
    }
    return errorAt(
        node.at, "there is no such function of these arguments",
        absl::StrCat(node.name, " of ", values.size(), " ", typeName(dtype)),
        "exp log sqrt rsqrt tanh erf sin cos floor ceil of a float, abs(x), max/min/pow(x, y), a type's name; "
        "sum, prod, max and min with one argument stand around a whole right side");
  }

  absl::StatusOr<Typed> operate(const Scalars& s, const Node& node, mlir::ValueRange arguments) {
    std::vector<Typed> values;
    v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
    for (const NodePtr& child : node.children) {
      TESSERA_ASSIGN_OR_RETURN(Typed value, emit(s, *child, arguments));
      if (!value.literal && value.dtype != v1::DATA_TYPE_BOOL) dtype = value.dtype;
      values.push_back(value);
    }
    // Literals alone take the type of the context; inside a condition there is none.
    if (dtype == v1::DATA_TYPE_UNSPECIFIED) dtype = s.type == v1::DATA_TYPE_BOOL ? v1::DATA_TYPE_I64 : s.type;
    const bool logical = node.name == "&&" || node.name == "||" || node.name == "!";
    for (size_t i = 0; i < values.size(); ++i) {
      const bool condition = logical || (node.kind == Kind::kCondition && i == 0);
      if (condition && (values[i].literal || values[i].dtype != v1::DATA_TYPE_BOOL)) {
        return errorAt(node.children[i]->at, "a condition is expected here", node.name, "a comparison");
      }
      if (condition) continue;
      if (values[i].dtype == v1::DATA_TYPE_BOOL) return errorAt(node.children[i]->at, "a condition is no value here");
      if (!values[i].literal && values[i].dtype != dtype) return mixed(node, values[i].dtype, dtype);
      TESSERA_ASSIGN_OR_RETURN(values[i], settle(s, values[i], dtype));
    }
    const Scalars typed = s.as(dtype), truth = s.as(v1::DATA_TYPE_BOOL);
    const Value x = values[0].value, y = values.size() > 1 ? values[1].value : Value();
    if (node.kind == Kind::kCondition) return Typed{typed.select(x, y, values[2].value), dtype};
    if (node.name == "!") return Typed{truth.logicalNot(x), v1::DATA_TYPE_BOOL};
    if (node.kind == Kind::kUnary) return Typed{typed.neg(x), dtype};
    if (node.name == "&&") return Typed{truth.logicalAnd(x, y), v1::DATA_TYPE_BOOL};
    if (node.name == "||") return Typed{truth.logicalOr(x, y), v1::DATA_TYPE_BOOL};
    for (const RelationRow& row : kRelations) {
      if (row.name == node.name) return Typed{typed.compare(row.relation, x, y), v1::DATA_TYPE_BOOL};
    }
    if (node.name == "+") return Typed{typed.add(x, y), dtype};
    if (node.name == "-") return Typed{typed.sub(x, y), dtype};
    if (node.name == "*") return Typed{typed.mul(x, y), dtype};
    if (node.name == "/") return Typed{typed.div(x, y), dtype};
    return Typed{typed.floorMod(x, y), dtype};
  }

  Emitter& e_;
  const Statement& statement_;
  const std::vector<Loop>& loops_;
  const std::map<std::string, Tensor>& tensors_;
  const Constants& constants_;
  std::vector<Access> operands_;
  std::vector<std::string> operand_names_;
};

}  // namespace

absl::StatusOr<Tensor> lowerStatement(Emitter& emitter, const Statement& statement, const std::vector<Loop>& loops,
                                      const std::map<std::string, Tensor>& tensors, const Constants& constants) {
  return StatementLowering(emitter, statement, loops, tensors, constants).run();
}

}  // namespace tessera::compiler::expression
