#include "compiler/backends/cpu/diagnostics.h"
#include "compiler/backends/cpu/emit/interleave.h"
#include "compiler/backends/cpu/math/math_expansion.h"
#include "compiler/backends/cpu/native.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler::codegen {
namespace {

namespace LLVM = mlir::LLVM;

/// Loads and stores of single bf16 as i16, as math_expansion does for vectors: on chips without bf16 moves, LLVM keeps
/// the loaded value as f32 and converts it back through a library function unless it is stored at once.
void moveBrainFloatsAsIntegers(mlir::ModuleOp module) {
  mlir::OpBuilder builder(module.getContext());
  const mlir::Type bits = builder.getI16Type();
  module.walk([&](mlir::Operation* op) {
    if (auto load = mlir::dyn_cast<LLVM::LoadOp>(op); load && load.getType().isBF16()) {
      const mlir::Type brain = load.getType();
      load.getResult().setType(bits);
      builder.setInsertionPointAfter(load);
      auto cast = LLVM::BitcastOp::create(builder, load.getLoc(), brain, load.getResult());
      load.getResult().replaceAllUsesExcept(cast, cast);
    } else if (auto store = mlir::dyn_cast<LLVM::StoreOp>(op); store && store.getValue().getType().isBF16()) {
      builder.setInsertionPoint(store);
      store.getValueMutable().assign(LLVM::BitcastOp::create(builder, store.getLoc(), bits, store.getValue()));
    }
  });
}

}  // namespace

absl::Status lowerToLlvm(mlir::ModuleOp module, bool fuses_multiply_add) {
  Diagnostics diagnostics(*module.getContext());
  mlir::PassManager passes(module.getContext());
  passes.enableVerifier(false);
  passes.addNestedPass<mlir::func::FuncOp>(mlir::createConvertLinalgToLoopsPass());
  passes.addPass(mlir::memref::createExpandStridedMetadataPass());
  passes.addPass(mlir::createLowerAffinePass());
  if (mlir::failed(passes.run(module)) || mlir::failed(expandMath(module, fuses_multiply_add)))
    return diagnostics.failure("the phases could not be brought to loops");
  interleavePoints(module);

  mlir::MLIRContext* context = module.getContext();
  mlir::LLVMTypeConverter types(context);
  mlir::RewritePatternSet patterns(context);
  mlir::populateSCFToControlFlowConversionPatterns(patterns);
  mlir::cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  mlir::arith::populateArithToLLVMConversionPatterns(types, patterns);
  mlir::populateMathToLLVMConversionPatterns(types, patterns);
  mlir::populateVectorToLLVMConversionPatterns(types, patterns);
  mlir::populateFinalizeMemRefToLLVMConversionPatterns(types, patterns);
  mlir::populateFuncToLLVMConversionPatterns(types, patterns);
  mlir::ub::populateUBToLLVMConversionPatterns(types, patterns);
  mlir::LLVMConversionTarget target(*context);
  target.addLegalOp<mlir::ModuleOp, mlir::UnrealizedConversionCastOp>();
  if (mlir::failed(mlir::applyPartialConversion(module, target, std::move(patterns))))
    return diagnostics.failure("the phases could not be lowered to LLVM");
  mlir::PassManager casts(context);
  casts.enableVerifier(false);
  casts.addPass(mlir::createReconcileUnrealizedCastsPass());
  if (mlir::failed(casts.run(module))) return diagnostics.failure("conversion casts are left");
  moveBrainFloatsAsIntegers(module);
  return absl::OkStatus();
}

}  // namespace tessera::compiler::codegen
