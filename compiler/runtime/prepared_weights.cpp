#include "compiler/runtime/prepared_weights.h"

#include "compiler/runtime/session.h"

namespace tessera::compiler {
namespace {

int64_t padded(int64_t bytes) {
  return (bytes + TESSERA_BUFFER_ALIGNMENT - 1) / TESSERA_BUFFER_ALIGNMENT * TESSERA_BUFFER_ALIGNMENT;
}

}  // namespace

int64_t PreparedWeights::bytesOf(const tessera_module& module) {
  int64_t bytes = 0;
  if (!module.preparation) return bytes;
  for (int32_t i = 0; i < module.preparation->num_outputs; ++i)
    bytes += padded(module.preparation->variants->outputs[i].size_bytes);
  return bytes;
}

RuntimeStatus PreparedWeights::make(const std::shared_ptr<const LoadedArtifact>& artifact, int threads) {
  const tessera_module* preparation = artifact->module().preparation;
  if (!preparation) return {};
  const std::lock_guard lock(mutex_);
  if (memory_) return {};
  const int64_t bytes = bytesOf(artifact->module());
  auto memory = std::make_unique<MemoryRegion>();
  if (!memory->allocate(static_cast<size_t>(bytes))) {
    return runtimeError(TESSERA_OUT_OF_MEMORY, "no memory for %lld bytes of prepared weights",
                        static_cast<long long>(bytes));
  }
  std::vector<int64_t> offsets;
  std::vector<tessera_buffer> outputs;
  int64_t offset = 0;
  for (int32_t i = 0; i < preparation->num_outputs; ++i) {
    const int64_t size = preparation->variants->outputs[i].size_bytes;
    offsets.push_back(offset);
    outputs.push_back({memory->data() + offset, static_cast<size_t>(size)});
    offset += padded(size);
  }
  std::unique_ptr<Session> session;
  if (RuntimeStatus status = Session::create(artifact, *preparation, threads, &session); !status.ok()) return status;
  if (RuntimeStatus status = session->run({}, outputs, {}); !status.ok()) return status;
  memory->protect();
  offsets_ = std::move(offsets);
  memory_ = std::move(memory);
  return {};
}

}  // namespace tessera::compiler
