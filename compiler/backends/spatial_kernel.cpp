#include "compiler/backends/spatial_kernel.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/backends/cpu/bufferize.h"
#include "compiler/backends/spatial_access.h"
#include "compiler/backends/spatial_body.h"
#include "compiler/graph/analysis/element_type.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::spatial {
namespace {

namespace linalg = mlir::linalg;
namespace memref = mlir::memref;

/// Elements of a constant that may be written by comparing positions. Larger constants are weights.
constexpr int64_t kMaxElements = 64;

/// The operations of the body in order, without conversions, for display: "mulf + addf".
std::string nameOf(const v1::SpatialKernel::Nest& nest) {
  std::vector<std::string> names;
  for (const v1::SpatialKernel::Operation& operation : nest.body()) {
    const std::string& name = operation.name();
    if (name == "constant" || name == "index" || name == "extf" || name == "truncf" || name == "extsi") continue;
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  constexpr size_t kMaxNames = 6;
  if (names.size() > kMaxNames) {
    const size_t more = names.size() - kMaxNames;
    names.resize(kMaxNames);
    names.push_back(absl::StrCat(more, " more"));
  }
  if (!names.empty()) return absl::StrJoin(names, " + ");
  return nest.accesses_size() > nest.outputs() ? "copy" : "fill";
}

class KernelWriter {
 public:
  explicit KernelWriter(mlir::func::FuncOp func) : func_(func) {}

  absl::StatusOr<v1::SpatialKernel> write(int results) {
    mlir::Block& block = func_.getBody().front();
    for (mlir::BlockArgument argument : block.getArguments()) addBuffer(argument);
    kernel_.set_operands(static_cast<int32_t>(block.getNumArguments()));
    kernel_.set_results(results);
    int place = 0;
    for (mlir::Operation& op : block.without_terminator()) {
      buffers_.place[&op] = place++;
      TESSERA_RETURN_IF_ERROR(writeOperation(op));
    }
    return std::move(kernel_);
  }

 private:
  void addBuffer(mlir::Value root) {
    auto type = llvm::cast<mlir::MemRefType>(root.getType());
    buffers_.number[root] = kernel_.buffers_size();
    v1::SpatialKernel::Buffer& buffer = *kernel_.add_buffers();
    buffer.set_dtype(dataTypeOf(type.getElementType()));
    buffer.mutable_shape()->Add(type.getShape().begin(), type.getShape().end());
  }

  absl::Status writeOperation(mlir::Operation& op) {
    if (auto structured = llvm::dyn_cast<linalg::LinalgOp>(op)) return writeNest(structured);
    if (auto store = llvm::dyn_cast<memref::StoreOp>(op)) return writeStore(store);
    if (auto loops = llvm::dyn_cast<mlir::scf::ForOp>(op)) return writeSerial(loops);
    if (auto constant = llvm::dyn_cast<memref::GetGlobalOp>(op)) return writeGlobal(constant);
    if (llvm::isa<memref::AllocOp, memref::AllocaOp>(op)) {
      if (!llvm::cast<mlir::MemRefType>(op.getResult(0).getType()).hasStaticShape())
        return inexpressible(&op, "allocates a buffer of run-time size");
      addBuffer(op.getResult(0));
      return absl::OkStatus();
    }
    // Views and scalars are read where they are used.
    if (llvm::isa<memref::DeallocOp, memref::LoadOp, mlir::ViewLikeOpInterface>(op)) return absl::OkStatus();
    if (op.getNumRegions() == 0 && mlir::isPure(&op)) return absl::OkStatus();
    return inexpressible(&op, "runs operations in an order that no loop nest has");
  }

  void finish(v1::SpatialKernel::Nest nest, mlir::Operation& op) {
    for (int output = 0; output < nest.outputs(); ++output)
      buffers_.written[nest.accesses(output).buffer()] = buffers_.place.at(&op);
    nest.set_name(nameOf(nest));
    *kernel_.add_nests() = std::move(nest);
  }

  /// Adds an access, unless no subscript can state it; then returns false.
  absl::StatusOr<bool> addAccess(mlir::Operation* op, const View& view, mlir::AffineMap map,
                                 const std::vector<std::string>& names, v1::SpatialKernel::Nest& nest) const {
    const auto buffer = buffers_.number.find(view.root);
    if (buffer == buffers_.number.end()) return inexpressible(op, "accesses a buffer that the workload does not own");
    v1::SpatialKernel::Access access;
    access.set_buffer(buffer->second);
    access.set_offset(view.offset);
    for (auto [expression, stride] : llvm::zip_equal(map.getResults(), view.strides)) {
      const std::optional<std::string> text = subscriptText(expression, names);
      if (!text) return false;
      access.add_subscripts(*text);
      access.add_strides(stride);
    }
    *nest.add_accesses() = std::move(access);
    return true;
  }

  absl::Status writeNest(linalg::LinalgOp op) {
    v1::SpatialKernel::Nest nest;
    std::vector<std::string> names;
    int kept = 0, summed = 0;
    for (const auto [extent, kind] : llvm::zip(op.getStaticLoopRanges(), op.getIteratorTypesArray())) {
      if (mlir::ShapedType::isDynamic(extent)) return inexpressible(op, "has a loop of run-time extent");
      const bool sums = kind == mlir::utils::IteratorType::reduction;
      names.push_back(sums ? absl::StrCat("r", summed++) : absl::StrCat("i", kept++));
      v1::SpatialKernel::Loop& loop = *nest.add_loops();
      loop.set_name(names.back());
      loop.set_extent(extent);
    }
    // Nothing is computed.
    if (llvm::any_of(nest.loops(), [](const v1::SpatialKernel::Loop& loop) { return loop.extent() == 0; }))
      return absl::OkStatus();
    nest.set_outputs(static_cast<int32_t>(op.getNumDpsInits()));
    BodyWriter body(nest, buffers_);
    for (mlir::OpOperand& use : op.getDpsInitsMutable()) {
      const std::optional<View> view = viewOf(use.get());
      if (!view) return inexpressible(op, "writes a view of run-time shape");
      TESSERA_ASSIGN_OR_RETURN(const bool stated, addAccess(op, *view, op.getMatchingIndexingMap(&use), names, nest));
      if (!stated) return inexpressible(op, "writes at subscripts that are not sums of loops and their digits");
      body.bind(op.getMatchingBlockArgument(&use), nest.accesses_size() - 1);
    }
    llvm::SmallVector<std::pair<mlir::OpOperand*, View>> computed;
    for (mlir::OpOperand* use : op.getDpsInputOperands()) {
      const mlir::BlockArgument element = op.getMatchingBlockArgument(use);
      if (!llvm::isa<mlir::MemRefType>(use->get().getType())) {
        body.bind(element, use->get());
        continue;
      }
      // The extents of an operand without readers (a pooling window) are all that counts.
      if (element.use_empty()) continue;
      const std::optional<View> view = viewOf(use->get());
      if (!view) return inexpressible(op, "reads a view of run-time shape");
      TESSERA_ASSIGN_OR_RETURN(const bool stated, addAccess(op, *view, op.getMatchingIndexingMap(use), names, nest));
      if (stated) {
        body.bind(element, nest.accesses_size() - 1);
      } else {
        computed.emplace_back(use, *view);
      }
    }
    for (const auto& [use, view] : computed) {
      TESSERA_ASSIGN_OR_RETURN(const int element, body.elementAt(view, op.getMatchingIndexingMap(use)));
      body.bind(op.getMatchingBlockArgument(use), element);
    }
    for (mlir::Value result : op.getBlock()->getTerminator()->getOperands()) {
      TESSERA_ASSIGN_OR_RETURN(const int value, body.valueOf(result));
      nest.add_yields(value);
    }
    finish(std::move(nest), *op);
    return absl::OkStatus();
  }

  absl::Status writeStore(memref::StoreOp store) {
    const std::optional<View> view = viewOf(store.getMemRef());
    llvm::SmallVector<mlir::AffineExpr> places;
    for (mlir::Value index : store.getIndices()) {
      auto constant = index.getDefiningOp<mlir::arith::ConstantIndexOp>();
      if (!constant) return inexpressible(store, "writes at a computed index");
      places.push_back(mlir::getAffineConstantExpr(constant.value(), store.getContext()));
    }
    if (!view) return inexpressible(store, "writes to a view of run-time shape");
    v1::SpatialKernel::Nest nest;
    nest.set_outputs(1);
    TESSERA_ASSIGN_OR_RETURN(const bool stated,
                             addAccess(store, *view, mlir::AffineMap::get(0, 0, places, store.getContext()), {}, nest));
    if (!stated) return inexpressible(store, "writes at an index that is too large");
    BodyWriter body(nest, buffers_);
    TESSERA_ASSIGN_OR_RETURN(const int value, body.valueOf(store.getValueToStore()));
    nest.add_yields(value);
    finish(std::move(nest), *store);
    return absl::OkStatus();
  }

  /// Serial loops around one store at a computed place: a nest that also walks the places, and keeps all elements but
  /// the one that is stored to. Updates stay in their order.
  absl::Status writeSerial(mlir::scf::ForOp outermost) {
    v1::SpatialKernel::Nest nest;
    std::vector<std::string> names;
    const auto addLoop = [&](std::string name, int64_t extent) {
      names.push_back(name);
      v1::SpatialKernel::Loop& loop = *nest.add_loops();
      loop.set_name(std::move(name));
      loop.set_extent(extent);
    };
    llvm::SmallVector<std::tuple<mlir::Value, int64_t, int64_t>> variables;  // with first value and step
    memref::StoreOp store;
    for (mlir::scf::ForOp loop = outermost, inner; loop; loop = inner, inner = mlir::scf::ForOp()) {
      const auto lower = mlir::getConstantIntValue(loop.getLowerBound()),
                 upper = mlir::getConstantIntValue(loop.getUpperBound()),
                 step = mlir::getConstantIntValue(loop.getStep());
      if (!lower || !upper || !step || *step <= 0)
        return inexpressible(loop, "has bounds that are known at run time only");
      if (loop.getNumRegionIterArgs() > 0) return inexpressible(loop, "carries scalars from one iteration to the next");
      addLoop(absl::StrCat("s", names.size()), std::max<int64_t>(0, (*upper - *lower + *step - 1) / *step));
      variables.emplace_back(loop.getInductionVar(), *lower, *step);
      for (mlir::Operation& op : loop.getBody()->without_terminator()) {
        if (store || (inner && !mlir::isPure(&op)))
          return inexpressible(outermost, "runs operations in an order that no loop nest has");
        if (auto nested = llvm::dyn_cast<mlir::scf::ForOp>(op)) {
          inner = nested;
        } else if (auto last = llvm::dyn_cast<memref::StoreOp>(op)) {
          store = last;
        } else if (op.getNumRegions() > 0 || !(llvm::isa<memref::LoadOp>(op) || mlir::isPure(&op))) {
          return inexpressible(&op, "runs operations in an order that no loop nest has");
        }
      }
    }
    if (!store) return absl::OkStatus();
    const std::optional<View> view = viewOf(store.getMemRef());
    if (!view || !buffers_.number.contains(view->root))
      return inexpressible(store, "writes to a view of run-time shape");
    // The store's places: loops of their own, unless an index is one of the loops.
    std::vector<std::pair<mlir::Value, int64_t>> computed;
    llvm::SmallVector<mlir::AffineExpr> places;
    const auto shape = llvm::cast<mlir::MemRefType>(store.getMemRef().getType()).getShape();
    for (auto [dimension, index] : llvm::enumerate(store.getIndices())) {
      const auto* variable = llvm::find_if(variables, [&](const auto& each) {
        return std::get<0>(each) == index && std::get<1>(each) == 0 && std::get<2>(each) == 1;
      });
      if (variable != variables.end()) {
        places.push_back(mlir::getAffineDimExpr(variable - variables.begin(), store.getContext()));
        continue;
      }
      computed.emplace_back(index, nest.loops_size());
      places.push_back(mlir::getAffineDimExpr(nest.loops_size(), store.getContext()));
      addLoop(absl::StrCat("i", computed.size() - 1), shape[dimension]);
    }
    if (llvm::any_of(nest.loops(), [](const v1::SpatialKernel::Loop& loop) { return loop.extent() == 0; }))
      return absl::OkStatus();
    nest.set_outputs(1);
    const auto map = mlir::AffineMap::get(nest.loops_size(), 0, places, store.getContext());
    TESSERA_ASSIGN_OR_RETURN(const bool stated, addAccess(store, *view, map, names, nest));
    if (!stated) return inexpressible(store, "writes at subscripts that are too large");
    BodyWriter body(nest, buffers_);
    for (const auto& [loop, variable] : llvm::enumerate(variables))
      body.bindLoop(std::get<0>(variable), static_cast<int64_t>(loop), std::get<1>(variable), std::get<2>(variable));
    // What is read from the written buffer must be the element at this place, which is the output's own.
    absl::Status other;
    outermost.walk([&](memref::LoadOp read) {
      const std::optional<View> from = viewOf(read.getMemRef());
      if (!from || from->root != view->root) return;
      if (read->getBlock() == store->getBlock() && read.getMemRef() == store.getMemRef() &&
          llvm::equal(read.getIndices(), store.getIndices())) {
        body.bind(read.getResult(), 0);
      } else {
        other = inexpressible(read, "reads what the same loops write at another place");
      }
    });
    TESSERA_RETURN_IF_ERROR(other);
    TESSERA_ASSIGN_OR_RETURN(int value, body.valueOf(store.getValueToStore()));
    if (!computed.empty()) {
      std::vector<std::pair<int, int64_t>> compared;
      for (const auto& [index, loop] : computed) {
        TESSERA_ASSIGN_OR_RETURN(const int number, body.valueOf(index));
        compared.emplace_back(number, loop);
      }
      value = body.select(body.isPlace(compared), value, 0, kernel_.buffers(nest.accesses(0).buffer()).dtype());
    }
    nest.add_yields(value);
    finish(std::move(nest), *outermost);
    return absl::OkStatus();
  }

  /// A constant of the workload becomes a temporary that one nest for each element fills.
  absl::Status writeGlobal(memref::GetGlobalOp op) {
    auto global = mlir::SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(op, op.getNameAttr());
    auto values = global && global.getInitialValue()
                      ? llvm::dyn_cast<mlir::DenseElementsAttr>(*global.getInitialValue())
                      : mlir::DenseElementsAttr();
    if (!values) return inexpressible(op, "reads a constant without values");
    const int64_t elements = values.getNumElements();
    if (!values.isSplat() && elements > kMaxElements)
      return inexpressible(op, absl::StrCat("reads a constant of ", elements, " elements"));
    addBuffer(op.getResult());
    mlir::OpBuilder builder(op);
    const mlir::Type type = values.getElementType();
    const auto constant = [&](int64_t element) -> mlir::Value {
      return mlir::arith::ConstantOp::create(builder, op.getLoc(), type, values.getValues<mlir::TypedAttr>()[element]);
    };
    const int pieces = values.isSplat() ? 1 : static_cast<int>(elements);
    for (int piece = 0; piece < pieces; ++piece) {
      v1::SpatialKernel::Nest nest;
      nest.set_outputs(1);
      v1::SpatialKernel::Access& access = *nest.add_accesses();
      access.set_buffer(buffers_.number.at(op.getResult()));
      access.set_offset(piece);
      if (values.isSplat()) {
        v1::SpatialKernel::Loop& loop = *nest.add_loops();
        loop.set_name("i0");
        loop.set_extent(elements);
        access.add_subscripts("i0");
        access.add_strides(1);
      }
      BodyWriter body(nest, buffers_);
      TESSERA_ASSIGN_OR_RETURN(const int value, body.valueOf(constant(piece)));
      nest.add_yields(value);
      if (elements > 0) finish(std::move(nest), *op);
    }
    return absl::OkStatus();
  }

  mlir::func::FuncOp func_;
  v1::SpatialKernel kernel_;
  Buffers buffers_;
};

}  // namespace

absl::StatusOr<v1::SpatialKernel> kernelOf(const v1::BuildUnit& unit) {
  mlir::DialectRegistry registry;
  codegen::registerCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  TESSERA_ASSIGN_OR_RETURN(auto module, codegen::parseWorkload(context, unit.ir()));
  mlir::func::FuncOp func = *module->getOps<mlir::func::FuncOp>().begin();
  const auto results = static_cast<int>(func.getNumResults());
  TESSERA_RETURN_IF_ERROR(codegen::normalizeTensors(func));
  TESSERA_RETURN_IF_ERROR(codegen::bufferizeWorkload(func));
  TESSERA_ASSIGN_OR_RETURN(v1::SpatialKernel kernel, KernelWriter(func).write(results));
  kernel.set_workload_hash(unit.workload_hash());
  kernel.set_symbol(unit.symbol());
  return kernel;
}

absl::StatusOr<v1::SpatialKernel> scheduledKernelOf(const v1::BuildUnit& unit) {
  TESSERA_ASSIGN_OR_RETURN(v1::SpatialKernel kernel, kernelOf(unit));
  *kernel.mutable_schedule() = unit.schedule();
  return kernel;
}

v1::Target targetOf(const v1::BuildUnit& unit) {
  v1::Target target;
  target.set_name("chip");
  target.set_family(unit.family());
  *target.mutable_code() = unit.code();
  *target.mutable_registers() = unit.registers();
  *target.mutable_memory() = unit.memory();
  *target.mutable_units() = unit.units();
  *target.mutable_intrinsics() = unit.intrinsics();
  *target.mutable_cost_parameters() = unit.cost_parameters();
  return target;
}

}  // namespace tessera::compiler::spatial
