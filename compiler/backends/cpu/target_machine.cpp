#include "compiler/backends/cpu/target_machine.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/object_pool.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

/// Sets LLVM options for loops whose sums need all registers. First, loop invariants that LLVM has hoisted are sunk
/// back into such a loop; otherwise LLVM keeps the sums of a whole tile in memory from one iteration to the next, and
/// constants in registers. Second, integer additions keep their order: the machine combiner would add the terms of
/// several steps before adding them to the sum, which shortens no dependency chain of the tile and takes twice the
/// registers. These options are global to the process: a TargetMachine has none of its own.
void spareSums() {
  constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> kOptions[] = {{"sink-insts-to-avoid-spills", "true"},
                                                                              {"x86-machine-combiner", "false"}};
  for (const auto& [name, value] : kOptions) {
    const auto option = llvm::cl::getRegisteredOptions().find(name);
    if (option != llvm::cl::getRegisteredOptions().end()) option->second->addOccurrence(0, name, value);
  }
}

ObjectPool<llvm::TargetMachine>& spareMachines() {
  static auto* const machines = new ObjectPool<llvm::TargetMachine>(16);
  return *machines;
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> makeMachine(const v1::CodeForm& code) {
  static const bool initialized = [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();  // tile instructions are emitted as assembly
    spareSums();
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
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;  // a * b + c with one rounding; nothing else is relaxed
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

}  // namespace

void ReturnToPool::operator()(llvm::TargetMachine* machine) const {
  spareMachines().put(std::unique_ptr<llvm::TargetMachine>(machine), code);
}

absl::StatusOr<PooledTargetMachine> targetMachineOf(const v1::CodeForm& code) {
  // the message has lists only, no maps: equal forms serialize to equal bytes
  const std::string key = code.SerializeAsString();
  if (auto spare = spareMachines().take(key)) return PooledTargetMachine(spare.release(), {key});
  TESSERA_ASSIGN_OR_RETURN(auto made, makeMachine(code));
  return PooledTargetMachine(made.release(), {key});
}

absl::StatusOr<std::string> objectOf(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
  // A module of tables without code needs none of the code passes, whose setup takes longer than writing the tables.
  const bool has_code = llvm::any_of(module, [](const llvm::Function& each) { return !each.isDeclaration(); });
  const llvm::CodeGenOptLevel level = machine.getOptLevel();
  if (!has_code) machine.setOptLevel(llvm::CodeGenOptLevel::None);
  const absl::Cleanup restore = [&] { machine.setOptLevel(level); };
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return failureStatus(v1::Failure::INTERNAL,
                         absl::StrCat("LLVM cannot emit objects for ", module.getTargetTriple().str()));
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace tessera::compiler
