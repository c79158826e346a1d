#include "compiler/graph/constants/fold_scales.h"

#include <cmath>
#include <cstring>

#include "compiler/graph/analysis/move_before.h"
#include "compiler/graph/analysis/multiply_accumulate.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/constants/fold_constants.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::Location;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::linalg::GenericOp;
using mlir::utils::IteratorType;

/// One step of the chain after the product's result: chain <op> known, or known <op> chain.
struct Step {
  mlir::Operation* op;
  Value known;
  bool known_first;
};

/// Factors must be 0 or within 2^-kPowers and 2^kPowers, so that scaled weights of ordinary size neither overflow nor
/// lose bits. With an infinite factor the terms of a sum would be NaN where the unfolded result is infinite.
constexpr int kPowers = 40;
/// Budget of loop points to evaluate a factor, which is a vector over channels.
constexpr int64_t kPoints = int64_t{1} << 24;

bool isOrdinaryFactor(double factor) {
  return factor == 0 || (std::isfinite(factor) && std::abs(std::ilogb(factor)) <= kPowers);
}

bool holdsForAll(const DenseValue& vector, bool (*holds)(double)) {
  for (int64_t i = 0; i < vector.elements(); ++i) {
    double element = 0;
    if (vector.width == sizeof(float)) {
      float single = 0;
      std::memcpy(&single, vector.data + i * vector.width, sizeof(single));
      element = single;
    } else {
      std::memcpy(&element, vector.data + i * vector.width, sizeof(element));
    }
    if (!holds(element)) return false;
  }
  return true;
}

class ScaleFolder {
 public:
  /// `every_weight`: whether `evaluator` knows all weights. In a module without weights, unknown values are assumed to
  /// be ordinary.
  ScaleFolder(GenericOp product, ConstantEvaluator& evaluator, bool every_weight)
      : product_(product), builder_(product), evaluator_(evaluator), every_weight_(every_weight) {}
  bool run();

 private:
  bool findReader();
  bool findChannel();
  bool isKnown(Value value);
  void collectSteps();
  Value cloneKnown(OpBuilder& b, Value value, mlir::IRMapping& mapping);
  std::pair<Value, Value> buildScaleAndShift();
  bool isOrdinary(Value vector, bool (*holds)(double));
  void scaleWeights(Value scale);
  void replaceSteps(Value shift);

  GenericOp product_;
  GenericOp reader_;
  OpBuilder builder_;
  ConstantEvaluator& evaluator_;
  bool every_weight_;
  unsigned operand_ = 0;     // operand of the reader: the product's result
  unsigned weight_ = 0;      // operand of the product that is constant
  unsigned channel_ = 0;     // loop of the reader over channels
  int64_t weight_dim_ = -1;  // dimension of the weights that the channel indexes
  llvm::SmallVector<Step> steps_;
};

bool ScaleFolder::findReader() {
  // With another reader the unscaled product would still be needed.
  if (!isMultiplyAccumulate(product_) || !product_->hasOneUse()) return false;
  mlir::OpOperand& use = *product_->use_begin();
  reader_ = mlir::dyn_cast<GenericOp>(use.getOwner());
  if (!reader_ || kindOf(reader_) != OpKind::kElementwise || reader_.isDpsInit(&use)) return false;
  operand_ = use.getOperandNumber();
  // 16-bit products would round the scaled weights.
  auto element = mlir::cast<RankedTensorType>(product_.getResult(0).getType()).getElementType();
  if (!element.isF32() && !element.isF64()) return false;
  // An initial value other than zero would have to be scaled too.
  auto fill = product_.getDpsInits()[0].getDefiningOp<mlir::linalg::FillOp>();
  if (!fill || !mlir::matchPattern(fill.getInputs()[0], mlir::m_AnyZeroFloat())) return false;
  for (weight_ = 0; weight_ < 2; ++weight_) {
    if (isKnownAtCompileTime(product_.getDpsInputs()[weight_])) return true;
  }
  return false;
}

/// The channel is the reader's loop along which known vectors vary. It must index the weights too.
bool ScaleFolder::findChannel() {
  const AffineMap read = reader_.getIndexingMapsArray()[operand_];
  const AffineMap output = product_.getIndexingMapsArray()[2];
  const AffineMap weights = product_.getIndexingMapsArray()[weight_];
  if (!read.isPermutation() || !weights.isProjectedPermutation()) return false;
  int channel = -1;
  // All known vectors must vary along the same loop; a single one decides it.
  for (auto [index, value] : llvm::enumerate(reader_.getDpsInputs())) {
    const AffineMap map = reader_.getIndexingMapsArray()[index];
    if (!isKnownAtCompileTime(value) || map.getNumResults() != 1 || !map.isProjectedPermutation()) continue;
    const auto loop = static_cast<int>(map.getDimPosition(0));
    if (channel >= 0 && channel != loop) return false;
    channel = loop;
  }
  // Without known vectors (only scalars) any loop that indexes the weights will do.
  for (unsigned position = 0; position < read.getNumResults(); ++position) {
    if (channel >= 0 && static_cast<int>(read.getDimPosition(position)) != channel) continue;
    const auto in_weights = weights.getResultPosition(output.getResult(position));
    if (!in_weights) continue;
    channel_ = read.getDimPosition(position);
    weight_dim_ = *in_weights;
    return true;
  }
  return false;
}

bool ScaleFolder::isKnown(Value value) {
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
    if (argument.getOwner() != reader_.getBody() || argument.getArgNumber() >= reader_.getNumDpsInputs()) return false;
    // A known vector over the channel.
    const AffineMap map = reader_.getIndexingMapsArray()[argument.getArgNumber()];
    return isKnownAtCompileTime(reader_.getDpsInputs()[argument.getArgNumber()]) && map.getNumResults() == 1 &&
           map.isFunctionOfDim(channel_) && map.isProjectedPermutation();
  }
  mlir::Operation* op = value.getDefiningOp();
  if (mlir::isa<arith::ConstantOp>(op)) return true;
  if (op->getBlock() != reader_.getBody() || op->getNumOperands() == 0) return false;
  // Arithmetic on known values is known as well.
  return mlir::isa<arith::ArithDialect, mlir::math::MathDialect>(op->getDialect()) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isKnown(operand); });
}

void ScaleFolder::collectSteps() {
  Value chain = reader_.getBody()->getArgument(operand_);
  // Follows the product through steps x + c, x * c and the like, as long as nothing else reads it.
  while (chain.hasOneUse()) {
    mlir::Operation* op = *chain.user_begin();
    if (!mlir::isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp>(op)) return;
    const bool known_first = op->getOperand(1) == chain;
    Value other = op->getOperand(known_first ? 0 : 1);
    if (op->getOperand(0) == op->getOperand(1) || !isKnown(other)) return;
    // c / x is not linear.
    if (known_first && mlir::isa<arith::DivFOp>(op)) return;
    steps_.push_back({op, other, known_first});
    chain = op->getResult(0);
  }
}

Value ScaleFolder::cloneKnown(OpBuilder& b, Value value, mlir::IRMapping& mapping) {
  if (Value known = mapping.lookupOrNull(value)) return known;
  mlir::Operation* op = value.getDefiningOp();
  for (Value operand : op->getOperands()) cloneKnown(b, operand, mapping);
  b.clone(*op, mapping);
  return mapping.lookup(value);
}

/// Builds both as vectors over the channel, by one operation with two results.
std::pair<Value, Value> ScaleFolder::buildScaleAndShift() {
  const int64_t channels = reader_.getStaticLoopRanges()[channel_];
  auto element = mlir::cast<RankedTensorType>(product_.getResult(0).getType()).getElementType();
  llvm::SmallVector<Value> inputs;
  llvm::SmallVector<unsigned> positions;
  for (auto [index, value] : llvm::enumerate(reader_.getDpsInputs())) {
    if (index == operand_ || !isKnown(reader_.getBody()->getArgument(index))) continue;
    moveBefore(value, product_);
    inputs.push_back(value);
    positions.push_back(index);
  }
  Location location = reader_.getLoc();
  Value empty = mlir::tensor::EmptyOp::create(builder_, location, llvm::ArrayRef<int64_t>{channels}, element);
  llvm::SmallVector<AffineMap> maps(inputs.size() + 2, builder_.getMultiDimIdentityMap(1));
  auto both = GenericOp::create(
      builder_, location, mlir::TypeRange{empty.getType(), empty.getType()}, inputs, mlir::ValueRange{empty, empty},
      maps, llvm::ArrayRef<IteratorType>{IteratorType::parallel}, [&](OpBuilder& b, Location at, mlir::ValueRange v) {
        mlir::IRMapping mapping;
        for (auto [index, position] : llvm::enumerate(positions)) {
          mapping.map(reader_.getBody()->getArgument(position), v[index]);
        }
        Value scale = arith::ConstantOp::create(b, at, b.getFloatAttr(element, 1.0));
        Value shift = arith::ConstantOp::create(b, at, b.getFloatAttr(element, 0.0));
        // Keeps scale * x + shift equal to the chain of steps so far.
        for (const Step& step : steps_) {
          Value known = cloneKnown(b, step.known, mapping);
          if (mlir::isa<arith::AddFOp>(step.op)) {
            shift = arith::AddFOp::create(b, at, shift, known);
          } else if (mlir::isa<arith::SubFOp>(step.op) && step.known_first) {
            scale = arith::NegFOp::create(b, at, scale);
            shift = arith::SubFOp::create(b, at, known, shift);
          } else if (mlir::isa<arith::SubFOp>(step.op)) {
            shift = arith::SubFOp::create(b, at, shift, known);
          } else if (mlir::isa<arith::MulFOp>(step.op)) {
            scale = arith::MulFOp::create(b, at, scale, known);
            shift = arith::MulFOp::create(b, at, shift, known);
          } else {
            scale = arith::DivFOp::create(b, at, scale, known);
            shift = arith::DivFOp::create(b, at, shift, known);
          }
        }
        mlir::linalg::YieldOp::create(b, at, mlir::ValueRange{scale, shift});
      });
  return {both.getResult(0), both.getResult(1)};
}

void ScaleFolder::scaleWeights(Value scale) {
  Value weights = product_.getDpsInputs()[weight_];
  moveBefore(weights, product_);
  auto type = mlir::cast<RankedTensorType>(weights.getType());
  const auto rank = static_cast<unsigned>(type.getRank());
  Value empty = mlir::tensor::EmptyOp::create(builder_, weights.getLoc(), type.getShape(), type.getElementType());
  AffineMap identity = builder_.getMultiDimIdentityMap(rank);
  AffineMap channel = AffineMap::get(rank, 0, builder_.getAffineDimExpr(weight_dim_));
  auto scaled = GenericOp::create(builder_, weights.getLoc(), mlir::TypeRange{type}, mlir::ValueRange{weights, scale},
                                  mlir::ValueRange{empty}, llvm::ArrayRef<AffineMap>{identity, channel, identity},
                                  llvm::SmallVector<IteratorType>(rank, IteratorType::parallel),
                                  [](OpBuilder& b, Location at, mlir::ValueRange v) {
                                    Value result = arith::MulFOp::create(b, at, v[0], v[1]);
                                    mlir::linalg::YieldOp::create(b, at, result);
                                  });
  product_->setOperand(weight_, scaled.getResult(0));
}

/// Rebuilds the reader with the shift as an additional input and one addition instead of the steps.
void ScaleFolder::replaceSteps(Value shift) {
  OpBuilder builder(reader_);
  const unsigned inputs = reader_.getNumDpsInputs();
  llvm::SmallVector<Value> operands(reader_.getDpsInputs());
  // The shift becomes the last input, and the body's arguments stay in order.
  operands.push_back(shift);
  llvm::SmallVector<AffineMap> maps = reader_.getIndexingMapsArray();
  maps.insert(maps.begin() + inputs, AffineMap::get(reader_.getNumLoops(), 0, builder.getAffineDimExpr(channel_)));
  auto result = GenericOp::create(builder, reader_.getLoc(), reader_->getResultTypes(), operands, reader_.getDpsInits(),
                                  maps, reader_.getIteratorTypesArray());
  result.getRegion().takeBody(reader_.getRegion());
  mlir::Block* body = result.getBody();
  Value shift_argument =
      body->insertArgument(inputs, mlir::cast<RankedTensorType>(shift.getType()).getElementType(), reader_.getLoc());
  OpBuilder inner(steps_.back().op);
  Value sum = arith::AddFOp::create(inner, reader_.getLoc(), body->getArgument(operand_), shift_argument);
  steps_.back().op->getResult(0).replaceAllUsesWith(sum);
  for (const Step& step : llvm::reverse(steps_)) step.op->erase();
  reader_->replaceAllUsesWith(result);
  reader_->erase();
}

bool ScaleFolder::isOrdinary(Value vector, bool (*holds)(double)) {
  int64_t budget = kPoints;
  const auto known = evaluator_.evaluate(vector, budget);
  return known ? holdsForAll(*known, holds) : !every_weight_;
}

bool ScaleFolder::run() {
  if (!findReader() || !findChannel()) return false;
  collectSteps();
  // A single addition is already a bias.
  if (steps_.empty() || (steps_.size() == 1 && mlir::isa<arith::AddFOp>(steps_[0].op))) return false;
  auto [scale, shift] = buildScaleAndShift();
  if (!isOrdinary(scale, isOrdinaryFactor) || !isOrdinary(shift, [](double x) { return std::isfinite(x); })) {
    // Undoes what was built: the product stays as it is.
    mlir::Operation* both = scale.getDefiningOp();
    for (Value result : both->getResults()) evaluator_.forget(result);
    both->erase();
    return false;
  }
  scaleWeights(scale);
  replaceSteps(shift);
  return true;
}

}  // namespace

int foldScales(mlir::func::FuncOp main, const std::vector<Weight>* weights) {
  ConstantEvaluator evaluator = knownWeights(main, weights);
  llvm::SmallVector<GenericOp> products;
  for (GenericOp op : main.getBody().front().getOps<GenericOp>()) {
    if (op.getNumReductionLoops() > 0) products.push_back(op);
  }
  int count = 0;
  // run() replaces readers, never products, so the list stays valid.
  for (GenericOp product : products) count += ScaleFolder(product, evaluator, weights != nullptr).run();
  return count;
}

}  // namespace tessera::compiler
