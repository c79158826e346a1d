#include "compiler/codegen/native.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/emit/phase_emitter.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "proto/failure.h"

namespace tessera::compiler::codegen {
namespace {

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> targetMachineOf(const v1::CodeForm& code) {
  static const bool initialized = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    return true;
  }();
  (void)initialized;
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  const llvm::Triple triple(code.triple());
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    failure.set_message(absl::StrCat("code.triple \"", code.triple(), "\" is no target LLVM can emit: ", error));
    failure.set_attribute("code.triple");
    failure.set_found(code.triple());
    failure.set_accepted("an LLVM triple such as x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu");
    failure.set_fix("correct the target description");
    return failureStatus(failure);
  }
  std::vector<std::string> features;
  for (const std::string& feature : code.features())
    features.push_back(feature.starts_with("+") || feature.starts_with("-") ? feature : absl::StrCat("+", feature));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;  // a * b + c in one rounding, nothing else is relaxed
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, code.cpu(), absl::StrJoin(features, ","), options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine || (!code.cpu().empty() && !machine->getMCSubtargetInfo()->isCPUStringValid(code.cpu()))) {
    failure.set_message(
        absl::StrCat("code.cpu \"", code.cpu(), "\" is no ", triple.getArchName().str(), " cpu LLVM knows"));
    failure.set_attribute("code.cpu");
    failure.set_found(code.cpu());
    failure.set_accepted("an LLVM cpu name such as x86-64-v3, haswell or cascadelake");
    failure.set_fix("correct the target description");
    return failureStatus(failure);
  }
  return machine;
}

/// Marks functions for the chosen cpu; the optimizer must not turn loops into calls of memset and the like.
void setAttributes(llvm::Module& module, const v1::CodeForm& code, const llvm::TargetMachine& machine,
                   int vector_bits) {
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("target-features", machine.getTargetFeatureString());
    function.addFnAttr("prefer-vector-width", std::to_string(vector_bits));
    function.addFnAttr("no-builtins");
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (function.hasFnAttribute(kScalarLoops)) function.addFnAttr("no-trapping-math", "true");
  }
}

/// Vector code comes out of the emitter in its final form and needs cleaning only; plain loops get the
/// optimizer's own vectorizer.
void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::FunctionPassManager light, full;
  llvm::cantFail(
      builder.parsePassPipeline(light, "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg"));
  llvm::cantFail(builder.parsePassPipeline(
      full,
      "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),instcombine<no-"
      "verify-fixpoint>,"
      "loop(indvars),gvn,loop-vectorize,instcombine<no-verify-fixpoint>,simplifycfg,slp-vectorizer,loop-mssa(licm),"
      "loop-unroll<O2>,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg"));
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    (function.hasFnAttribute(kScalarLoops) ? full : light).run(function, functions);
    functions.clear(function, function.getName());
  }
}

/// The unit's dot products whose intrinsics LLVM has for this architecture.
std::vector<DotProduct> emittable(const v1::BuildUnit& unit, const llvm::Triple& triple) {
  const std::string prefix = "llvm." + llvm::Triple::getArchTypePrefix(triple.getArch()).str() + ".";
  std::vector<DotProduct> found = dotProducts(unit.intrinsics());
  std::erase_if(found, [&](const DotProduct& product) {
    return !product.emit.starts_with(prefix) ||
           llvm::Intrinsic::lookupIntrinsicID(product.emit) == llvm::Intrinsic::not_intrinsic;
  });
  return found;
}

}  // namespace

absl::StatusOr<Chip> chipOf(const v1::BuildUnit& unit) {
  auto machine = targetMachineOf(unit.code());
  if (!machine.ok()) return machine.status();
  const llvm::Triple& triple = (*machine)->getTargetTriple();
  v1::Target target;
  target.set_family(unit.family());
  *target.mutable_code() = unit.code();
  // What the cpu has that its name stands for.
  if (!triple.isX86() || (*machine)->getMCSubtargetInfo()->checkFeatures("+fma"))
    target.mutable_code()->add_features("fma");
  *target.mutable_registers() = unit.registers();
  *target.mutable_memory() = unit.memory();
  *target.mutable_units() = unit.units();
  *target.mutable_intrinsics() = unit.intrinsics();
  *target.mutable_prices() = unit.prices();
  return Chip(target, emittable(unit, triple));
}

absl::StatusOr<std::string> emitObject(mlir::ModuleOp module, const v1::CodeForm& code, int vector_bits) {
  auto machine = targetMachineOf(code);
  if (!machine.ok()) return machine.status();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> native = mlir::translateModuleToLLVMIR(module, context, "tessera");
  if (!native) return failureStatus(v1::Failure::INTERNAL, "the phases could not be translated to LLVM IR");
  native->setTargetTriple((*machine)->getTargetTriple());
  native->setDataLayout((*machine)->createDataLayout());
  setAttributes(*native, code, **machine, vector_bits);
  optimize(*native, **machine);

  llvm::SmallVector<char, 0> bytes;
  {
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    llvm::TargetLibraryInfoImpl library(native->getTargetTriple());
    library.disableAllFunctions();
    passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
    if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
      return failureStatus(v1::Failure::INTERNAL, absl::StrCat("LLVM cannot emit objects for ", code.triple()));
    passes.run(*native);
  }
  llvm::SmallVectorMemoryBuffer buffer(llvm::SmallVector<char, 0>(bytes), "object", false);
  auto object = llvm::object::ObjectFile::createObjectFile(buffer.getMemBufferRef());
  if (!object)
    return failureStatus(v1::Failure::INTERNAL,
                         "LLVM emitted an object it cannot read: " + llvm::toString(object.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*object)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) continue;
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty())
      return failureStatus(v1::Failure::INTERNAL,
                           absl::StrCat("the object needs the symbol \"", name->str(),
                                        "\", and objects must not need any library; lower the operation behind it"));
  }
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace tessera::compiler::codegen
