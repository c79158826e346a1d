#include "compiler/codegen/testing/loaded_unit.h"

#include <cstring>

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/SubtargetFeature.h"

namespace tessera::compiler::codegen::testing {
namespace {

void* aligned(std::vector<char>& bytes) {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
}

}  // namespace

struct LoadedUnit::Jit {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

LoadedUnit::LoadedUnit() = default;
LoadedUnit::~LoadedUnit() = default;

v1::BuildUnit hostUnit(const std::string& ir) {
  v1::BuildUnit unit;
  unit.set_workload_hash("test");
  unit.set_symbol("unit");
  unit.set_ir(ir);
  unit.mutable_code()->set_triple(llvm::sys::getDefaultTargetTriple());
  unit.mutable_code()->set_cpu(llvm::sys::getHostCPUName().str());
  const auto features = llvm::sys::getHostCPUFeatures();
  unit.mutable_registers()->set_vector_bits(128);
  unit.mutable_registers()->set_vector_count(16);
  if (features.lookup("avx2")) unit.mutable_registers()->set_vector_bits(256);
  if (features.lookup("avx512f")) {
    unit.mutable_registers()->set_vector_bits(512);
    unit.mutable_registers()->set_vector_count(32);
  }
  return unit;
}

absl::StatusOr<std::unique_ptr<LoadedUnit>> LoadedUnit::load(const v1::BuiltObject& built) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  std::unique_ptr<LoadedUnit> unit(new LoadedUnit);
  auto failed = [](llvm::Error error) { return absl::InternalError(llvm::toString(std::move(error))); };
  auto jit = llvm::orc::LLJITBuilder()
                 .setLinkProcessSymbolsByDefault(false)
                 .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                 .create();
  if (!jit) return failed(jit.takeError());
  unit->jit_ = std::make_unique<Jit>();
  unit->jit_->jit = std::move(*jit);
  if (auto error = unit->jit_->jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(built.object(), "unit")))
    return failed(std::move(error));
  for (const auto& phase : built.info().phases()) {
    auto address = unit->jit_->jit->lookup(phase.symbol());
    if (!address) return failed(address.takeError());
    unit->phases_.emplace_back(address->toPtr<tessera_kernel_fn>(), phase.grid());
  }
  unit->workspace_.resize(built.info().workspace_bytes() + 64);
  unit->scratch_.resize(built.info().scratch_bytes() + 64);
  return unit;
}

void LoadedUnit::poison() {
  std::memset(workspace_.data(), 0xff, workspace_.size());
  std::memset(scratch_.data(), 0xff, scratch_.size());
}

void LoadedUnit::run(const std::vector<void*>& operands, int pieces) {
  for (int phase = 0; phase < phases(); ++phase) runPhase(phase, operands, pieces);
}

void LoadedUnit::runPhase(int phase, const std::vector<void*>& operands, int pieces) {
  const auto [kernel, grid] = phases_[phase];
  for (int piece = pieces - 1; piece >= 0; --piece) {
    const int64_t lo = grid * piece / pieces, hi = grid * (piece + 1) / pieces;
    if (lo < hi) kernel(operands.data(), lo, hi, aligned(workspace_), aligned(scratch_));
  }
}

}  // namespace tessera::compiler::codegen::testing
