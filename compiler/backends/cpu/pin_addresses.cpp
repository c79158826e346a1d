#include "compiler/backends/cpu/pin_addresses.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace tessera::compiler::codegen {
namespace {

using llvm::GetElementPtrInst;
using llvm::LoadInst;

/// The number of reads from which a register and an addition pay.
constexpr int kManyReads = 8;

/// Whether the loaded value is an operand of one instruction, directly or broadcast to a vector, and so needs no
/// register.
bool isOperandOfOne(const LoadInst& load) {
  const llvm::Value* value = &load;
  while (value->hasOneUse()) {
    const auto* user = llvm::cast<llvm::Instruction>(*value->user_begin());
    if (!llvm::isa<llvm::InsertElementInst, llvm::ShuffleVectorInst>(user))
      return user->getParent() == load.getParent() && !llvm::isa<llvm::StoreInst, llvm::PHINode>(user);
    value = user;
  }
  return false;
}

/// The number of such reads at constant distances from `address`, including distance 0.
int readsAt(const llvm::Value& address) {
  int count = 0;
  for (const llvm::User* user : address.users()) {
    if (const auto* load = llvm::dyn_cast<LoadInst>(user)) count += isOperandOfOne(*load);
    const auto* beside = llvm::dyn_cast<GetElementPtrInst>(user);
    if (beside && beside->getPointerOperand() == &address && beside->hasAllConstantIndices()) count += readsAt(*beside);
  }
  return count;
}

/// Pins `address` in a register: an empty asm hides from later passes how it was computed.
void hold(GetElementPtrInst& address) {
  llvm::IRBuilder<> builder(address.getNextNode());
  auto* type = llvm::FunctionType::get(address.getType(), {address.getType()}, /*isVarArg=*/false);
  llvm::CallInst* held =
      builder.CreateCall(type, llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false), {&address});
  held->setDoesNotAccessMemory();
  held->setDoesNotThrow();
  address.replaceUsesWithIf(held, [&](const llvm::Use& use) { return use.getUser() != held; });
}

}  // namespace

void pinAddresses(llvm::Function& function) {
  for (llvm::Instruction& each : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* address = llvm::dyn_cast<GetElementPtrInst>(&each);
    if (address && !address->hasAllConstantIndices() && readsAt(*address) >= kManyReads) hold(*address);
  }
}

}  // namespace tessera::compiler::codegen
