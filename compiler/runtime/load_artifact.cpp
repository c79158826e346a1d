#include <cstring>

#include "compiler/runtime/session.h"

namespace tessera::compiler {
namespace {

RuntimeStatus findWeights(uint32_t flags, LoadedArtifact* loaded) {
  const ZipEntry* entry = loaded->file.find(kWeightsEntry);
  if (!entry) return {};
  std::span<const uint8_t> weights = loaded->file.bytes(*entry);
  if (flags & TESSERA_VERIFY_WEIGHTS) {
    if (RuntimeStatus status = loaded->file.read(kWeightsEntry, &weights); !status.ok()) return status;
  }
  loaded->weights = weights.data();
  if (reinterpret_cast<uintptr_t>(weights.data()) % TESSERA_BUFFER_ALIGNMENT == 0) return {};
  if (!loaded->copied_weights.allocate(weights.size())) {
    return runtimeError(TESSERA_OUT_OF_MEMORY, "no memory for a copy of %zu bytes of weights", weights.size());
  }
  std::memcpy(loaded->copied_weights.data(), weights.data(), weights.size());
  loaded->weights = loaded->copied_weights.data();
  return {};
}

}  // namespace

RuntimeStatus loadArtifact(ArtifactFile file, uint32_t flags, std::shared_ptr<const LoadedArtifact>* result) {
  auto loaded = std::make_shared<LoadedArtifact>();
  loaded->file = std::move(file);
  std::string requirements_text;
  if (RuntimeStatus status = loaded->file.readText(kRequirementsEntry, &requirements_text); !status.ok()) return status;
  Requirements requirements;
  if (RuntimeStatus status = parseRequirements(requirements_text, &requirements); !status.ok()) return status;
  if (RuntimeStatus status = checkHost(requirements); !status.ok()) return status;
  std::span<const uint8_t> manifest, code;
  if (RuntimeStatus status = loaded->file.read(kManifestEntry, &manifest); !status.ok()) return status;
  if (RuntimeStatus status = loaded->file.read(kCodeEntry, &code); !status.ok()) return status;
  const ZipEntry* weights = loaded->file.find(kWeightsEntry);
  RuntimeStatus status = ModuleImage::load(code, requirements, weights ? weights->size : 0, &loaded->image);
  if (!status.ok()) return status;
  if (status = findWeights(flags, loaded.get()); !status.ok()) return status;
  *result = std::move(loaded);
  return {};
}

}  // namespace tessera::compiler
