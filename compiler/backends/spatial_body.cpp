#include "compiler/backends/spatial_body.h"

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/element_type.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "proto/messages/element_size.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::spatial {
namespace {

namespace arith = mlir::arith;

/// Whether the element at a static place is read before the nest, so that a later write matters.
absl::Status whyStale(mlir::Operation* load, int buffer, const Buffers& buffers) {
  const auto at = buffers.place.find(load);
  const auto written = buffers.written.find(buffer);
  if (at == buffers.place.end() || written == buffers.written.end() || written->second < at->second)
    return absl::OkStatus();
  return inexpressible(load, "reads an element before another operation writes it, for a later operation");
}

std::string littleEndian(const llvm::APInt& bits, int64_t bytes) {
  std::string text;
  for (int64_t byte = 0; byte < bytes; ++byte) {
    const auto from = static_cast<unsigned>(8 * byte);
    const unsigned width = from < bits.getBitWidth() ? std::min(8U, bits.getBitWidth() - from) : 0;
    text += static_cast<char>(width == 0 ? 0 : bits.extractBitsAsZExtValue(width, from));
  }
  return text;
}

}  // namespace

absl::Status inexpressible(mlir::Operation* op, const std::string& why) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::UNSUPPORTED_OPERATOR);
  failure.set_op_type(op->getName().getStringRef().str());
  failure.set_message(absl::StrCat(failure.op_type(), " ", why, "; loop nests cannot express it"));
  return failureStatus(failure);
}

int BodyWriter::add(v1::SpatialKernel::Operation operation) {
  *nest_.add_body() = std::move(operation);
  return nest_.accesses_size() + nest_.body_size() - 1;
}

int BodyWriter::writeIndex(int64_t loop) {
  if (const auto known = indices_.find(loop); known != indices_.end()) return known->second;
  v1::SpatialKernel::Operation operation;
  operation.set_name("index");
  operation.set_dtype(v1::DATA_TYPE_I64);
  operation.set_loop(static_cast<int32_t>(loop));
  return indices_[loop] = add(std::move(operation));
}

int BodyWriter::writeNumber(int64_t number) {
  if (const auto known = numbers_.find(number); known != numbers_.end()) return known->second;
  v1::SpatialKernel::Operation operation;
  operation.set_name("constant");
  operation.set_dtype(v1::DATA_TYPE_I64);
  operation.set_constant(littleEndian(llvm::APInt(64, static_cast<uint64_t>(number), true), 8));
  return numbers_[number] = add(std::move(operation));
}

int BodyWriter::combine(const char* name, int left, int right, v1::DataType dtype) {
  v1::SpatialKernel::Operation operation;
  operation.set_name(name);
  operation.set_dtype(dtype);
  operation.add_operands(left);
  operation.add_operands(right);
  return add(std::move(operation));
}

void BodyWriter::bindLoop(mlir::Value value, int64_t loop, int64_t first, int64_t step) {
  int number = writeIndex(loop);
  if (step != 1) number = combine("muli", number, writeNumber(step));
  if (first != 0) number = combine("addi", number, writeNumber(first));
  known_[value] = number;
}

int BodyWriter::isPlace(const std::vector<std::pair<int, int64_t>>& value_and_loop) {
  int all = -1;
  for (const auto& [value, loop] : value_and_loop) {
    const int here = combine("cmpi.eq", value, writeIndex(loop), v1::DATA_TYPE_BOOL);
    all = all < 0 ? here : combine("andi", all, here, v1::DATA_TYPE_BOOL);
  }
  return all;
}

int BodyWriter::select(int condition, int chosen, int other, v1::DataType dtype) {
  v1::SpatialKernel::Operation operation;
  operation.set_name("select");
  operation.set_dtype(dtype);
  for (int operand : {condition, chosen, other}) operation.add_operands(operand);
  return add(std::move(operation));
}

absl::StatusOr<int> BodyWriter::writeExpression(mlir::AffineExpr expression) {
  if (auto dimension = llvm::dyn_cast<mlir::AffineDimExpr>(expression)) return writeIndex(dimension.getPosition());
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expression)) return writeNumber(constant.getValue());
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
  if (!binary) return failureStatus(v1::Failure::INTERNAL, "a subscript has symbols");
  TESSERA_ASSIGN_OR_RETURN(const int left, writeExpression(binary.getLHS()));
  TESSERA_ASSIGN_OR_RETURN(const int right, writeExpression(binary.getRHS()));
  switch (expression.getKind()) {
    case mlir::AffineExprKind::Add:
      return combine("addi", left, right);
    case mlir::AffineExprKind::Mul:
      return combine("muli", left, right);
    case mlir::AffineExprKind::FloorDiv:
      return combine("floordivsi", left, right);
    case mlir::AffineExprKind::CeilDiv:
      return combine("ceildivsi", left, right);
    default: {
      // x mod m is never negative: x - m * floor(x / m).
      const int whole = combine("muli", combine("floordivsi", left, right), right);
      return combine("subi", left, whole);
    }
  }
}

int BodyWriter::load(const View& view, int buffer, const std::vector<int>& indices, v1::DataType dtype) {
  v1::SpatialKernel::Operation operation;
  operation.set_name("load");
  operation.set_dtype(dtype);
  operation.mutable_operands()->Add(indices.begin(), indices.end());
  operation.mutable_access()->set_buffer(buffer);
  operation.mutable_access()->set_offset(view.offset);
  operation.mutable_access()->mutable_strides()->Add(view.strides.begin(), view.strides.end());
  return add(std::move(operation));
}

absl::StatusOr<int> BodyWriter::elementAt(const View& view, mlir::AffineMap map) {
  std::vector<int> indices;
  for (mlir::AffineExpr expression : map.getResults()) {
    TESSERA_ASSIGN_OR_RETURN(const int index, writeExpression(expression));
    indices.push_back(index);
  }
  const mlir::Type element = llvm::cast<mlir::MemRefType>(view.root.getType()).getElementType();
  return load(view, buffers_.number.at(view.root), indices, dataTypeOf(element));
}

absl::StatusOr<int> BodyWriter::writeLoad(mlir::Operation* op, mlir::Value memref, mlir::ValueRange indices) {
  const std::optional<View> view = viewOf(memref);
  if (!view || !buffers_.number.contains(view->root)) return inexpressible(op, "reads a view of run-time shape");
  const int buffer = buffers_.number.at(view->root);
  TESSERA_RETURN_IF_ERROR(whyStale(op, buffer, buffers_));
  std::vector<int> values;
  for (mlir::Value index : indices) {
    TESSERA_ASSIGN_OR_RETURN(const int value, valueOf(index));
    values.push_back(value);
  }
  return load(*view, buffer, values, dataTypeOf(op->getResult(0).getType()));
}

absl::StatusOr<int> BodyWriter::writeConstant(mlir::Operation* op, mlir::Attribute value) {
  v1::SpatialKernel::Operation operation;
  operation.set_name("constant");
  operation.set_dtype(dataTypeOf(op->getResult(0).getType()));
  const int64_t bytes = elementBytes(operation.dtype());
  if (auto whole = llvm::dyn_cast<mlir::IntegerAttr>(value)) {
    operation.set_constant(littleEndian(whole.getValue(), bytes));
  } else if (auto real = llvm::dyn_cast<mlir::FloatAttr>(value)) {
    operation.set_constant(littleEndian(real.getValue().bitcastToAPInt(), bytes));
  } else {
    return inexpressible(op, "is a constant that is no number");
  }
  return add(std::move(operation));
}

absl::StatusOr<int> BodyWriter::writeConversion(mlir::Operation* op, bool is_signed) {
  TESSERA_ASSIGN_OR_RETURN(const int operand, valueOf(op->getOperand(0)));
  const auto bitsOf = [](mlir::Type type) { return type.isIndex() ? 64U : type.getIntOrFloatBitWidth(); };
  const unsigned from = bitsOf(op->getOperand(0).getType()), to = bitsOf(op->getResult(0).getType());
  if (from == to) return operand;
  v1::SpatialKernel::Operation operation;
  operation.set_name(to < from ? "trunci" : is_signed ? "extsi" : "extui");
  operation.set_dtype(dataTypeOf(op->getResult(0).getType()));
  operation.add_operands(operand);
  return add(std::move(operation));
}

absl::StatusOr<int> BodyWriter::write(mlir::Operation* op) {
  if (auto constant = llvm::dyn_cast<arith::ConstantOp>(op)) return writeConstant(op, constant.getValue());
  if (auto index = llvm::dyn_cast<mlir::linalg::IndexOp>(op)) return writeIndex(static_cast<int64_t>(index.getDim()));
  if (auto read = llvm::dyn_cast<mlir::memref::LoadOp>(op)) return writeLoad(op, read.getMemRef(), read.getIndices());
  if (llvm::isa<arith::IndexCastOp>(op)) return writeConversion(op, true);
  if (llvm::isa<arith::IndexCastUIOp>(op)) return writeConversion(op, false);
  const llvm::StringRef dialect = op->getName().getDialectNamespace();
  if ((dialect != "arith" && dialect != "math") || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return inexpressible(op, "is not an operation on scalars");
  v1::SpatialKernel::Operation operation;
  std::string name = op->getName().stripDialect().str();
  if (auto compare = llvm::dyn_cast<arith::CmpFOp>(op))
    absl::StrAppend(&name, ".", arith::stringifyCmpFPredicate(compare.getPredicate()).str());
  if (auto compare = llvm::dyn_cast<arith::CmpIOp>(op))
    absl::StrAppend(&name, ".", arith::stringifyCmpIPredicate(compare.getPredicate()).str());
  operation.set_name(name);
  operation.set_dtype(dataTypeOf(op->getResult(0).getType()));
  if (operation.dtype() == v1::DATA_TYPE_UNSPECIFIED) return inexpressible(op, "has a result of another type");
  for (mlir::Value operand : op->getOperands()) {
    TESSERA_ASSIGN_OR_RETURN(const int value, valueOf(operand));
    operation.add_operands(value);
  }
  return add(std::move(operation));
}

absl::StatusOr<int> BodyWriter::valueOf(mlir::Value value) {
  while (const mlir::Value other = same_.lookup(value)) value = other;
  if (const auto known = known_.find(value); known != known_.end()) return known->second;
  mlir::Operation* op = value.getDefiningOp();
  if (!op) return failureStatus(v1::Failure::INTERNAL, "a body reads an argument that is no element of an operand");
  TESSERA_ASSIGN_OR_RETURN(const int number, write(op));
  known_[value] = number;
  return number;
}

}  // namespace tessera::compiler::spatial
