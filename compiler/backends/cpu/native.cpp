#include "compiler/backends/cpu/native.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/backends/cpu/phase_emitter.h"
#include "compiler/backends/cpu/pin_addresses.h"
#include "compiler/backends/cpu/target_machine.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/instruction_sets.h"
#include "compiler/target/tile_product.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler::codegen {
namespace {

/// Marks functions for the chosen cpu. The optimizer must not turn loops into calls of memset and similar functions.
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

/// Vector code leaves the emitter in its final form and only needs cleaning; plain loops are vectorized by the
/// optimizer.
void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  // The object is loaded without any library, so the optimizer must not know one.
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
    if (machine.getTargetTriple().isX86()) pinAddresses(function);
    functions.clear(function, function.getName());
  }
}

/// The unit's instructions, without those whose intrinsics LLVM does not have for this architecture.
google::protobuf::RepeatedPtrField<v1::Intrinsic> emittable(const v1::BuildUnit& unit, const llvm::Triple& triple) {
  const std::string prefix = "llvm." + llvm::Triple::getArchTypePrefix(triple.getArch()).str() + ".";
  const auto known = [&](const std::string& emit) {
    return emit.starts_with(prefix) && llvm::Intrinsic::lookupIntrinsicID(emit) != llvm::Intrinsic::not_intrinsic;
  };
  google::protobuf::RepeatedPtrField<v1::Intrinsic> found;
  for (const v1::Intrinsic& each : unit.intrinsics()) {
    const bool moved = !isTileProduct(each) ||
                       llvm::all_of(each.transfers(), [&](const auto& transfer) { return known(transfer.emit()); });
    if (isMultiplyAdd(each) || (known(each.emit()) && moved)) *found.Add() = each;
  }
  return found;
}

std::string textOf(const llvm::Type& type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  type.print(stream);
  return text;
}

/// The type of the call that code makes of an instruction (instruction/dot_operands.h).
llvm::FunctionType* callTypeOf(const DotProduct& product, llvm::LLVMContext& context) {
  llvm::Type* element = product.floating ? llvm::Type::getBFloatTy(context)
                                         : llvm::Type::getIntNTy(context, static_cast<unsigned>(product.bits));
  llvm::Type* whole = product.floating ? llvm::Type::getFloatTy(context) : llvm::Type::getInt32Ty(context);
  llvm::Type* sum = llvm::FixedVectorType::get(whole, static_cast<unsigned>(product.lanes));
  llvm::Type* source = llvm::FixedVectorType::get(element, static_cast<unsigned>(product.lanes * product.group));
  llvm::SmallVector<llvm::Type*> operands;
  for (const int operand : product.operands) operands.push_back(operand == 0 ? sum : source);
  return llvm::FunctionType::get(sum, operands, false);
}

absl::Status instructionFault(const std::string& name, const std::string& problem, const std::string& found,
                              const std::string& accepted) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_TARGET);
  failure.set_message(absl::StrCat("instruction \"", name, "\" ", problem, ": ", found, "; accepted: ", accepted));
  failure.set_attribute("intrinsics");
  failure.set_found(found);
  failure.set_accepted(accepted);
  failure.set_fix("correct the target description");
  return failureStatus(failure);
}

/// A feature that the processor lacks for this intrinsic, by the instruction sets that have it; empty: it has all of
/// one set, or no set is known.
std::string lackingFeature(const std::string& emit, const llvm::MCSubtargetInfo& processor) {
  std::string lacking;
  for (const v1::InstructionSet& set : builtinInstructionSets()) {
    if (std::ranges::none_of(set.intrinsics(), [&](const auto& known) { return known.emit() == emit; })) continue;
    const auto absent = std::ranges::find_if(
        set.features(), [&](const std::string& feature) { return !processor.checkFeatures("+" + feature); });
    if (absent == set.features().end()) return "";
    lacking = *absent;
  }
  return lacking;
}

/// INVALID_TARGET for an instruction that LLVM cannot emit as described: its intrinsic has other operands, or belongs
/// to an instruction set of Tessera that the processor lacks. LLVM would end the process in the second case.
absl::Status checkInstructions(const google::protobuf::RepeatedPtrField<v1::Intrinsic>& intrinsics,
                               const v1::CodeForm& code, const llvm::MCSubtargetInfo& processor) {
  llvm::LLVMContext context;
  for (const DotProduct& each : dotProducts(intrinsics)) {
    const llvm::Intrinsic::ID id = llvm::Intrinsic::lookupIntrinsicID(each.emit);
    llvm::SmallVector<llvm::Type*> overloads;
    llvm::FunctionType* type = callTypeOf(each, context);
    // The suffixes of an overloaded intrinsic's name are its types.
    if (!llvm::Intrinsic::getIntrinsicSignature(id, type, overloads) ||
        llvm::Intrinsic::getNameNoUnnamedTypes(id, overloads) != each.emit)
      return instructionFault(each.name, absl::StrCat("does not have the operands of ", each.emit), textOf(*type),
                              "iterations, operands and emission.arguments that give the intrinsic's type");
    if (const std::string lacking = lackingFeature(each.emit, processor); !lacking.empty())
      return instructionFault(each.name, absl::StrCat("needs the feature ", lacking, ", which the processor lacks"),
                              code.cpu(), "a code.cpu or code.features with it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Chip> chipOf(const v1::BuildUnit& unit) {
  TESSERA_ASSIGN_OR_RETURN(auto machine, targetMachineOf(unit.code()));
  const llvm::Triple& triple = machine->getTargetTriple();
  v1::Target target;
  target.set_family(unit.family());
  *target.mutable_code() = unit.code();
  // A feature that the cpu's name implies.
  if (!triple.isX86() || machine->getMCSubtargetInfo()->checkFeatures("+fma"))
    target.mutable_code()->add_features("fma");
  *target.mutable_registers() = unit.registers();
  *target.mutable_memory() = unit.memory();
  *target.mutable_units() = unit.units();
  *target.mutable_intrinsics() = emittable(unit, triple);
  TESSERA_RETURN_IF_ERROR(checkInstructions(target.intrinsics(), unit.code(), *machine->getMCSubtargetInfo()));
  *target.mutable_cost_parameters() = unit.cost_parameters();
  return Chip(target, target.intrinsics());
}

absl::StatusOr<std::string> emitObject(mlir::ModuleOp module, const v1::CodeForm& code, int vector_bits) {
  TESSERA_ASSIGN_OR_RETURN(auto machine, targetMachineOf(code));
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> native = mlir::translateModuleToLLVMIR(module, context, "tessera");
  if (!native) return failureStatus(v1::Failure::INTERNAL, "the phases could not be translated to LLVM IR");
  native->setTargetTriple(machine->getTargetTriple());
  native->setDataLayout(machine->createDataLayout());
  setAttributes(*native, code, *machine, vector_bits);
  optimize(*native, *machine);

  TESSERA_ASSIGN_OR_RETURN(auto bytes, objectOf(*native, *machine));
  auto object = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "object"));
  if (!object)
    return failureStatus(v1::Failure::INTERNAL,
                         "LLVM emitted an object it cannot read: " + llvm::toString(object.takeError()));
  for (const llvm::object::SymbolRef& symbol : (*object)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name) continue;
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty())
      return failureStatus(
          v1::Failure::INTERNAL,
          absl::StrCat("the object needs the symbol \"", name->str(),
                       "\", and objects must not need any library; lower the operation that calls it"));
  }
  return bytes;
}

}  // namespace tessera::compiler::codegen
