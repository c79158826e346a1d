#include "compiler/backends/cpu/loaded_unit.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "compiler/runtime/faults.h"
#include "compiler/target/cpu_features.h"
#include "compiler/target/dot_product.h"
#include "compiler/target/host.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

namespace tessera::compiler::codegen {
namespace {

/// Allocates memory like the runtime's arena: with huge pages from two megabytes.
std::unique_ptr<char, void (*)(void*)> arena(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const size_t whole = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  auto* data = static_cast<char*>(std::aligned_alloc(alignment, whole));
  if (alignment == kHugePage) madvise(data, whole, MADV_HUGEPAGE);
  return {data, std::free};
}

}  // namespace

struct LoadedUnit::Jit {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

LoadedUnit::LoadedUnit() : workspace_(nullptr, std::free), scratch_(nullptr, std::free) {}
LoadedUnit::~LoadedUnit() = default;

v1::BuildUnit hostUnit(const std::string& ir) {
  v1::BuildUnit unit;
  unit.set_workload_hash("test");
  unit.set_symbol("unit");
  unit.set_ir(ir);
  unit.mutable_code()->set_triple(llvm::sys::getDefaultTargetTriple());
  unit.mutable_code()->set_cpu(llvm::sys::getHostCPUName().str());
  const auto has = [](std::string_view feature) { return hostFeature(feature) == FeatureState::kPresent; };
  unit.mutable_registers()->set_vector_bits(128);
  unit.mutable_registers()->set_vector_count(16);
  if (has("avx2")) unit.mutable_registers()->set_vector_bits(256);
  if (has("avx512f")) {
    unit.mutable_registers()->set_vector_bits(512);
    unit.mutable_registers()->set_vector_count(32);
  }
  // A virtual machine may report a model that LLVM takes for a chip without these instructions.
  if (const auto target = detectHostTarget(); target.ok()) {
    unit.mutable_code()->set_cpu(target->code().cpu());
    *unit.mutable_intrinsics() = usableInstructions(*target);
  }
  return unit;
}

absl::StatusOr<std::unique_ptr<LoadedUnit>> LoadedUnit::load(const v1::BuiltObject& built, const v1::CodeForm& needs) {
  for (const std::string& feature : needs.features())
    if (hostFeature(feature) == FeatureState::kDenied)
      return absl::FailedPreconditionError("the kernel does not give this process the registers of " + feature);
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  std::unique_ptr<LoadedUnit> unit(new LoadedUnit);
  auto failed = [](llvm::Error error) { return absl::InternalError(llvm::toString(std::move(error))); };
  auto jit = llvm::orc::LLJITBuilder()
                 // An object that calls outside of itself must fail to link here, as it does in an artifact.
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
    unit->phases_.push_back({address->toPtr<tessera_kernel_fn>(), phase.grid(), phase.symbol()});
  }
  unit->workspace_bytes_ = built.info().workspace_bytes();
  unit->scratch_bytes_ = built.info().scratch_bytes();
  unit->workspace_ = arena(unit->workspace_bytes_);
  unit->scratch_ = arena(unit->scratch_bytes_);
  unit->poison();
  return unit;
}

void LoadedUnit::poison() {
  // All ones is a NaN in every floating-point type.
  std::memset(workspace_.get(), 0xff, workspace_bytes_);
  std::memset(scratch_.get(), 0xff, scratch_bytes_);
}

void LoadedUnit::run(const std::vector<void*>& operands, int ranges) {
  for (int phase = 0; phase < phases(); ++phase) runPhase(phase, operands, ranges);
}

void LoadedUnit::runPhase(int phase, const std::vector<void*>& operands, int ranges) {
  const LoadedPhase& each = phases_[phase];
  // In reverse order: a grid point that depends on an earlier one gives a wrong result.
  for (int range = ranges - 1; range >= 0; --range) {
    const int64_t lo = each.grid * range / ranges, hi = each.grid * (range + 1) / ranges;
    if (lo < hi) each.kernel(operands.data(), lo, hi, workspace_.get(), scratch_.get());
  }
}

std::string LoadedUnit::runGuarded(const std::vector<GuardedMemory>& operands, int ranges, GuardedMemory::End end) {
  GuardedMemory workspace, scratch;
  if (!workspace.allocate(workspace_bytes_, 64) || !scratch.allocate(scratch_bytes_, 64)) return "no guarded memory";
  workspace.place(end);
  scratch.place(end);
  std::vector<const GuardedMemory*> parts;
  std::vector<void*> pointers;
  for (const GuardedMemory& operand : operands) {
    parts.push_back(&operand);
    pointers.push_back(operand.data());
  }
  parts.push_back(&workspace);
  parts.push_back(&scratch);
  for (int phase = 0; phase < phases(); ++phase) {
    const LoadedPhase& each = phases_[phase];
    for (int range = ranges - 1; range >= 0; --range) {
      RunningKernel kernel{"the unit",
                           each.symbol.c_str(),
                           0,
                           phase,
                           each.grid * range / ranges,
                           each.grid * (range + 1) / ranges,
                           parts.data(),
                           static_cast<int32_t>(parts.size())};
      if (kernel.low == kernel.high) continue;
      const std::optional<Fault> fault =
          catchFault([&] { each.kernel(pointers.data(), kernel.low, kernel.high, workspace.data(), scratch.data()); });
      if (!fault) continue;
      char sentence[512];
      return {sentence, describeFault(*fault, kernel, sentence, sizeof(sentence))};
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      // Writes into the padding between an operand's end and its page do not fault; they change the padding's pattern.
      if (const ptrdiff_t at = parts[i]->findOutOfBoundsWrite(); at != 0) {
        const std::string what = i < operands.size()    ? "operand " + std::to_string(i)
                                 : i == operands.size() ? "the workspace"
                                                        : "the scratch";
        return each.symbol + " wrote " + std::to_string(std::abs(at)) + " bytes " + (at < 0 ? "before " : "behind ") +
               what;
      }
    }
  }
  return "";
}

}  // namespace tessera::compiler::codegen
