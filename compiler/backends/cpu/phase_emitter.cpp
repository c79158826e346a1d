#include "compiler/backends/cpu/phase_emitter.h"

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/diagnostics.h"
#include "compiler/backends/cpu/emit/grid_walk.h"
#include "compiler/backends/cpu/emit/loop_emitter.h"
#include "compiler/backends/cpu/in_place_results.h"
#include "compiler/backends/cpu/region/region_emitter.h"
#include "compiler/backends/cpu/tiling/micro_kernel.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Transforms/RegionUtils.h"

namespace tessera::compiler::codegen {
namespace {

namespace LLVM = mlir::LLVM;
namespace arith = mlir::arith;
using mlir::OpBuilder;
using mlir::Value;

/// The offset of `root` in the thread's scratch; null when the buffer is not in this phase's scratch.
const int64_t* scratchPlace(const Phase& phase, Value root) {
  for (const auto& [buffer, offset] : phase.region ? phase.region->scratch : phase.scratch)
    if (buffer == root) return &offset;
  return nullptr;
}

/// Whether the nest reads one buffer and writes another at the same places, where `root` is either of them. The two may
/// then share memory.
bool readAndWrittenAlike(const Nest& nest, Value root) {
  llvm::SmallVector<const Access*> read, written;
  for (const Statement& statement : nest.statements) {
    for (const Operand& input : statement.inputs)
      if (input.access.root) read.push_back(&input.access);
    for (const Operand& output : statement.outputs)
      if (output.access.root) written.push_back(&output.access);
  }
  return llvm::any_of(written, [&](const Access* to) {
    return llvm::any_of(read, [&](const Access* from) {
      return (from->root == root || to->root == root) && from->offset == to->offset && from->strides == to->strides;
    });
  });
}

/// Builds one phase's internal function. Buffers become pointer arguments in the order of first use.
class PhaseFunction {
 public:
  PhaseFunction(mlir::ModuleOp module, const std::string& name)
      : module_(module), b_(module.getContext()), loc_(b_.getUnknownLoc()) {
    b_.setInsertionPointToEnd(module.getBody());
    const mlir::Type i64 = b_.getI64Type();
    func_ = mlir::func::FuncOp::create(b_, loc_, name, b_.getFunctionType({i64, i64}, {}));
    func_.setPrivate();
    func_->setAttr("llvm.linkage", LLVM::LinkageAttr::get(b_.getContext(), LLVM::Linkage::Internal));
    entry_ = func_.addEntryBlock();
    b_.setInsertionPointToStart(entry_);
    mlir::func::ReturnOp::create(b_, loc_);
    b_.setInsertionPoint(entry_->getTerminator());
  }

  OpBuilder& builder() { return b_; }
  Value lo() const { return entry_->getArgument(0); }
  Value hi() const { return entry_->getArgument(1); }
  mlir::func::FuncOp func() const { return func_; }
  llvm::ArrayRef<Value> roots() const { return roots_; }

  Value pointer(Value root) {
    auto* found = llvm::find(roots_, root);
    if (found != roots_.end()) return entry_->getArgument(2 + (found - roots_.begin()));
    roots_.push_back(root);
    return entry_->addArgument(LLVM::LLVMPointerType::get(b_.getContext()), loc_);
  }

  /// The value, in this function, of a value defined outside of the workload's nests. Pure computations are repeated;
  /// memrefs are built from their pointers.
  Value outer(Value value) {
    if (Value known = outer_.lookupOrNull(value)) return known;
    OpBuilder::InsertionGuard guard(b_);
    b_.setInsertionPoint(entry_->getTerminator());
    if (mlir::Operation* anchor = preludeEnd()) b_.setInsertionPoint(anchor);
    Value result;
    auto type = llvm::dyn_cast<mlir::MemRefType>(value.getType());
    if (type && rootOf(value) == value) {
      result = memrefOf(pointer(value), type);
    } else if (mlir::Operation* op = value.getDefiningOp()) {
      // Views, constants and other pure operations; the caller has checked that no others occur.
      mlir::IRMapping mapping;
      for (Value operand : op->getOperands()) mapping.map(operand, outer(operand));
      mlir::Operation* clone = b_.clone(*op, mapping);
      for (auto [from, to] : llvm::zip_equal(op->getResults(), clone->getResults())) outer_.map(from, to);
      prelude_ = clone;
      return outer_.lookup(value);
    } else {
      result = value;
    }
    if (mlir::Operation* made = result.getDefiningOp()) prelude_ = made;
    outer_.map(value, result);
    return result;
  }

  /// Clones operations that are kept as they are, and all operations they depend on.
  void cloneOperations(llvm::ArrayRef<mlir::Operation*> operations) {
    mlir::IRMapping mapping;
    for (mlir::Operation* op : operations) {
      llvm::SetVector<Value> captured;
      captured.insert(op->operand_begin(), op->operand_end());
      for (mlir::Region& region : op->getRegions()) mlir::getUsedValuesDefinedAbove(region, captured);
      for (Value value : captured)
        if (!mapping.contains(value)) mapping.map(value, outer(value));
      b_.setInsertionPoint(entry_->getTerminator());
      mlir::Operation* clone = b_.clone(*op, mapping);
      for (auto [from, to] : llvm::zip_equal(op->getResults(), clone->getResults())) outer_.map(from, to);
      // Buffers allocated inside loops are part of the workspace like all others.
      llvm::SmallVector<std::pair<Value, mlir::memref::AllocOp>> inner;
      op->walk([&](mlir::memref::AllocOp alloc) { inner.emplace_back(alloc.getResult(), nullptr); });
      size_t next = 0;
      clone->walk([&](mlir::memref::AllocOp alloc) { inner[next++].second = alloc; });
      for (auto& [original, alloc] : inner) {
        alloc.replaceAllUsesWith(outer(original));
        alloc.erase();
      }
      clone->walk([](mlir::memref::DeallocOp dealloc) { dealloc.erase(); });
    }
  }

  /// `same_points`: the caller may pass one buffer for a read and a written operand with the same access. Buffers of a
  /// region share scratch one after another, so they alias; so do a result and the argument that it may overwrite.
  void finish(bool same_points, const Phase& phase) {
    llvm::SmallVector<mlir::Type> types(entry_->getArgumentTypes());
    func_.setFunctionType(b_.getFunctionType(types, {}));
    for (unsigned i = 2; i < types.size(); ++i) {
      const Value root = roots_[i - 2];
      const bool shared =
          overwrittenArgument(root) || resultOverwriting(root) ||
          (same_points && llvm::any_of(phase.nests, [&](const Nest& nest) { return readAndWrittenAlike(nest, root); }));
      if (!shared && !scratchPlace(phase, root)) func_.setArgAttr(i, "llvm.noalias", b_.getUnitAttr());
    }
  }

 private:
  /// New outer values are inserted before all loops, after the outer values created so far.
  mlir::Operation* preludeEnd() { return prelude_ ? prelude_->getNextNode() : &entry_->front(); }

  Value memrefOf(Value pointer, mlir::MemRefType type) {
    const mlir::Type i64 = b_.getI64Type();
    const auto rank = static_cast<unsigned>(type.getRank());
    llvm::SmallVector<mlir::Type> fields{pointer.getType(), pointer.getType(), i64};
    if (rank > 0) fields.append(2, LLVM::LLVMArrayType::get(i64, rank));
    Value descriptor = LLVM::PoisonOp::create(b_, loc_, LLVM::LLVMStructType::getLiteral(b_.getContext(), fields));
    auto set = [&](Value value, llvm::ArrayRef<int64_t> position) {
      descriptor = LLVM::InsertValueOp::create(b_, loc_, descriptor, value, position);
    };
    auto constant = [&](int64_t value) -> Value { return LLVM::ConstantOp::create(b_, loc_, i64, value); };
    set(pointer, {0});
    set(pointer, {1});
    set(constant(0), {2});
    int64_t stride = 1;
    for (int64_t dim = type.getRank() - 1; dim >= 0; --dim) {
      set(constant(type.getDimSize(dim)), {3, dim});
      set(constant(stride), {4, dim});
      stride *= type.getDimSize(dim);
    }
    return mlir::UnrealizedConversionCastOp::create(b_, loc_, mlir::TypeRange{type}, mlir::ValueRange{descriptor})
        .getResult(0);
  }

  mlir::ModuleOp module_;
  OpBuilder b_;
  mlir::Location loc_;
  mlir::func::FuncOp func_;
  mlir::Block* entry_ = nullptr;
  llvm::SmallVector<Value> roots_;
  mlir::IRMapping outer_;
  mlir::Operation* prelude_ = nullptr;
};

/// void symbol(ptr operands, i64 lo, i64 hi, ptr workspace, ptr scratch): computes the buffers' pointers and calls
/// `body`.
void emitWrapper(mlir::ModuleOp module, const std::string& symbol, PhaseFunction& body, const PhaseList& list,
                 const Phase& phase) {
  OpBuilder b(module.getContext());
  b.setInsertionPointToEnd(module.getBody());
  const mlir::Location loc = b.getUnknownLoc();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  const mlir::Type i64 = b.getI64Type();
  auto wrapper =
      mlir::func::FuncOp::create(b, loc, symbol, b.getFunctionType({pointer, i64, i64, pointer, pointer}, {}));
  mlir::Block* entry = wrapper.addEntryBlock();
  b.setInsertionPointToStart(entry);
  llvm::SmallVector<Value> arguments{entry->getArgument(1), entry->getArgument(2)};
  auto offset = [&](Value base, mlir::Type element, int64_t count) -> Value {
    Value index = LLVM::ConstantOp::create(b, loc, i64, count);
    return LLVM::GEPOp::create(b, loc, pointer, element, base, llvm::ArrayRef<LLVM::GEPArg>{index},
                               LLVM::GEPNoWrapFlags::inbounds);
  };
  for (Value root : body.roots()) {
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(root)) {
      arguments.push_back(
          LLVM::LoadOp::create(b, loc, pointer, offset(entry->getArgument(0), pointer, argument.getArgNumber()), 8));
    } else if (auto global = root.getDefiningOp<mlir::memref::GetGlobalOp>()) {
      Value memref = b.clone(*global)->getResult(0);
      Value index = mlir::memref::ExtractAlignedPointerAsIndexOp::create(b, loc, memref);
      Value address = arith::IndexCastOp::create(b, loc, i64, index);
      arguments.push_back(LLVM::IntToPtrOp::create(b, loc, pointer, address));
    } else if (const int64_t* place = scratchPlace(phase, root)) {
      arguments.push_back(offset(entry->getArgument(4), b.getI8Type(), *place));
    } else {
      auto* found = llvm::find_if(list.temporaries, [&](const auto& entry) { return entry.first == root; });
      arguments.push_back(offset(entry->getArgument(3), b.getI8Type(), found->second));
    }
  }
  mlir::func::CallOp::create(b, loc, body.func(), arguments);
  mlir::func::ReturnOp::create(b, loc);
}

}  // namespace

absl::Status emitPhases(mlir::func::FuncOp func, const PhaseList& list, const std::string& symbol, const Chip& chip,
                        mlir::ModuleOp module, v1::KernelInfo& info) {
  // Constants that bufferization has moved to the module.
  for (auto global : llvm::cast<mlir::ModuleOp>(func->getParentOp()).getOps<mlir::memref::GlobalOp>())
    module.getBody()->push_back(global->clone());
  for (size_t p = 0; p < list.phases.size(); ++p) {
    const Phase& phase = list.phases[p];
    const std::string name = absl::StrCat(symbol, "_p", p);
    PhaseFunction body(module, absl::StrCat(name, "_body"));
    EmitContext context{
        [&](Value root) { return body.pointer(root); }, [&](Value value) { return body.outer(value); }, &chip, {}};
    OpBuilder& b = body.builder();
    auto* described = info.add_phases();
    described->set_symbol(name);
    int64_t grid = 0;
    bool scalar = !phase.loops.empty();
    for (size_t n = 0; n < phase.nests.size(); ++n) {
      const int64_t points = gridOf(phase.nests[n], phase.plans[n]);
      grid = phase.concurrent ? grid + points : std::max(grid, points);
    }
    int64_t before = 0;  // grid points of the preceding nests
    for (size_t n = 0; n < phase.nests.size(); ++n) {
      const TilePlan& plan = phase.plans[n];
      const int64_t points = gridOf(phase.nests[n], plan);
      // A part of [0, grid) selects the same share of every nest, so that equal parts are equal work, however much each
      // nest does. With concurrent it selects the overlap with the nest's own range instead.
      auto part = [&](Value bound) -> Value {
        if (points == grid) return bound;
        const mlir::Location loc = b.getUnknownLoc();
        auto constant = [&](int64_t value) -> Value { return arith::ConstantIntOp::create(b, loc, value, 64); };
        if (phase.concurrent) {
          Value own = arith::SubIOp::create(b, loc, bound, constant(before));
          own = arith::MaxSIOp::create(b, loc, own, constant(0));
          return arith::MinSIOp::create(b, loc, own, constant(points));
        }
        Value product = arith::MulIOp::create(b, loc, bound, constant(points));
        return arith::DivUIOp::create(b, loc, product, constant(grid));
      };
      Value lo = part(body.lo());
      emitNest(b, phase.nests[n], plan, context, lo, part(body.hi()));
      before += points;
      scalar |= plan.lanes == 1;
      if (described->strategy().empty() || (plan.lanes > 1 && isContraction(phase.nests[n])))
        described->set_strategy(std::string(plan.kernel->report(phase.nests[n])));
    }
    // Phases follow each other, so they share the thread's scratch.
    info.set_scratch_bytes(std::max(info.scratch_bytes(), phase.scratch_bytes));
    if (phase.region) {
      emitRegion(b, *phase.region, context, body.lo(), body.hi());
      grid = phase.region->points();
      described->set_strategy(phase.region->description);
      info.set_scratch_bytes(std::max(info.scratch_bytes(), phase.region->scratch_bytes));
    }
    if (!phase.loops.empty()) {
      body.cloneOperations(phase.loops);
      grid = 1;
      described->set_strategy("scalar-loops");
    }
    if (!phase.cut.empty() && !scalar) described->set_strategy(absl::StrCat(described->strategy(), ", ", phase.cut));
    described->set_grid(grid);
    describeWalks(phase, list, *described);
    // For an elementwise step the caller may pass one buffer to read and to write; all other phases rely on separate
    // buffers.
    body.finish(phase.loops.empty() && !phase.region &&
                    llvm::none_of(phase.nests, [](const Nest& nest) { return nest.hasReduction(); }),
                phase);
    if (scalar) body.func()->setAttr("passthrough", b.getArrayAttr({b.getStringAttr(kScalarLoops)}));
    emitWrapper(module, name, body, list, phase);
    if (info.strategy().empty()) {
      info.set_strategy(described->strategy());
    } else if (info.strategy() != described->strategy()) {
      info.set_strategy("multi");
    }
  }
  info.set_workspace_bytes(list.workspace_bytes);
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
