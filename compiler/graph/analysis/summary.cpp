#include "compiler/graph/analysis/summary.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/analysis/body_names.h"
#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tessera::compiler {
namespace {

using mlir::linalg::LinalgOp;

int64_t product(LinalgOp op, llvm::ArrayRef<unsigned> loops) {
  llvm::SmallVector<int64_t, 8> extents = op.getStaticLoopRanges();
  int64_t result = 1;
  for (unsigned loop : loops) result *= extents[loop];
  return result;
}

std::string extents(LinalgOp op, llvm::ArrayRef<unsigned> loops) {
  llvm::SmallVector<int64_t, 8> ranges = op.getStaticLoopRanges();
  return absl::StrJoin(loops, "x", [&](std::string* out, unsigned loop) { absl::StrAppend(out, ranges[loop]); });
}

std::string shapeText(mlir::Type type) {
  return absl::StrJoin(mlir::cast<mlir::RankedTensorType>(type).getShape(), "x");
}

std::string elementwiseName(LinalgOp op) {
  std::vector<std::string> names = bodyNames(op);
  // An operation without arithmetic only moves elements.
  if (names.empty()) {
    for (mlir::OpOperand* input : op.getDpsInputOperands()) {
      if (!op.getMatchingIndexingMap(input).isIdentity()) return "transpose";
    }
    return "copy";
  }
  if (names.size() > 6) return absl::StrCat("elementwise of ", names.size());
  return absl::StrJoin(names, " + ");
}

std::string convolutionKind(LinalgOp op, const mlir::linalg::ConvolutionDimensions& dims) {
  const bool multiplies = llvm::any_of(op.getBlock()->getOperations(), [](mlir::Operation& inner) {
    return mlir::isa<mlir::arith::MulFOp, mlir::arith::MulIOp>(inner);
  });
  const char* kind = !multiplies ? "pool" : dims.inputChannel.empty() ? "depthwise-conv" : "conv";
  return absl::StrCat(kind, dims.outputImage.size(), "d");
}

std::string convolutionName(LinalgOp op, const mlir::linalg::ConvolutionDimensions& dims) {
  // Blocked channels have two loops; their product is the channel count.
  const int64_t in = product(op, dims.inputChannel);
  const int64_t out = product(op, dims.outputChannel);
  const int64_t depth = product(op, dims.depth);
  std::string channels = dims.inputChannel.empty() ? absl::StrCat(out * depth) : absl::StrCat(in, "->", out);
  std::string groups = !dims.inputChannel.empty() && depth > 1 ? absl::StrCat(" g", depth) : "";
  std::string dilations;
  if (llvm::any_of(dims.dilations, [](int64_t d) { return d != 1; })) {
    dilations = absl::StrCat(" d", absl::StrJoin(dims.dilations, "x"));
  }
  const bool square = llvm::all_equal(dims.strides);
  return absl::StrCat(convolutionKind(op, dims), " ", extents(op, dims.filterLoop), " s",
                      // Equal strides are written once.
                      square ? absl::StrCat(dims.strides.front()) : absl::StrJoin(dims.strides, "x"), dilations, groups,
                      " ", channels, " ", extents(op, dims.outputImage));
}

bool isConvolution(LinalgOp op) {
  auto generic = mlir::dyn_cast<mlir::linalg::GenericOp>(op.getOperation());
  if (!generic || !isProduct(generic)) return false;
  auto dims = mlir::linalg::inferConvolutionDims(op);
  return mlir::succeeded(dims) && !dims->outputImage.empty() && !dims->filterLoop.empty();
}

/// Counts one block of a separable transform: the left matrix on every column, the right one on every row of the
/// result, without products with zero.
int64_t transformFlops(LinalgOp op) {
  // Multiplying by a zero of the matrix costs nothing, as the code is unrolled.
  auto entries = [&](int input) -> std::pair<int64_t, int64_t> {  // of a matrix: nonzero entries, all entries
    auto constant = op.getDpsInputOperand(input)->get().getDefiningOp<mlir::arith::ConstantOp>();
    auto elements = constant ? mlir::dyn_cast<mlir::DenseElementsAttr>(constant.getValue()) : mlir::DenseElementsAttr();
    if (!elements) return {1, 1};
    const auto set =
        llvm::count_if(elements.getValues<mlir::APFloat>(), [](const auto& value) { return !value.isZero(); });
    return {set, elements.getNumElements()};
  };
  auto type = mlir::cast<mlir::RankedTensorType>(op.getDpsInputOperand(0)->get().getType());
  const auto [set, all] = entries(0);
  int64_t points = 1;
  for (int64_t extent : op.getStaticLoopRanges()) points *= extent;
  return points / (all * all) * 2 * set * (type.getDimSize(0) + type.getDimSize(1));
}

/// Name of an operator without its sizes.
std::string operatorName(LinalgOp op) {
  if (auto algorithm = op->getAttrOfType<mlir::StringAttr>(kAlgorithm)) return algorithm.str();
  if (op.getNumReductionLoops() == 0) return elementwiseName(op);
  if (auto dims = mlir::linalg::inferConvolutionDims(op);
      mlir::succeeded(dims) && !dims->outputImage.empty() && !dims->filterLoop.empty()) {
    return convolutionKind(op, *dims);
  }
  if (mlir::succeeded(mlir::linalg::inferContractionDims(op))) return "matmul";
  return absl::StrCat("reduce(", absl::StrJoin(bodyNames(op), " + "), ")");
}

/// Adds an operator and its sizes. Only one stage of a Winograd convolution has the algorithm's name, and counts.
void addOperator(LinalgOp op, v1::WorkloadShape& shape) {
  if (mlir::isa<mlir::linalg::FillOp>(op) || (op->hasAttr(kStageOf) && !op->hasAttr(kAlgorithm))) return;
  const bool first = shape.operators().empty();
  absl::StrAppend(shape.mutable_operators(), first ? "" : " + ", operatorName(op));
  if (!first && op.getNumReductionLoops() == 0) return;
  for (int64_t extent : op.getStaticLoopRanges())
    shape.add_dimensions(mlir::ShapedType::isDynamic(extent) ? 0 : extent);
  auto dims = mlir::linalg::inferConvolutionDims(op);
  if (mlir::failed(dims) || dims->outputImage.empty() || dims->filterLoop.empty()) return;
  for (const auto& steps : {dims->strides, dims->dilations})
    for (int64_t step : steps) shape.add_dimensions(step);
}

std::string linalgName(LinalgOp op) {
  if (mlir::isa<mlir::linalg::FillOp>(op)) return "fill";
  // The order matters: a convolution is a contraction, too.
  if (op.getNumReductionLoops() == 0) return elementwiseName(op);
  if (auto dims = mlir::linalg::inferConvolutionDims(op);
      mlir::succeeded(dims) && !dims->outputImage.empty() && !dims->filterLoop.empty()) {
    return convolutionName(op, *dims);
  }
  if (auto dims = mlir::linalg::inferContractionDims(op); mlir::succeeded(dims)) {
    std::string batch = dims->batch.empty() ? "" : absl::StrCat(extents(op, dims->batch), " x ");
    return absl::StrCat("matmul ", batch, product(op, dims->m), "x", product(op, dims->n), "x", product(op, dims->k));
  }
  return absl::StrCat("reduce(", absl::StrJoin(bodyNames(op), " + "), ") ",
                      shapeText(op.getDpsInputOperand(0)->get().getType()));
}

/// Names an operation as a person would; empty for operations not worth mentioning.
std::string operationName(mlir::Operation* op) {
  if (auto linalg_op = mlir::dyn_cast<LinalgOp>(op)) {
    if (op->hasAttr(kStageOf)) {
      auto algorithm = op->getAttrOfType<mlir::StringAttr>(kAlgorithm);
      return algorithm ? op->getAttrOfType<mlir::StringAttr>(kConvolution).str() + " " + algorithm.str() : "";
    }
    return mlir::isa<mlir::linalg::FillOp>(op) ? "" : linalgName(linalg_op);
  }
  if (auto pad = mlir::dyn_cast<mlir::tensor::PadOp>(op)) return absl::StrCat("pad to ", shapeText(pad.getType()));
  return kindOf(op) == OpKind::kOpaque ? op->getName().stripDialect().str() : "";
}

}  // namespace

std::string operationsText(llvm::ArrayRef<mlir::Operation*> operations) {
  std::vector<std::string> names, elements;
  for (mlir::Operation* op : operations) {
    if (std::string name = operationName(op); !name.empty()) names.push_back(std::move(name));
    // Element types in order of appearance: inputs before results.
    llvm::SmallVector<mlir::Type> types(op->getOperandTypes());
    llvm::append_range(types, op->getResultTypes());
    for (mlir::Type type : types) {
      std::string element;
      llvm::raw_string_ostream(element) << mlir::getElementTypeOrSelf(type);
      if (!llvm::is_contained(elements, element)) elements.push_back(std::move(element));
    }
  }
  return absl::StrCat(absl::StrJoin(withSoftmax(names), " + "), ", ", absl::StrJoin(elements, " "));
}

std::string convolutionText(LinalgOp op) {
  auto dims = mlir::linalg::inferConvolutionDims(op);
  return mlir::failed(dims) ? "conv" : convolutionName(op, *dims);
}

int64_t flopsOf(LinalgOp op) {
  // Three inputs: two matrices and the blocks.
  if (op->hasAttr(kStageOf) && op.getNumDpsInputs() == 3) return transformFlops(op);
  int64_t per_point = 0;
  for (mlir::Operation& inner : op.getBlock()->without_terminator()) {
    if (mlir::isa<mlir::math::FmaOp>(inner)) {
      per_point += 2;
    } else if (mlir::isa<mlir::arith::ArithDialect, mlir::math::MathDialect>(inner.getDialect()) &&
               // Conversions and constants count as no work.
               !inner.hasTrait<mlir::OpTrait::ConstantLike>() && !mlir::isa<mlir::CastOpInterface>(inner)) {
      per_point += 1;
    }
  }
  int64_t points = 1;
  for (int64_t extent : op.getStaticLoopRanges()) points *= extent;
  return points * per_point;
}

WorkloadFacts describeWorkload(mlir::func::FuncOp function) {
  WorkloadFacts facts;
  for (mlir::Type type : function.getArgumentTypes()) facts.bytes += tensorBytes(type);
  for (mlir::Type type : function.getResultTypes()) facts.bytes += tensorBytes(type);
  std::vector<std::string> names;
  for (mlir::Operation& op : function.getBody().front().without_terminator()) {
    if (std::string name = operationName(&op); !name.empty()) names.push_back(std::move(name));
    auto linalg_op = mlir::dyn_cast<LinalgOp>(op);
    if (!linalg_op) continue;
    facts.flops += flopsOf(linalg_op);
    addOperator(linalg_op, facts.shape);
    if (!op.hasAttr(kStageOf)) {
      if (isConvolution(linalg_op)) facts.algorithm = "direct";
    } else if (auto algorithm = op.getAttrOfType<mlir::StringAttr>(kAlgorithm)) {
      facts.algorithm = algorithm.str();
      if (auto rows = op.getAttrOfType<mlir::IntegerAttr>(kSliceRows)) facts.slice_rows = rows.getInt();
    }
  }
  names = withSoftmax(names);
  if (names.empty()) names.emplace_back("fill");
  facts.summary = absl::StrJoin(names, " + ");
  if (names.size() == 1 && function.getNumResults() > 0 && facts.summary.find("conv") == std::string::npos) {
    absl::StrAppend(&facts.summary, " ", shapeText(function.getResultTypes()[0]));
  }
  return facts;
}

}  // namespace tessera::compiler
