#include "compiler/graph/constants/fold_constants.h"

#include <cstring>

#include "compiler/graph/analysis/element_type.h"
#include "compiler/graph/analysis/op_kind.h"
#include "compiler/graph/analysis/stage_attributes.h"
#include "compiler/graph/constants/constant_evaluator.h"
#include "compiler/graph/constants/narrow_reads.h"
#include "compiler/graph/constants/weight_derivation.h"
#include "compiler/ir/stored_packed.h"
#include "compiler/ir/weight_attribute.h"
#include "llvm/ADT/DenseSet.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler {
namespace {

using mlir::RankedTensorType;
using mlir::Value;

/// Budget of loop points evaluated per model: about ten seconds at worst. A 7 GB model of f32 needs 2^31 to repack.
constexpr int64_t kBudget = int64_t{1} << 33;
/// Largest growth of a constant by evaluation (padding of channels). Operations with more growth run at run time.
constexpr int64_t kMaxGrowth = 8;
constexpr int64_t kAlwaysBytes = 1 << 16;
/// Least bytes for which a preparation step before the first run is worth the code of its kernel.
constexpr int64_t kDerivedBytes = 1 << 16;

int64_t bytesOf(mlir::Type type) {
  auto tensor = mlir::dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getNumElements() * denseWidth(tensor.getElementType()) : 0;
}

bool isWeightArgument(Value value) {
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
  auto function = argument ? mlir::dyn_cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp()) : nullptr;
  return function && function.getArgAttr(argument.getArgNumber(), kWeightAttribute);
}

bool readsOnlyConstants(mlir::Operation* op, llvm::function_ref<bool(Value)> is_constant) {
  llvm::SetVector<Value> captured;
  mlir::getUsedValuesDefinedAbove(op->getRegions(), captured);
  const auto isKnown = [&](Value value) { return !mlir::isa<RankedTensorType>(value.getType()) || is_constant(value); };
  return llvm::none_of(captured, [](Value value) { return mlir::isa<RankedTensorType>(value.getType()); }) &&
         llvm::all_of(op->getOperands(), isKnown);
}

/// Whether the result of an operation on constants should be stored.
bool mayBeStored(mlir::Operation* op) {
  int64_t input_bytes = 0;
  for (Value operand : op->getOperands()) {
    if (!mlir::isa<RankedTensorType>(operand.getType())) continue;
    mlir::Operation* producer = operand.getDefiningOp();
    if (!producer || kindOf(producer) != OpKind::kCloned || producer->hasTrait<mlir::OpTrait::ConstantLike>()) {
      input_bytes += bytesOf(operand.getType());
    }
  }
  int64_t output_bytes = 0;
  for (mlir::Type type : op->getResultTypes()) output_bytes += bytesOf(type);
  // Empties and fills are constants, but are materialized only as part of a user.
  if (kindOf(op) == OpKind::kCloned) return true;
  if (op->hasAttr(kStoredPacked)) return output_bytes <= input_bytes;
  return output_bytes <= std::max(kAlwaysBytes, kMaxGrowth * input_bytes);
}

bool isUniform(const DenseValue& value) {
  return value.bytes() > 0 && std::memcmp(value.data, value.data + value.width, value.bytes() - value.width) == 0;
}

mlir::DenseElementsAttr attributeOf(const DenseValue& value, RankedTensorType type) {
  if (type.getElementType().isInteger(1)) {
    llvm::SmallVector<bool> bits(value.data, value.data + value.elements());
    return mlir::DenseElementsAttr::get(type, bits);
  }
  if (type.getElementType().isIndex()) {
    llvm::SmallVector<llvm::APInt> words;
    for (int64_t i = 0; i < value.elements(); ++i) {
      int64_t word = 0;
      std::memcpy(&word, value.data + i * 8, 8);
      words.emplace_back(64, static_cast<uint64_t>(word));
    }
    return mlir::DenseElementsAttr::get(type, words);
  }
  // One element is enough for a splat.
  const bool uniform = isUniform(value);
  return mlir::DenseElementsAttr::getFromRawBuffer(
      type, llvm::ArrayRef<char>(value.data, uniform ? value.width : value.bytes()));
}

std::string nameOf(Value value) {
  if (auto name = mlir::dyn_cast<mlir::NameLoc>(value.getLoc())) return name.getName().str();
  return "constant";
}

/// Adds weights and their arguments to main. The destructor writes the function's type and attributes once; writing
/// them per weight would be quadratic.
class WeightAppender {
 public:
  WeightAppender(mlir::func::FuncOp main, std::vector<Weight>& weights) : main_(main), weights_(weights) {
    main.getAllArgAttrs(attributes_);
  }
  ~WeightAppender() {
    mlir::Block& body = main_.getBody().front();
    main_.setType(mlir::FunctionType::get(main_.getContext(), body.getArgumentTypes(), main_.getResultTypes()));
    main_.setAllArgAttrs(attributes_);
  }
  WeightAppender(const WeightAppender&) = delete;
  WeightAppender& operator=(const WeightAppender&) = delete;

  Value add(Value original, const DenseValue& known) { return add(original, known, nullptr); }
  Value add(Value original, std::shared_ptr<const WeightDerivation> derivation) {
    return add(original, {}, std::move(derivation));
  }

 private:
  Value add(Value original, const DenseValue& known, std::shared_ptr<const WeightDerivation> derivation) {
    auto type = mlir::cast<RankedTensorType>(original.getType());
    Weight weight;
    weight.spec.set_name(nameOf(original));
    weight.spec.set_dtype(dataTypeOf(type.getElementType()));
    for (int64_t extent : type.getShape()) weight.spec.add_shape(extent);
    if (known.data) weight.bytes = {known.data, static_cast<size_t>(known.bytes())};
    weight.owner = known.owner;
    weight.derivation = std::move(derivation);
    mlir::Builder builder(main_.getContext());
    attributes_.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(kWeightAttribute, builder.getI64IntegerAttr(static_cast<int64_t>(weights_.size())))));
    weights_.push_back(std::move(weight));
    return main_.getBody().front().addArgument(type, original.getLoc());
  }

  mlir::func::FuncOp main_;
  std::vector<Weight>& weights_;
  llvm::SmallVector<mlir::DictionaryAttr> attributes_;
};

void defineWeights(mlir::func::FuncOp main, const std::vector<Weight>* weights, ConstantEvaluator& evaluator) {
  for (mlir::BlockArgument argument : main.getArguments()) {
    auto index = main.getArgAttrOfType<mlir::IntegerAttr>(argument.getArgNumber(), kWeightAttribute);
    if (!index || weights == nullptr) continue;
    const Weight& weight = (*weights)[index.getInt()];
    // A weight without bytes is derived from others.
    if (weight.derivation && weight.bytes.empty()) {
      evaluator.define(argument, weight.derivation);
      continue;
    }
    auto type = mlir::cast<RankedTensorType>(argument.getType());
    const char* bytes = weight.bytes.data();  // import has checked that the size fits the type
    evaluator.define(argument, {llvm::SmallVector<int64_t>(type.getShape()), denseWidth(type.getElementType()), bytes,
                                weight.owner});
  }
}

/// Returns the derivation of `result` if an operation of `main` computes it from smaller weights that are not uniform.
/// A uniform weight needs no storage anyway.
std::shared_ptr<const WeightDerivation> largerDerivation(mlir::func::FuncOp main, const std::vector<Weight>& weights,
                                                         Value result) {
  auto derivation = derivationOf(result, [&](Value value) -> const Weight* {
    auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
    if (!argument || !isWeightArgument(value)) return nullptr;
    return &weights[main.getArgAttrOfType<mlir::IntegerAttr>(argument.getArgNumber(), kWeightAttribute).getInt()];
  });
  if (!derivation || derivation->sources.empty() ||
      !isWorthDeriving(bytesOf(result.getType()), derivation->sourceBytes()))
    return nullptr;
  // Equal to itself shifted by 8 bytes: all elements are the same.
  for (const Weight& source : derivation->sources) {
    if (source.bytes.size() > 8 && source.bytes.substr(8) == source.bytes.substr(0, source.bytes.size() - 8))
      return nullptr;
  }
  return derivation;
}

}  // namespace

ConstantEvaluator knownWeights(mlir::func::FuncOp main, const std::vector<Weight>* weights) {
  ConstantEvaluator evaluator;
  defineWeights(main, weights, evaluator);
  return evaluator;
}

bool isKnownAtCompileTime(Value value) {
  // Views change no bytes.
  while (value.getDefiningOp() && kindOf(value.getDefiningOp()) == OpKind::kView) {
    value = value.getDefiningOp()->getOperand(0);
  }
  return isWeightArgument(value) || value.getDefiningOp<mlir::arith::ConstantOp>();
}

int64_t weightsBytes(mlir::func::FuncOp main) {
  int64_t bytes = 0;
  for (mlir::BlockArgument argument : main.getArguments())
    if (!argument.use_empty() && isWeightArgument(argument)) bytes += bytesOf(argument.getType());
  return bytes;
}

void freeUnreadWeights(mlir::func::FuncOp main, std::vector<Weight>& weights) {
  llvm::SmallVector<bool> read(weights.size(), false);
  for (mlir::BlockArgument argument : main.getArguments()) {
    auto index = main.getArgAttrOfType<mlir::IntegerAttr>(argument.getArgNumber(), kWeightAttribute);
    if (index && !argument.use_empty()) read[index.getInt()] = true;
  }
  for (auto [is_read, weight] : llvm::zip_equal(read, weights)) {
    if (is_read) continue;
    weight.bytes = {};
    weight.owner.reset();
    weight.derivation.reset();
  }
}

/// The kernel of a preparation step costs space too, so the weight must grow by half or more.
bool isWorthDeriving(int64_t bytes, int64_t source_bytes) {
  return bytes >= kDerivedBytes && bytes * 2 >= source_bytes * 3;
}

int foldConstants(mlir::func::FuncOp main, std::vector<Weight>* weights, const FoldedWeightStorage& memory,
                  bool derive) {
  llvm::DenseSet<Value> constant;
  auto isConstant = [&](Value value) {
    return constant.contains(value) || (weights != nullptr && isWeightArgument(value));
  };
  // Collects the foldable operations in program order; results of folded operations count as constants.
  auto collect = [&](llvm::function_ref<bool(mlir::Operation*)> is_folded) {
    // Without a filter these are all foldable operations; later only those that may be stored.
    constant.clear();
    llvm::SmallVector<mlir::Operation*> found;
    for (mlir::Operation& op : main.getBody().front().without_terminator()) {
      if (!ConstantEvaluator::hasRule(&op) || !readsOnlyConstants(&op, isConstant) || !is_folded(&op)) continue;
      constant.insert(op.result_begin(), op.result_end());
      if (kindOf(&op) != OpKind::kCloned) found.push_back(&op);
    }
    return found;
  };
  // First reduces large constants to the slices that are read.
  const bool slices = llvm::any_of(collect([](mlir::Operation*) { return true; }),
                                   [](mlir::Operation* op) { return mlir::isa<mlir::tensor::ExtractSliceOp>(op); });
  if (slices) sinkSlicesIntoConstants(main, isConstant);
  const llvm::SmallVector<mlir::Operation*> foldable = collect(mayBeStored);
  ConstantEvaluator evaluator;
  defineWeights(main, weights, evaluator);
  int64_t budget = kBudget;
  std::optional<WeightAppender> appender;
  if (weights != nullptr) appender.emplace(main, *weights);
  llvm::DenseSet<mlir::Operation*> folded(foldable.begin(), foldable.end());
  llvm::DenseMap<Value, int> readers;  // number of folded operations that still read a value
  for (mlir::Operation* op : foldable) {
    for (Value operand : op->getOperands()) ++readers[operand];
  }
  mlir::OpBuilder builder(main.getContext());
  // Only values with a reader that stays are stored.
  const auto isNeeded = [&](Value result) {
    return llvm::any_of(result.getUsers(), [&](mlir::Operation* user) { return !folded.contains(user); });
  };
  const auto replace = [&](Value result, Value replacement) {
    result.replaceUsesWithIf(replacement, [&](mlir::OpOperand& use) { return !folded.contains(use.getOwner()); });
  };
  // Large results that exceed their sources become derived weights, and are not evaluated.
  if (derive && weights != nullptr) {
    for (mlir::Operation* op : foldable) {
      for (Value result : op->getResults()) {
        if (bytesOf(result.getType()) < kDerivedBytes || !isNeeded(result)) continue;
        if (auto derivation = largerDerivation(main, *weights, result))
          replace(result, appender->add(result, derivation));
      }
    }
  }
  // Collects operations whose value an operation reads that is not derived.
  llvm::DenseSet<mlir::Operation*> evaluated;
  for (mlir::Operation* op : llvm::reverse(foldable)) {
    if (llvm::any_of(op->getUsers(),
                     [&](mlir::Operation* user) { return !folded.contains(user) || evaluated.contains(user); }))
      evaluated.insert(op);
  }
  int64_t folded_bytes = 0;
  // Evaluates in program order, so that evaluation never recurses along a chain, and frees values after their last use.
  for (mlir::Operation* op : foldable) {
    for (Value result : op->getResults()) {
      if (!evaluated.contains(op)) continue;
      std::optional<DenseValue> known = evaluator.evaluate(result, budget);
      // A view of a weight costs nothing as it is.
      if (!known || !isNeeded(result) || (kindOf(op) == OpKind::kView && isKnownAtCompileTime(result))) continue;
      auto type = mlir::cast<RankedTensorType>(result.getType());
      Value replacement;
      // A scalar stays in the code and can be an immediate operand.
      if (weights == nullptr || known->elements() <= 1 || isUniform(*known)) {
        builder.setInsertionPoint(op);
        replacement = mlir::arith::ConstantOp::create(builder, op->getLoc(), attributeOf(*known, type));
      } else {
        folded_bytes += known->bytes();
        replacement = appender->add(result, memory.keep(*std::move(known)));
        if (memory.folded) memory.folded(folded_bytes);
      }
      replace(result, replacement);
    }
    // Values without further readers are freed, so that memory stays within the window.
    for (Value operand : op->getOperands()) {
      if (--readers[operand] == 0) evaluator.forget(operand);
    }
    for (Value result : op->getResults()) {
      if (readers[result] == 0) evaluator.forget(result);
    }
  }
  int erased = 0;
  // Backwards, because readers must go before what they read.
  for (mlir::Operation* op : llvm::reverse(foldable)) {
    if (!op->use_empty()) continue;
    op->erase();
    ++erased;
  }
  return erased;
}

void constantsToWeights(mlir::func::FuncOp main, std::vector<Weight>& weights) {
  llvm::SmallVector<mlir::arith::ConstantOp> constants;
  for (mlir::Operation& op : main.getBody().front()) {
    auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(op);
    auto elements = constant ? mlir::dyn_cast<mlir::DenseElementsAttr>(constant.getValue()) : nullptr;
    // The matrices of a transform are part of its code, which unrolls them into additions.
    const bool is_code = llvm::any_of(op.getUsers(), [](mlir::Operation* user) { return user->hasAttr(kStageOf); });
    const bool is_data = elements && !elements.isSplat() && elements.getNumElements() > 1;
    const bool is_stored = constant && constant->hasAttr(kStoredConstant);
    if (!is_code && (is_data || is_stored)) constants.push_back(constant);
  }
  ConstantEvaluator evaluator;
  int64_t budget = kBudget;
  WeightAppender appender(main, weights);
  for (mlir::arith::ConstantOp constant : constants) {
    // Copies the elements out of MLIR's context once, as a weight.
    std::optional<DenseValue> known = evaluator.evaluate(constant.getResult(), budget);
    if (!known) continue;
    constant.getResult().replaceAllUsesWith(appender.add(constant.getResult(), *known));
    constant.erase();
  }
}

}  // namespace tessera::compiler
