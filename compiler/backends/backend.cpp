#include "compiler/backends/backend.h"

#include <algorithm>

namespace tessera::compiler {
namespace {

struct Served {
  v1::Target::Family family;
  const Backend& (*backend)();
};
constexpr Served kServed[] = {
    {v1::Target::FAMILY_UNSPECIFIED, processorBackend},
    {v1::Target::X86_64, processorBackend},
    {v1::Target::AARCH64, processorBackend},
    {v1::Target::SPATIAL, spatialBackend},
    {v1::Target::OPENCL, openClBackend},
};

}  // namespace

const Backend* backendOf(v1::Target::Family family) {
  const auto* found = std::ranges::find(kServed, family, &Served::family);
  return found == std::end(kServed) ? nullptr : &found->backend();
}

}  // namespace tessera::compiler
