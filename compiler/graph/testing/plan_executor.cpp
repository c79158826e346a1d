#include "compiler/graph/testing/plan_executor.h"

#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "compiler/ir/canonicalizer.h"
#include "llvm/Support/TargetSelect.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Transforms/Passes.h"
#include "proto/element_size.h"

namespace tessera::compiler {
namespace {

/// A strided memref descriptor of any rank, as MLIR's C interface lays it out.
struct Descriptor {
  std::vector<int64_t> words;
  Descriptor(void* data, llvm::ArrayRef<int64_t> shape) {
    words = {reinterpret_cast<int64_t>(data), reinterpret_cast<int64_t>(data), 0};
    words.insert(words.end(), shape.begin(), shape.end());
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    words.insert(words.end(), strides.begin(), strides.end());
  }
};

/// One function compiled by MLIR's default lowering; results are passed as trailing arguments.
class JitFunction {
 public:
  static absl::StatusOr<JitFunction> compile(const std::string& text, const std::string& name);
  absl::Status call(const std::vector<void*>& data);

 private:
  std::shared_ptr<mlir::MLIRContext> context_;
  std::unique_ptr<mlir::ExecutionEngine> engine_;
  std::vector<std::vector<int64_t>> shapes_;
  std::string name_;
};

/// A strided memref.copy would call a runtime library; as a linalg operation it becomes loops.
void loopsForCopies(mlir::ModuleOp module) {
  llvm::SmallVector<mlir::memref::CopyOp> copies;
  module.walk([&](mlir::memref::CopyOp copy) { copies.push_back(copy); });
  for (mlir::memref::CopyOp copy : copies) {
    mlir::OpBuilder builder(copy);
    mlir::linalg::CopyOp::create(builder, copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
}

absl::StatusOr<JitFunction> JitFunction::compile(const std::string& text, const std::string& name) {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  mlir::registerAllToLLVMIRTranslations(registry);
  JitFunction result;
  result.name_ = name;
  result.context_ = std::make_shared<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, result.context_.get());
  if (!module) return absl::InternalError("unparsable: " + text);
  auto function = module->lookupSymbol<mlir::func::FuncOp>(name);
  if (!function) return absl::InternalError("no function @" + name + " in: " + text);
  function->setAttr("llvm.emit_c_interface", mlir::UnitAttr::get(result.context_.get()));
  for (mlir::Type type : llvm::concat<const mlir::Type>(function.getArgumentTypes(), function.getResultTypes())) {
    result.shapes_.push_back(mlir::cast<mlir::RankedTensorType>(type).getShape().vec());
  }

  mlir::PassManager passes(result.context_.get());
  mlir::bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.functionBoundaryTypeConversion = mlir::bufferization::LayoutMapOption::IdentityLayoutMap;
  passes.addPass(createCanonicalizer());
  passes.addPass(mlir::bufferization::createEmptyTensorEliminationPass());
  passes.addPass(mlir::bufferization::createOneShotBufferizePass(bufferize));
  mlir::bufferization::BufferResultsToOutParamsPassOptions out_params;
  out_params.modifyPublicFunctions = true;
  passes.addPass(mlir::bufferization::createBufferResultsToOutParamsPass(out_params));
  if (mlir::failed(passes.run(*module))) return absl::InternalError("bufferization failed of: " + text);
  loopsForCopies(*module);
  passes.clear();
  passes.addPass(mlir::createConvertLinalgToLoopsPass());
  passes.addPass(mlir::memref::createExpandStridedMetadataPass());
  passes.addPass(mlir::createLowerAffinePass());
  passes.addPass(mlir::createSCFToControlFlowPass());
  passes.addPass(mlir::memref::createExpandOpsPass());
  passes.addPass(mlir::createConvertMathToLibmPass());
  passes.addPass(mlir::createConvertToLLVMPass());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
  if (mlir::failed(passes.run(*module))) return absl::InternalError("default lowering failed of: " + text);

  mlir::ExecutionEngineOptions options;
  auto optimize = mlir::makeOptimizingTransformer(2, 0, nullptr);
  options.transformer = optimize;
  options.jitCodeGenOptLevel = llvm::CodeGenOptLevel::Default;
  auto engine = mlir::ExecutionEngine::create(*module, options);
  if (!engine) return absl::InternalError("JIT failed: " + llvm::toString(engine.takeError()));
  result.engine_ = std::move(*engine);
  return result;
}

absl::Status JitFunction::call(const std::vector<void*>& data) {
  if (data.size() != shapes_.size()) {
    return absl::InternalError(absl::StrCat(data.size(), " operands for ", shapes_.size(), " tensors"));
  }
  std::vector<Descriptor> descriptors;
  descriptors.reserve(data.size());
  for (size_t i = 0; i < data.size(); ++i) descriptors.emplace_back(data[i], shapes_[i]);
  std::vector<void*> pointers(data.size());
  std::vector<void*> packed;
  for (size_t i = 0; i < data.size(); ++i) {
    pointers[i] = descriptors[i].words.data();
    packed.push_back(static_cast<void*>(&pointers[i]));
  }
  if (llvm::Error error = engine_->invokePacked("_mlir_ciface_" + name_, packed)) {
    return absl::InternalError("call failed: " + llvm::toString(std::move(error)));
  }
  return absl::OkStatus();
}

using AlignedBytes = std::unique_ptr<char, decltype(&std::free)>;

AlignedBytes alignedBytes(int64_t size, int fill) {
  const int64_t rounded = (size + 4096) / 64 * 64;
  AlignedBytes bytes(static_cast<char*>(std::aligned_alloc(64, rounded)), &std::free);
  std::memset(bytes.get(), fill, rounded);
  return bytes;
}

}  // namespace

int64_t sizeInBytes(const v1::TensorSpec& spec) {
  int64_t size = elementBytes(spec.dtype());
  for (int64_t extent : spec.shape()) size *= extent;
  return size;
}

std::string randomBytes(const v1::TensorSpec& spec, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(sizeInBytes(spec), '\0');
  const int64_t width = elementBytes(spec.dtype());
  const int64_t count = static_cast<int64_t>(bytes.size()) / width;
  for (int64_t i = 0; i < count; ++i) {
    const double unit = static_cast<double>(random() >> 11) / static_cast<double>(1ULL << 53);
    const auto real = static_cast<float>(2 * unit - 1);
    const double wide = 2 * unit - 1;
    int64_t integer = static_cast<int64_t>(unit * (spec.dtype() == v1::DATA_TYPE_BOOL ? 2 : 4));
    if (spec.dtype() == v1::DATA_TYPE_F32) {
      std::memcpy(bytes.data() + i * 4, &real, 4);
    } else if (spec.dtype() == v1::DATA_TYPE_F64) {
      std::memcpy(bytes.data() + i * 8, &wide, 8);
    } else {
      std::memcpy(bytes.data() + i * width, &integer, width);  // little-endian
    }
  }
  return bytes;
}

absl::StatusOr<TensorBytes> runModel(const ImportedModel& model, const TensorBytes& inputs) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  mlir::ModuleOp(*model.module)->print(stream);
  absl::StatusOr<JitFunction> jit = JitFunction::compile(text, "main");
  if (!jit.ok()) return jit.status();

  auto main = mlir::ModuleOp(*model.module).lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<void*> operands;
  size_t input = 0;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto weight = main.getArgAttrOfType<mlir::IntegerAttr>(i, "tessera.weight");
    std::string_view bytes = weight ? model.weights[weight.getInt()].bytes : std::string_view(inputs[input++]);
    operands.push_back(const_cast<char*>(bytes.data()));
  }
  TensorBytes outputs;
  for (const v1::TensorSpec& spec : model.outputs) outputs.emplace_back(sizeInBytes(spec), '\0');
  for (std::string& output : outputs) operands.push_back(output.data());
  std::vector<int64_t> extents(model.extents.size());
  for (int64_t& extent : extents) operands.push_back(&extent);
  if (absl::Status status = jit->call(operands); !status.ok()) return status;
  return outputs;
}

absl::StatusOr<TensorBytes> runPlan(const PlannedGraph& planned, const TensorBytes& inputs) {
  const v1::Plan& plan = planned.plan;
  AlignedBytes arena = alignedBytes(plan.arena_bytes(), 0xff);  // NaN in every floating-point type
  AlignedBytes weights = alignedBytes(plan.weights_bytes(), 0xff);
  for (const PlannedGraph::PlacedWeight& placed : planned.weights) {
    if (placed.offset % 64 != 0) return absl::InternalError("a weight is not aligned to 64 bytes");
    std::memcpy(weights.get() + placed.offset, placed.weight.bytes.data(), placed.weight.bytes.size());
  }
  TensorBytes outputs;
  for (const v1::TensorSpec& spec : plan.outputs()) outputs.emplace_back(sizeInBytes(spec), '\xff');
  auto pointerTo = [&](const v1::Buffer& buffer) -> void* {
    switch (buffer.kind()) {
      case v1::Buffer::INPUT:
        return const_cast<char*>(inputs[buffer.index()].data());
      case v1::Buffer::OUTPUT:
        return outputs[buffer.index()].data();
      case v1::Buffer::WEIGHT:
        return weights.get() + buffer.offset();
      default:
        return arena.get() + buffer.offset();
    }
  };
  std::vector<JitFunction> functions;
  for (const v1::Workload& workload : plan.workloads()) {
    absl::StatusOr<JitFunction> jit = JitFunction::compile(workload.ir(), "w");
    if (!jit.ok()) return jit.status();
    functions.push_back(std::move(*jit));
  }
  for (const v1::Step& step : plan.steps()) {
    std::vector<void*> operands;
    for (int operand : step.operands()) {
      const v1::Buffer& buffer = plan.buffers(operand);
      const int64_t limit = buffer.kind() == v1::Buffer::ARENA ? plan.arena_bytes() : plan.weights_bytes();
      const bool bounded = buffer.kind() == v1::Buffer::ARENA || buffer.kind() == v1::Buffer::WEIGHT;
      if (bounded && (buffer.offset() % 64 != 0 || buffer.offset() + buffer.size_bytes() > limit)) {
        return absl::InternalError("buffer out of its section: " + buffer.DebugString());
      }
      operands.push_back(pointerTo(buffer));
    }
    if (absl::Status status = functions[step.workload()].call(operands); !status.ok()) return status;
  }
  return outputs;
}

}  // namespace tessera::compiler
