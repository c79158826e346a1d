// Loops of the model: runs the body in each iteration, with separate values.
#include <algorithm>
#include <limits>

#include "compiler/interpreter/machine.h"
#include "compiler/interpreter/structure.h"
#include "compiler/ir/weight_attribute.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::interpreter {
namespace {

/// The only element of a tensor that determines the number of iterations.
absl::StatusOr<int64_t> decided(const Array& array) {
  const Scalar value = array.at(array.offset);
  if (value.error > 0) return absl::FailedPreconditionError("the rounding of its condition decides when a loop ends");
  return value.integer;
}

/// One of the parts along the first dimension, as a view.
Array partOf(const Array& whole, int64_t index) {
  Array part = whole;
  part.offset += index * whole.strides.front();
  part.shape.erase(part.shape.begin());
  part.strides.erase(part.strides.begin());
  return part;
}

Array scalarArray(int64_t value) {
  Array array = makeArray(Element{Element::Kind::kInteger, 64}, {});
  array.set(0, {0, value, 0});
  return array;
}

/// The values of a loop between two iterations.
class Iterations {
 public:
  Iterations(Machine& machine, const ModelLoop& loop)
      : machine_(machine), loop_(loop), options_(machine.optionsOfBodies()), body_(options_) {}

  absl::Status run();

 private:
  absl::Status begin();
  absl::Status runNext();

  Machine& machine_;
  const ModelLoop& loop_;
  const Options options_;
  Machine body_;
  int64_t most_ = std::numeric_limits<int64_t>::max(), ended_ = 0;
  bool goes_on_ = true;
  int64_t moved_ = 0;  // elements moved per iteration
  std::vector<Array> carried_, scanned_, captured_, stacked_;
};

absl::Status Iterations::begin() {
  mlir::Operation* op = loop_.op;
  if (loop_.most >= 0) most_ = loop_.most;
  if (loop_.has_trip_count) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t count, decided(machine_.array(op->getOperand(0))));
    most_ = std::clamp<int64_t>(count, 0, most_);
  }
  if (loop_.has_condition && most_ > 0) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t condition,
                             decided(machine_.array(op->getOperand(loop_.firstCarried() - 1))));
    goes_on_ = condition != 0;
  }
  for (mlir::Value value : op->getOperands().slice(loop_.firstScanned(), loop_.scanned.size()))
    scanned_.push_back(machine_.array(value));
  for (mlir::Value value : op->getOperands().slice(loop_.firstCaptured(), loop_.captured))
    captured_.push_back(machine_.array(value));
  for (mlir::Value value : op->getOperands().slice(loop_.firstCarried(), loop_.carried))
    // Taken, so that the first iteration can update it in place.
    carried_.push_back(machine_.take(value, op));
  for (auto [index, type] : llvm::zip_equal(loop_.weights, loop_.typesOfWeights())) {
    TESSERA_ASSIGN_OR_RETURN(Array weight, machine_.weight(index, llvm::cast<mlir::RankedTensorType>(type)));
    captured_.push_back(std::move(weight));
  }
  for (mlir::Value result : op->getResults().slice(loop_.carried, loop_.stacked.size()))
    // Parts that no iteration writes stay unknown.
    stacked_.push_back(makeArray(llvm::cast<mlir::ShapedType>(result.getType()), true));
  moved_ = loop_.movedElements();
  return absl::OkStatus();
}

absl::Status Iterations::runNext() {
  TESSERA_RETURN_IF_ERROR(machine_.charge(1 + moved_));
  mlir::func::FuncOp function = loop_.body;
  mlir::Block& block = function.getBody().front();
  unsigned next = 0;
  const auto give = [&](Array value) { body_.set(block.getArgument(next++), std::move(value)); };
  give(scalarArray(ended_));
  for (Array& value : carried_) give(std::move(value));
  for (auto [whole, reversed] : llvm::zip_equal(scanned_, loop_.scanned))
    give(ownedDense(partOf(whole, loop_.partOf(ended_, reversed))));
  // Shared by all iterations, so these are copies of the handle.
  for (const Array& value : captured_) give(value);
  TESSERA_RETURN_IF_ERROR(body_.run(block));

  std::vector<Array> results = body_.takeResults(block);
  auto result = results.begin();
  const int64_t index = ended_++;
  // The condition of the last possible iteration is not read.
  if (loop_.has_condition) {
    if (ended_ < most_) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t condition, decided(*result));
      goes_on_ = condition != 0;
    }
    ++result;
  }
  for (Array& value : carried_) value = std::move(*result++);
  for (auto [whole, reversed] : llvm::zip_equal(stacked_, loop_.stacked))
    assign(partOf(whole, loop_.partOf(index, reversed)), *result++);
  return absl::OkStatus();
}

absl::Status Iterations::run() {
  TESSERA_RETURN_IF_ERROR(begin());
  while (goes_on_ && ended_ < most_) {
    TESSERA_RETURN_IF_ERROR(runNext());
  }
  unsigned next = 0;
  for (std::vector<Array>* values : {&carried_, &stacked_}) {
    for (Array& value : *values) machine_.set(loop_.op->getResult(next++), std::move(value));
  }
  machine_.set(loop_.op->getResult(next), scalarArray(ended_));
  return absl::OkStatus();
}

constexpr int64_t kUnlimited = int64_t{1} << 62;
int64_t plus(int64_t a, int64_t b) { return a > kUnlimited - b ? kUnlimited : a + b; }
int64_t times(int64_t a, int64_t b) { return a != 0 && b > kUnlimited / a ? kUnlimited : a * b; }

int64_t bodyOperations(mlir::linalg::LinalgOp op) {
  int64_t points = 1;
  for (int64_t extent : op.getStaticLoopRanges()) points *= extent;
  const auto constants = op.getBlock()->getOps<mlir::arith::ConstantOp>();
  return points * (static_cast<int64_t>(op.getBlock()->getOperations().size()) -
                   std::distance(constants.begin(), constants.end()));
}

}  // namespace

Options Machine::optionsOfBodies() const {
  // Each iteration has different values, which would never be found in the cache again. An observer only knows
  // operations of the function that it runs.
  Options options = options_;
  options.budget = &budget_;
  options.cache = nullptr;
  options.observe = nullptr;
  return options;
}

absl::StatusOr<Array> Machine::weight(int64_t index, mlir::RankedTensorType type) const {
  if (!options_.weight) return absl::UnimplementedError("the body of a loop reads a weight, and there are none here");
  absl::StatusOr<Array> weight = options_.weight(index, type);
  if (weight.ok() && llvm::ArrayRef<int64_t>(weight->shape) != type.getShape())
    return absl::InternalError("the body of a loop reads a weight of another shape");
  return weight;
}

absl::Status Machine::runModelLoop(mlir::Operation* op) {
  TESSERA_ASSIGN_OR_RETURN(const ModelLoop loop, ModelLoop::of(op));
  const auto run = [&] { return Iterations(*this, loop).run(); };
  if (!options_.cache) return run();
  uint64_t key = structureOf(op);
  for (mlir::func::FuncOp body : loop.bodies) {
    key = mix(key, structureOf(body));
    for (unsigned a = 0; a < body.getNumArguments(); ++a) {
      auto index = body.getArgAttrOfType<mlir::IntegerAttr>(a, kWeightAttribute);
      auto type = llvm::dyn_cast<mlir::RankedTensorType>(body.getArgumentTypes()[a]);
      if (!index || !type) continue;
      TESSERA_ASSIGN_OR_RETURN(const Array value, weight(index.getInt(), type));
      // The body reads weights without operands, so their content belongs to the key.
      key = mix(key, hashOf(value));
    }
  }
  return runCached(op, key, run);
}

int64_t operationsOf(mlir::func::FuncOp func) {
  int64_t operations = 0;
  func.walk([&](mlir::Operation* op) {
    if (auto structured = llvm::dyn_cast<mlir::linalg::LinalgOp>(op)) {
      operations = plus(operations, bodyOperations(structured));
    } else if (ModelLoop::isLoop(op)) {
      const absl::StatusOr<ModelLoop> loop = ModelLoop::of(op);
      if (!loop.ok()) return;  // running it reports the error
      const int64_t each = plus(operationsOf(loop->body), 1 + loop->movedElements());
      operations = plus(operations, times(each, loop->iterations().value_or(1)));
    }
  });
  return operations;
}

}  // namespace tessera::compiler::interpreter
