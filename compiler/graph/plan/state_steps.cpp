#include "compiler/graph/plan/state_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/graph/analysis/underlying_bytes.h"
#include "compiler/graph/plan/appended_rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace tessera::compiler {
namespace {

using mlir::Value;
using mlir::linalg::GenericOp;

int indexOf(const std::vector<v1::TensorSpec>& specs, const std::string& name) {
  const auto found = std::ranges::find_if(specs, [&](const v1::TensorSpec& spec) { return spec.name() == name; });
  return static_cast<int>(found - specs.begin());  // the state's tensors exist
}

/// The value of main behind an argument of a step's function.
Value valueOf(mlir::BlockArgument argument, llvm::ArrayRef<Value> arguments) {
  return argument ? viewSource(arguments[argument.getArgNumber()]) : Value();
}

bool hasShape(Value value, const v1::TensorSpec& spec) {
  const auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  return llvm::equal(type.getShape(), spec.shape());
}

/// The comparison "position < number" that an elementwise operation yields; null if it yields something else.
mlir::arith::CmpIOp yieldedComparison(GenericOp op) {
  auto below = op.getBody()->getTerminator()->getOperand(0).getDefiningOp<mlir::arith::CmpIOp>();
  return below && below.getPredicate() == mlir::arith::CmpIPredicate::slt ? below : mlir::arith::CmpIOp();
}

/// The operand of an operation that only converts each element from i1 to i8 or back.
Value convertedFrom(GenericOp op) {
  if (!op || op.getNumDpsInputs() != 1 || op.getNumLoops() != 1 || op.getNumParallelLoops() != 1) return {};
  mlir::Operation* cast = op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  return mlir::isa_and_nonnull<mlir::arith::ExtUIOp, mlir::arith::TruncIOp>(cast) &&
                 cast->getOperand(0) == op.getBody()->getArgument(0)
             ? op.getDpsInputOperand(0)->get()
             : Value();
}

}  // namespace

int StateStepFinder::stepThatWrites(Value value) const {
  for (auto [index, step] : llvm::enumerate(steps_))
    if (llvm::is_contained(step.results, value)) return static_cast<int>(index);
  return -1;
}

std::optional<StateStepFinder::Pair> StateStepFinder::pairOf(const v1::State& state, std::string& why_not) const {
  mlir::func::FuncOp main = main_;
  Pair pair;
  pair.dim = state.growing_dim();
  const int input = indexOf(model_.inputs, state.input()), output = indexOf(model_.outputs, state.output());
  const v1::TensorSpec& before = model_.inputs[static_cast<size_t>(input)];
  const v1::TensorSpec& after = model_.outputs[static_cast<size_t>(output)];
  pair.past = main.getArgument(static_cast<unsigned>(input));
  pair.present = viewSource(main.getBody().front().getTerminator()->getOperand(static_cast<unsigned>(output)));
  pair.most_before = before.shape(pair.dim);
  pair.most_after = after.shape(pair.dim);
  if (!hasShape(pair.present, after)) {
    why_not = "the output is a view of a value of another shape";
    return std::nullopt;
  }
  // The last inputs hold the sizes of ranges, in the order of the dimensions.
  int size = static_cast<int>(model_.inputs.size());
  for (auto dimension = static_cast<int>(model_.dimensions.size()); dimension-- > 0;) {
    if (model_.dimensions[static_cast<size_t>(dimension)].size() >= 0) continue;
    --size;
    for (int b = 0; b < before.bounded_dims_size(); ++b)
      if (before.bounded_dims(b) == pair.dim && before.bounded_by(b) == dimension)
        pair.rows_before = main.getArgument(static_cast<unsigned>(size));
  }
  for (auto [extent, value] : llvm::zip(model_.extents, extents_))
    if (extent.output == output && extent.dimension == pair.dim) pair.rows_after = value;
  const bool inner = std::ranges::any_of(before.bounded_dims(), [&](int dim) { return dim > pair.dim; });
  if (!pair.rows_before || !pair.rows_after || inner) {
    why_not = "dimensions after the growing one are ranges, or no value has the number of rows";
    return std::nullopt;
  }
  return pair;
}

bool StateStepFinder::marksRows(Value mask, llvm::ArrayRef<Value> arguments, const Pair& pair) const {
  // Either computed here, or by another step as i8.
  if (Value source = convertedFrom(mask.getDefiningOp<GenericOp>())) mask = source;
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(mask)) {
    const int step = stepThatWrites(valueOf(argument, arguments));
    if (step < 0 || steps_[static_cast<size_t>(step)].results.size() != 1) return false;
    const OutlinedGroup& outlined = steps_[static_cast<size_t>(step)].outlined;
    GenericOp last = returnedGeneric(*outlined.function);
    const Value source = convertedFrom(last);
    GenericOp marks = source ? source.getDefiningOp<GenericOp>() : last;
    return marks && marksRows(marks.getResult(0), outlined.arguments, pair);
  }
  auto op = mask.getDefiningOp<GenericOp>();
  if (!op || op.getNumLoops() != 1 || op.getNumParallelLoops() != 1 || op.getNumDpsInputs() != 0) return false;
  mlir::arith::CmpIOp below = yieldedComparison(op);
  return below && isPosition(below.getLhs(), 0) && valueOf(readFrom(below.getRhs()), arguments) == pair.rows_after;
}

bool StateStepFinder::isIdentity(const PendingStep& step, const Pair& pair) const {
  if (step.results.size() != 1 || !step.outlined.function) return false;
  GenericOp op = returnedGeneric(*step.outlined.function);
  if (!op || op.getNumDpsInputs() != 2 || op.getResult(0).getType() != pair.present.getType()) return false;
  auto select = op.getBody()->getTerminator()->getOperand(0).getDefiningOp<mlir::arith::SelectOp>();
  if (!select || (!mlir::matchPattern(select.getFalseValue(), mlir::m_PosZeroFloat()) &&
                  !mlir::matchPattern(select.getFalseValue(), mlir::m_Zero())))
    return false;
  const auto element = mlir::dyn_cast<mlir::BlockArgument>(select.getTrueValue());
  const auto marked = mlir::dyn_cast<mlir::BlockArgument>(select.getCondition());
  if (!element || !marked || element.getOwner() != op.getBody() || marked.getOwner() != op.getBody() ||
      element.getArgNumber() >= 2 || marked.getArgNumber() >= 2)
    return false;
  mlir::OpOperand* whole = op.getDpsInputOperand(element.getArgNumber());
  mlir::OpOperand* mask = op.getDpsInputOperand(marked.getArgNumber());
  const mlir::AffineMap map = op.getMatchingIndexingMap(mask);
  if (!op.getMatchingIndexingMap(whole).isIdentity() || map.getNumResults() != 1 ||
      map.getResult(0) != mlir::getAffineDimExpr(static_cast<unsigned>(pair.dim), op.getContext()))
    return false;
  const auto argument = mlir::dyn_cast<mlir::BlockArgument>(whole->get());
  return argument && valueOf(argument, step.outlined.arguments) == pair.present &&
         marksRows(mask->get(), step.outlined.arguments, pair);
}

std::optional<StateSteps> StateStepFinder::find(const v1::State& state, int index, std::string& why_not) const {
  const std::optional<Pair> pair = pairOf(state, why_not);
  if (!pair) return std::nullopt;
  StateSteps found;
  found.state = index;
  found.concat = stepThatWrites(pair->present);
  const auto refuse = [&](const std::string& reason) {
    why_not = reason;
    return std::nullopt;
  };
  if (llvm::any_of(steps_, [](const PendingStep& step) { return static_cast<bool>(step.loop); }))
    return refuse("the model has loops");
  if (found.concat < 0) return refuse("the output is an input or a constant");
  const PendingStep& concat = steps_[static_cast<size_t>(found.concat)];
  if (concat.results.size() != 1 || concat.outlined.chain)
    return refuse("the output is computed together with other values");
  for (const PendingStep& step : steps_) {
    if (&step != &concat && llvm::any_of(step.outlined.arguments, [&](Value v) { return viewSource(v) == pair->past; }))
      return refuse(absl::StrCat("step ", step.name, " reads the input, too"));
  }
  if (const auto argument = mlir::dyn_cast<mlir::BlockArgument>(pair->rows_after); !argument) {
    const int writer = stepThatWrites(pair->rows_after);
    if (writer < 0 || writer >= found.concat)
      return refuse("the number of rows is not known before they are concatenated");
  }
  found.rows.function = mlir::cast<mlir::func::FuncOp>((*concat.outlined.function)->clone());
  found.rows.arguments = concat.outlined.arguments;
  mlir::func::FuncOp function = *found.rows.function;
  const auto past = llvm::find_if(found.rows.arguments, [&](Value v) { return v == pair->past; });
  const auto match =
      past == found.rows.arguments.end()
          ? std::nullopt
          : matchConcat(function, function.getArgument(static_cast<unsigned>(past - found.rows.arguments.begin())),
                        pair->dim);
  if (!match || valueOf(match->length, found.rows.arguments) != pair->rows_before)
    return refuse("the output is not the input followed by new rows");
  keepAppendedRows(function, *match, pair->most_after - pair->most_before);
  found.rows_type = mlir::cast<mlir::RankedTensorType>(function.getResultTypes()[0]);
  for (unsigned a = function.getNumArguments(); a-- > 0;) {
    if (!function.getArgument(a).use_empty()) continue;
    if (mlir::failed(function.eraseArgument(a))) return refuse("the new rows have no function of their own");
    found.rows.arguments.erase(found.rows.arguments.begin() + a);
  }
  if (const mlir::BlockArgument source = sourceOfRows(function, pair->dim))
    found.source = static_cast<int>(source.getArgNumber());
  for (auto [position, step] : llvm::enumerate(steps_))
    if (static_cast<int>(position) > found.concat && isIdentity(step, *pair))
      found.identities.push_back(static_cast<int>(position));
  return found;
}

}  // namespace tessera::compiler
