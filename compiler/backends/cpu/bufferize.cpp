#include "compiler/backends/cpu/bufferize.h"

#include "compiler/backends/cpu/diagnostics.h"
#include "compiler/ir/canonicalizer.h"
#include "compiler/ir/workload.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/IR/TensorInferTypeOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler::codegen {
namespace {

namespace bufferization = mlir::bufferization;
namespace linalg = mlir::linalg;
namespace tensor = mlir::tensor;

/// Converts named operations to generics. Fills stay, since the phases recognize initial values by them.
mlir::LogicalResult generalize(mlir::func::FuncOp func) {
  mlir::IRRewriter rewriter(func.getContext());
  llvm::SmallVector<linalg::LinalgOp> named;
  func.walk([&](linalg::LinalgOp op) {
    if (!llvm::isa<linalg::GenericOp, linalg::FillOp>(op.getOperation())) named.push_back(op);
  });
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    if (mlir::failed(linalg::generalizeNamedOp(rewriter, op)))
      return op.emitError("cannot be written as linalg.generic");
  }
  return mlir::success();
}

mlir::LogicalResult decompose(mlir::func::FuncOp func) {
  mlir::IRRewriter rewriter(func.getContext());
  llvm::SmallVector<mlir::Operation*> work;
  func.walk([&](mlir::Operation* op) {
    // Collected first: lowering replaces operations while the function is walked.
    if (llvm::isa<linalg::PackOp, linalg::UnPackOp>(op) || llvm::isa<linalg::AggregatedOpInterface>(op))
      work.push_back(op);
  });
  for (mlir::Operation* op : work) {
    rewriter.setInsertionPoint(op);
    if (auto pack = llvm::dyn_cast<linalg::PackOp>(op)) {
      if (mlir::failed(linalg::lowerPack(rewriter, pack, /*lowerPadLikeWithInsertSlice=*/false)))
        return op->emitError("cannot be lowered to pad, expand and transpose");
    } else if (auto unpack = llvm::dyn_cast<linalg::UnPackOp>(op)) {
      if (mlir::failed(linalg::lowerUnPack(rewriter, unpack, /*lowerUnpadLikeWithExtractSlice=*/false)))
        return op->emitError("cannot be lowered to transpose, collapse and extract");
    } else if (auto whole = llvm::dyn_cast<linalg::AggregatedOpInterface>(op)) {
      auto parts = whole.decomposeOperation(rewriter);
      if (mlir::failed(parts)) return op->emitError("cannot be decomposed");
      rewriter.replaceOp(op, *parts);
    }
  }
  mlir::RewritePatternSet patterns(func.getContext());
  tensor::populateDecomposeTensorConcatPatterns(patterns);
  linalg::populateInlineConstantOperandsPatterns(patterns);
  patterns.add<linalg::DecomposePadOpPattern>(func.getContext());
  return mlir::applyPatternsGreedily(func, std::move(patterns));
}

/// A producer can write into the interior of a padded result only if the fill precedes it. Fills of constants depend on
/// nothing, so they move to the front. Every user of an empty tensor, and every operation that starts from a filled
/// one, gets its own copy: if two shared a tensor, bufferization would have to copy one of them.
void hoistFills(mlir::func::FuncOp func) {
  mlir::Block& entry = func.getBody().front();
  for (linalg::FillOp fill : llvm::make_early_inc_range(entry.getOps<linalg::FillOp>()))
    for (mlir::OpOperand& use : llvm::make_early_inc_range(fill->getUses())) {
      auto reader = llvm::dyn_cast<linalg::LinalgOp>(use.getOwner());
      if (fill->hasOneUse() || !reader || !reader.isDpsInit(&use)) continue;
      mlir::OpBuilder builder(fill);
      use.set(builder.clone(*fill)->getResult(0));
    }
  llvm::SmallVector<tensor::EmptyOp> empties;
  entry.walk([&](tensor::EmptyOp op) { empties.push_back(op); });
  for (tensor::EmptyOp empty : empties)
    for (mlir::OpOperand& use : llvm::make_early_inc_range(empty->getUses())) {
      if (empty->hasOneUse()) break;
      mlir::OpBuilder builder(use.getOwner());
      use.set(builder.clone(*empty)->getResult(0));
    }
  llvm::SmallVector<linalg::FillOp> fills(entry.getOps<linalg::FillOp>());
  mlir::Operation* last = nullptr;
  auto hoist = [&](mlir::Operation* op) {
    if (last) {
      op->moveAfter(last);
    } else {
      op->moveBefore(&entry, entry.begin());
    }
    last = op;
  };
  for (linalg::FillOp fill : fills) {
    auto* value = fill.getInputs()[0].getDefiningOp();
    auto empty = fill.getOutputs()[0].getDefiningOp<tensor::EmptyOp>();
    if (!value || !value->hasTrait<mlir::OpTrait::ConstantLike>() || !empty || !empty.getDynamicSizes().empty())
      continue;
    if (value->getBlock() == &entry) {
      mlir::OpBuilder builder(fill);
      fill.getInputsMutable()[0].set(builder.clone(*value)->getResult(0));
      value = fill.getInputs()[0].getDefiningOp();
    }
    hoist(value);
    hoist(empty);
    hoist(fill);
  }
}

/// The insertions that build `result`, which the workload returns, first to last; empty if any other operation reads an
/// intermediate value.
llvm::SmallVector<tensor::InsertSliceOp> insertionsOf(mlir::Value result) {
  llvm::SmallVector<tensor::InsertSliceOp> chain;
  while (auto insert = result.getDefiningOp<tensor::InsertSliceOp>()) {
    // Only static slices become subviews of the result.
    const bool known = insert.getOffsets().empty() && insert.getSizes().empty() && insert.getStrides().empty();
    if (!insert->hasOneUse() || !known || insert.getSourceType().getRank() != insert.getType().getRank()) return {};
    chain.push_back(insert);
    result = insert.getDest();
  }
  if (!result.getDefiningOp<tensor::EmptyOp>()) return {};
  return {chain.rbegin(), chain.rend()};
}

/// A concatenation of more parts than this is written part by part, because bufferization compares every insertion with
/// every other one along all operations between them (minutes from 160 parts).
constexpr size_t kMaxInsertions = 16;

/// Converts tensor arguments to memref arguments, and each result to an additional argument in which its value is
/// materialized. The attribute that says which argument a result may overwrite moves to that argument.
void passByMemory(mlir::func::FuncOp func) {
  mlir::OpBuilder builder(func.getContext());
  mlir::Block& entry = func.getBody().front();
  const mlir::Location loc = func.getLoc();
  auto memrefOf = [](mlir::Type type) {
    auto tensor = llvm::cast<mlir::RankedTensorType>(type);
    return mlir::MemRefType::get(tensor.getShape(), tensor.getElementType());
  };
  llvm::SmallVector<mlir::Type> inputs;
  builder.setInsertionPointToStart(&entry);
  for (mlir::BlockArgument argument : entry.getArguments()) {
    if (auto type = llvm::dyn_cast<mlir::RankedTensorType>(argument.getType())) {
      argument.setType(memrefOf(type));
      auto tensor = bufferization::ToTensorOp::create(builder, loc, type, argument, /*restrict=*/true);
      argument.replaceAllUsesExcept(tensor.getResult(), tensor);
    }
    inputs.push_back(argument.getType());
  }
  auto ret = llvm::cast<mlir::func::ReturnOp>(entry.getTerminator());
  builder.setInsertionPoint(ret);
  auto write = [&](mlir::Value value, mlir::Value target) {
    bufferization::MaterializeInDestinationOp::create(builder, loc, mlir::Type(), value, target, /*restrict=*/true,
                                                      /*writable=*/true);
  };
  llvm::SmallVector<tensor::InsertSliceOp> replaced;
  for (mlir::Value result : ret.getOperands()) {
    inputs.push_back(memrefOf(result.getType()));
    mlir::Value target = entry.addArgument(inputs.back(), loc);
    const llvm::SmallVector<tensor::InsertSliceOp> parts = insertionsOf(result);
    if (parts.size() <= kMaxInsertions) {
      write(result, target);
      continue;
    }
    for (tensor::InsertSliceOp part : parts)
      write(part.getSource(), mlir::memref::SubViewOp::create(builder, loc, target, part.getStaticOffsets(),
                                                              part.getStaticSizes(), part.getStaticStrides()));
    replaced.append(parts.rbegin(), parts.rend());
  }
  ret->setOperands({});
  for (tensor::InsertSliceOp part : replaced) part->erase();
  llvm::SmallVector<mlir::Attribute> over;
  for (unsigned result = 0; result < func.getNumResults(); ++result)
    over.push_back(func.getResultAttr(result, kMayAlias));
  func.setFunctionType(builder.getFunctionType(inputs, {}));
  // Attributes of tensors do not apply to buffers.
  func.setAllArgAttrs(mlir::ArrayAttr());
  func.setAllResultAttrs(mlir::ArrayAttr());
  for (auto [result, argument] : llvm::enumerate(over))
    if (argument)
      func.setArgAttr(func.getNumArguments() - over.size() + static_cast<unsigned>(result), kMayAlias, argument);
}

}  // namespace

void registerCodegenDialects(mlir::DialectRegistry& registry) {
  registry.insert<mlir::affine::AffineDialect, mlir::arith::ArithDialect, bufferization::BufferizationDialect,
                  mlir::cf::ControlFlowDialect, mlir::func::FuncDialect, linalg::LinalgDialect, mlir::LLVM::LLVMDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect, tensor::TensorDialect,
                  mlir::ub::UBDialect, mlir::vector::VectorDialect>();
  mlir::arith::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerSubsetOpInterfaceExternalModels(registry);
  mlir::scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerSubsetOpInterfaceExternalModels(registry);
  tensor::registerInferTypeOpInterfaceExternalModels(registry);
}

absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> parseWorkload(mlir::MLIRContext& context, const std::string& ir) {
  Diagnostics diagnostics(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(ir, mlir::ParserConfig(&context));
  if (!module) return diagnostics.failure("the workload's IR does not parse");
  auto functions = llvm::to_vector(module->getOps<mlir::func::FuncOp>());
  if (functions.size() != 1 || functions[0].isExternal() || !functions[0].getBody().hasOneBlock())
    return diagnostics.failure("a workload is one func.func with one block; found " + std::to_string(functions.size()) +
                               " functions");
  auto isStatic = [](mlir::Type type) {
    auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  };
  const mlir::FunctionType type = functions[0].getFunctionType();
  if (!llvm::all_of(type.getInputs(), isStatic) || !llvm::all_of(type.getResults(), isStatic))
    return diagnostics.failure("every argument and result of a workload is a tensor of static shape");
  return module;
}

CleanupPasses::CleanupPasses(mlir::MLIRContext& context)
    : PassManager(&context, mlir::func::FuncOp::getOperationName()) {
  enableVerifier(false);
  addPass(createCanonicalizer());
  addPass(mlir::createCSEPass());
}

absl::Status normalizeTensors(mlir::func::FuncOp func, CleanupPasses& clean_up) {
  Diagnostics diagnostics(*func.getContext());
  if (mlir::failed(decompose(func)) || mlir::failed(generalize(func)) || mlir::failed(clean_up.run(func)))
    return diagnostics.failure("the workload's tensor operations could not be normalized");
  hoistFills(func);
  return absl::OkStatus();
}

absl::Status normalizeTensors(mlir::func::FuncOp func) {
  CleanupPasses clean_up(*func.getContext());
  return normalizeTensors(func, clean_up);
}

absl::Status bufferizeWorkload(mlir::func::FuncOp func, CleanupPasses& clean_up) {
  Diagnostics diagnostics(*func.getContext());
  passByMemory(func);
  mlir::IRRewriter rewriter(func.getContext());
  // Lets producers write into the slice of the result where their value ends up.
  if (mlir::failed(bufferization::eliminateEmptyTensors(rewriter, func)))
    return diagnostics.failure("empty tensors could not be eliminated");
  bufferization::OneShotBufferizationOptions options;
  options.bufferAlignment = 64;
  bufferization::BufferizationState state;
  if (mlir::failed(bufferization::runOneShotBufferize(func, options, state)))
    return diagnostics.failure("the workload could not be bufferized");
  // Copies of a buffer to itself are removed first. Every other copy becomes a loop nest, and the linalg.map operations
  // that bufferization added become generics.
  if (mlir::failed(clean_up.run(func))) return diagnostics.failure("the bufferized workload could not be cleaned up");
  llvm::SmallVector<mlir::memref::CopyOp> copies;
  func.walk([&](mlir::memref::CopyOp op) { copies.push_back(op); });
  for (mlir::memref::CopyOp copy : copies) {
    mlir::OpBuilder builder(copy);
    linalg::makeMemRefCopyOp(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
  if (mlir::failed(generalize(func)) || mlir::failed(clean_up.run(func)))
    return diagnostics.failure("the bufferized workload could not be cleaned up");
  return absl::OkStatus();
}

absl::Status bufferizeWorkload(mlir::func::FuncOp func) {
  CleanupPasses clean_up(*func.getContext());
  return bufferizeWorkload(func, clean_up);
}

}  // namespace tessera::compiler::codegen
