#include "compiler/training/generic_gradient.h"

#include "compiler/import/model_error.h"
#include "compiler/training/accumulation.h"
#include "compiler/training/loop_nest.h"
#include "compiler/training/node_name.h"
#include "compiler/training/scalar_adjoint.h"
#include "compiler/training/window_gradient.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::training {
namespace {

namespace arith = mlir::arith;
using mlir::AffineMap;
using mlir::Value;
using mlir::linalg::GenericOp;

/// A dimension of a tensor that a body reads at a computed index: a loop of its own, with a condition.
struct ComputedIndex {
  Value index;  // of the original body
  unsigned loop = 0;
};

class GenericGradient {
 public:
  GenericGradient(Emitter& e, GenericOp op, Adjoints& adjoints)
      : e_(e), op_(op), adjoints_(adjoints), extents_(op.getStaticLoopRanges()) {
    maps_ = op.getIndexingMapsArray();
  }

  absl::Status run() {
    if (op_.getNumResults() != 1) return unsupported("an operation with several results");
    if (!maps_.back().isProjectedPermutation()) return unsupported("a result with computed subscripts");
    gradient_ = adjoints_.of(op_.getResult(0));
    TESSERA_ASSIGN_OR_RETURN(accumulation_, accumulationOf(op_));
    using Kind = Accumulation::Kind;
    const Value init = op_.getDpsInits()[0];
    if (accumulation_.kind != Kind::kNone && adjoints_.depends(init)) {
      if (accumulation_.kind != Kind::kSum) return unsupported("a reduction that begins with a computed value");
      adjoints_.add(e_, init, gradient_);
    }
    std::vector<unsigned> windows;
    for (unsigned i = 0; i < op_.getNumDpsInputs(); ++i) {
      if (!adjoints_.depends(op_.getDpsInputs()[i]) || op_.getBody()->getArgument(i).use_empty()) continue;
      if (!maps_[i].isProjectedPermutation() || accumulation_.kind == Kind::kProduct) {
        windows.push_back(i);
        continue;
      }
      TESSERA_RETURN_IF_ERROR(throughOperand(i));
    }
    llvm::SmallVector<mlir::tensor::ExtractOp> reads;
    op_.getBody()->walk([&](mlir::tensor::ExtractOp read) {
      if (adjoints_.depends(read.getTensor())) reads.push_back(read);
    });
    for (mlir::tensor::ExtractOp read : reads) TESSERA_RETURN_IF_ERROR(throughRead(read));
    return windows.empty() ? absl::OkStatus() : throughWindows(e_, op_, accumulation_, windows, adjoints_);
  }

 private:
  absl::Status unsupported(const std::string& what) {
    return fault(
        v1::Failure::UNSUPPORTED_OPERATOR, "no gradient is known of " + what,
        {.found = what, .remedy = "freeze what the operator depends on: --frozen NAME", .node = nodeName(*op_)});
  }

  bool selects() const {
    return accumulation_.kind == Accumulation::Kind::kMax || accumulation_.kind == Accumulation::Kind::kMin;
  }

  /// A nest over the operation's loops that reads its operands, then `more`, which have the result's subscripts.
  LoopNest nestWith(llvm::ArrayRef<Value> more) {
    LoopNest nest;
    nest.extents.assign(extents_.begin(), extents_.end());
    for (unsigned i = 0; i < op_.getNumDpsInputs(); ++i) {
      nest.tensors.push_back(op_.getDpsInputs()[i]);
      nest.maps.push_back(maps_[i]);
    }
    for (const Value tensor : more) {
      nest.tensors.push_back(tensor);
      nest.maps.push_back(maps_.back());
    }
    return nest;
  }

  /// Copies the body. `arguments` are those of nestWith().
  mlir::IRMapping forward(mlir::OpBuilder& b, mlir::ValueRange arguments, const LoopNest::Loop& loop) {
    mlir::IRMapping values;
    mlir::Block& body = *op_.getBody();
    for (unsigned i = 0; i < op_.getNumDpsInputs(); ++i) values.map(body.getArgument(i), arguments[i]);
    // Only the combination reads it, and that copy is dead.
    if (Value so_far = body.getArguments().back(); !so_far.use_empty())
      values.map(so_far, Scalars(b, e_.loc, floatTypeOf(so_far)).constant(0));
    cloneBody(b, body, loop, values);
    return values;
  }

  /// The number of iterations whose value is the maximum (or minimum), for each element of the result.
  absl::StatusOr<Value> ties() {
    if (ties_) return ties_;
    LoopNest nest = nestWith({op_.getResult(0)});
    nest.dtype = floatTypeOf(op_.getResult(0));
    for (const mlir::AffineExpr expr : maps_.back().getResults())
      nest.result_loops.push_back(mlir::cast<mlir::AffineDimExpr>(expr).getPosition());
    nest.body = [&](mlir::OpBuilder& b, mlir::ValueRange arguments, const LoopNest::Loop& loop) {
      const mlir::IRMapping values = forward(b, arguments, loop);
      const Scalars s(b, e_.loc, nest.dtype);
      const Value hit = s.compare(Relation::kEqual, values.lookup(accumulation_.value), arguments.back());
      return absl::StatusOr<Value>(s.select(hit, s.constant(1), s.constant(0)));
    };
    TESSERA_ASSIGN_OR_RETURN(ties_, emitNest(e_, nest));
    return ties_;
  }

  /// The adjoint of a value that the body reads, times the gradient of the result. Extremes pass it on to where they
  /// come from, in equal parts.
  absl::StatusOr<LoopNest> nestOf(Value wanted) {
    llvm::SmallVector<Value> more = {gradient_};
    if (selects()) {
      TESSERA_ASSIGN_OR_RETURN(const Value count, ties());
      more.append({op_.getResult(0), count});
    }
    LoopNest nest = nestWith(more);
    nest.dtype = floatTypeOf(wanted);
    nest.body = [this, wanted](mlir::OpBuilder& b, mlir::ValueRange arguments,
                               const LoopNest::Loop& loop) -> absl::StatusOr<Value> {
      const mlir::IRMapping values = forward(b, arguments, loop);
      const unsigned first = op_.getNumDpsInputs();
      Value seed = arguments[first];
      const Scalars s(b, e_.loc, floatTypeOf(seed));
      if (selects()) {
        const Value hit = s.compare(Relation::kEqual, values.lookup(accumulation_.value), arguments[first + 1]);
        seed = s.select(hit, s.div(seed, arguments[first + 2]), s.constant(0));
      }
      TESSERA_ASSIGN_OR_RETURN(const auto found, emitAdjoints(b, e_.loc,
                                                              {.body = *op_.getBody(),
                                                               .result = accumulation_.value,
                                                               .seed = seed,
                                                               .wanted = wanted,
                                                               .forward = values}));
      if (found[0]) return found[0];
      return Scalars(b, e_.loc, floatTypeOf(wanted)).constant(0);
    };
    return nest;
  }

  absl::Status throughOperand(unsigned index) {
    TESSERA_ASSIGN_OR_RETURN(LoopNest nest, nestOf(op_.getBody()->getArgument(index)));
    for (const mlir::AffineExpr expr : maps_[index].getResults())
      nest.result_loops.push_back(mlir::cast<mlir::AffineDimExpr>(expr).getPosition());
    TESSERA_ASSIGN_OR_RETURN(const Value part, emitNest(e_, nest));
    adjoints_.add(e_, op_.getDpsInputs()[index], part);
    return absl::OkStatus();
  }

  /// dT[z] is the sum over the iterations whose computed index is z. So each element is written once, as in all
  /// gradients.
  absl::Status throughRead(mlir::tensor::ExtractOp read) {
    if (read->getBlock() != op_.getBody()) return unsupported("a read under control flow");
    TESSERA_ASSIGN_OR_RETURN(LoopNest nest, nestOf(read.getResult()));
    std::vector<ComputedIndex> computed;
    const auto shape = mlir::cast<mlir::RankedTensorType>(read.getTensor().getType()).getShape();
    for (const auto& [d, index] : llvm::enumerate(read.getIndices())) {
      auto loop = index.getDefiningOp<mlir::linalg::IndexOp>();
      const auto position = loop ? static_cast<unsigned>(loop.getDim()) : 0;
      if (loop && extents_[position] == shape[d] && !llvm::is_contained(nest.result_loops, position)) {
        nest.result_loops.push_back(position);
        continue;
      }
      const auto added = static_cast<unsigned>(nest.extents.size());
      nest.extents.push_back(shape[d]);
      nest.result_loops.push_back(added);
      computed.push_back({index, added});
    }
    for (AffineMap& map : nest.maps)
      map = AffineMap::get(static_cast<unsigned>(nest.extents.size()), 0, map.getResults(), map.getContext());
    nest.body = [this, computed, adjoint = nest.body, wanted = read.getResult()](
                    mlir::OpBuilder& b, mlir::ValueRange arguments,
                    const LoopNest::Loop& loop) -> absl::StatusOr<Value> {
      TESSERA_ASSIGN_OR_RETURN(Value element, adjoint(b, arguments, loop));
      const mlir::IRMapping values = forward(b, arguments, loop);
      const Scalars s(b, e_.loc, floatTypeOf(wanted));
      for (const ComputedIndex& each : computed) {
        const Value here = arith::CmpIOp::create(b, e_.loc, arith::CmpIPredicate::eq,
                                                 values.lookupOrDefault(each.index), loop(each.loop));
        element = s.select(here, element, s.constant(0));
      }
      return element;
    };
    TESSERA_ASSIGN_OR_RETURN(const Value part, emitNest(e_, nest));
    adjoints_.add(e_, read.getTensor(), part);
    return absl::OkStatus();
  }

  Emitter& e_;
  GenericOp op_;
  Adjoints& adjoints_;
  llvm::SmallVector<int64_t> extents_;
  llvm::SmallVector<AffineMap> maps_;
  Accumulation accumulation_;
  Value gradient_, ties_;
};

}  // namespace

absl::Status differentiateGeneric(Emitter& e, GenericOp op, Adjoints& adjoints) {
  return GenericGradient(e, op, adjoints).run();
}

}  // namespace tessera::compiler::training
