#include "compiler/import/testing/reference_run.h"

#include "absl/strings/str_cat.h"
#include "compiler/import/element_type.h"
#include "compiler/ir/canonicalizer.h"
#include "compiler/runtime/output_extents.h"
#include "llvm/Support/TargetSelect.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

namespace tessera::compiler {
namespace {

/// linalg.copy becomes loops; memref.copy of a strided view would need a runtime library.
mlir::LogicalResult copyByLoops(mlir::OpBuilder& b, mlir::Location loc, mlir::Value from, mlir::Value to) {
  mlir::linalg::CopyOp::create(b, loc, from, to);
  return mlir::success();
}

mlir::LogicalResult bufferize(mlir::ModuleOp module) {
  mlir::PassManager prepare(module.getContext());
  prepare.addPass(createCanonicalizer());
  prepare.addPass(mlir::createCSEPass());
  prepare.addPass(mlir::createConvertTensorToLinalgPass());
  if (mlir::failed(prepare.run(module))) return mlir::failure();

  mlir::bufferization::OneShotBufferizationOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.setFunctionBoundaryTypeConversion(mlir::bufferization::LayoutMapOption::IdentityLayoutMap);
  options.memCpyFn = copyByLoops;
  mlir::bufferization::BufferizationState state;
  if (mlir::failed(mlir::bufferization::runOneShotModuleBufferize(module, options, state))) return mlir::failure();
  mlir::bufferization::BufferResultsToOutParamsOpts out_params;
  out_params.modifyPublicFunctions = true;
  out_params.memCpyFn = copyByLoops;
  return mlir::bufferization::promoteBufferResultsToOutParams(module, out_params);
}

void addLoweringPasses(mlir::PassManager& pm) {
  pm.addPass(mlir::createConvertLinalgToLoopsPass());
  pm.addPass(mlir::memref::createExpandStridedMetadataPass());
  pm.addPass(mlir::createLowerAffinePass());
  pm.addPass(mlir::createSCFToControlFlowPass());
  mlir::arith::ArithExpandOpsPassOptions expand;
  expand.includeBf16 = true;
  pm.addPass(mlir::arith::createArithExpandOpsPass(expand));
  pm.addPass(mlir::createConvertMathToLibmPass());
  pm.addPass(mlir::createConvertMathToLLVMPass());
  pm.addPass(mlir::createConvertIndexToLLVMPass());
  pm.addPass(mlir::createArithToLLVMConversionPass());
  pm.addPass(mlir::createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(mlir::createConvertControlFlowToLLVMPass());
  mlir::ConvertFuncToLLVMPassOptions bare;
  bare.useBarePtrCallConv = true;
  pm.addPass(mlir::createConvertFuncToLLVMPass(bare));
  pm.addPass(mlir::createReconcileUnrealizedCastsPass());
}

size_t byteSize(const v1::TensorSpec& spec) {
  return elementCount(Shape(spec.shape().begin(), spec.shape().end())) * elementBytes(spec.dtype());
}

}  // namespace

void registerReferenceDialects(mlir::MLIRContext& context) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<mlir::bufferization::BufferizationDialect, mlir::memref::MemRefDialect, mlir::scf::SCFDialect,
                      mlir::LLVM::LLVMDialect>();
}

absl::StatusOr<std::vector<std::string>> referenceRun(ImportedModel model, const std::vector<std::string>& inputs,
                                                      std::vector<std::vector<int64_t>>* shapes) {
  // MLIR's bare-pointer convention does not convert tensors without elements; then there is nothing to run.
  int64_t elements = 0;
  for (const v1::TensorSpec& output : model.outputs) elements += static_cast<int64_t>(byteSize(output));
  if (elements == 0) {
    for (const v1::TensorSpec& output : model.outputs) {
      if (shapes) shapes->emplace_back(output.shape().begin(), output.shape().end());
    }
    return std::vector<std::string>(model.outputs.size());
  }
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(model.module->getContext(), [&](mlir::Diagnostic& diagnostic) {
    absl::StrAppend(&errors, diagnostic.str(), "; ");
    return mlir::success();
  });
  if (mlir::failed(bufferize(*model.module))) return absl::InternalError(absl::StrCat("bufferization: ", errors));
  mlir::PassManager pm(model.module->getContext());
  addLoweringPasses(pm);
  if (mlir::failed(pm.run(*model.module))) return absl::InternalError(absl::StrCat("lowering: ", errors));

  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  mlir::ExecutionEngineOptions options;
  options.jitCodeGenOptLevel = llvm::CodeGenOptLevel::None;
  auto engine = mlir::ExecutionEngine::create(*model.module, options);
  if (!engine) return absl::InternalError(absl::StrCat("JIT: ", llvm::toString(engine.takeError()), "; ", errors));

  // Bufferization may write into arguments, so every one is a copy.
  std::vector<std::string> buffers(inputs);
  for (size_t i = 0; i < model.inputs.size(); ++i) buffers[i].resize(byteSize(model.inputs[i]));
  for (const Weight& weight : model.weights) buffers.emplace_back(weight.bytes);
  for (const v1::TensorSpec& output : model.outputs) buffers.emplace_back(byteSize(output), '\xcd');
  std::vector<int64_t> extents(model.extents.size(), -1);
  std::vector<void*> pointers;
  for (std::string& buffer : buffers) pointers.push_back(buffer.data());
  for (int64_t& extent : extents) pointers.push_back(&extent);
  std::vector<void*> arguments;
  for (void*& pointer : pointers) arguments.push_back(static_cast<void*>(&pointer));
  if (llvm::Error error = (*engine)->invokePacked("main", arguments)) {
    return absl::InternalError(absl::StrCat("invoke: ", llvm::toString(std::move(error))));
  }
  std::vector<std::string> outputs(buffers.end() - static_cast<int64_t>(model.outputs.size()), buffers.end());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const v1::TensorSpec& spec = model.outputs[o];
    std::vector<int64_t> shape(spec.shape().begin(), spec.shape().end());
    for (size_t i = 0; i < extents.size(); ++i) {
      if (model.extents[i].output == static_cast<int>(o)) shape[model.extents[i].dimension] = extents[i];
    }
    packDense(outputs[o].data(), elementBytes(spec.dtype()), {spec.shape().data(), shape.size()}, shape);
    outputs[o].resize(elementCount(shape) * elementBytes(spec.dtype()));
    if (shapes) shapes->push_back(shape);
  }
  return outputs;
}

}  // namespace tessera::compiler
