#include "compiler/codegen/held_addresses.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

namespace tessera::compiler::codegen {
namespace {

using llvm::GetElementPtrInst;
using llvm::LoadInst;

/// Reads from which a register and an addition are worth it.
constexpr int kManyReads = 8;

/// Whether what is loaded is an operand of one instruction, as it is or in all lanes of a vector: no register holds it.
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

/// Such reads at constant distances from `address`, itself included.
int readsAt(const llvm::Value& address) {
  int count = 0;
  for (const llvm::User* user : address.users()) {
    if (const auto* load = llvm::dyn_cast<LoadInst>(user)) count += isOperandOfOne(*load);
    const auto* beside = llvm::dyn_cast<GetElementPtrInst>(user);
    if (beside && beside->getPointerOperand() == &address && beside->hasAllConstantIndices()) count += readsAt(*beside);
  }
  return count;
}

/// `address` in a register: no pass sees how it was computed.
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

void holdAddresses(llvm::Function& function) {
  for (llvm::Instruction& each : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* address = llvm::dyn_cast<GetElementPtrInst>(&each);
    if (address && !address->hasAllConstantIndices() && readsAt(*address) >= kManyReads) hold(*address);
  }
}

}  // namespace tessera::compiler::codegen
