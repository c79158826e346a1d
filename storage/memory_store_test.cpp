#include "storage/memory_store.h"

#include "storage/store_conformance.h"

namespace tessera::storage {
namespace {

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, testing::Values(StoreKind{"Memory", &makeMemoryStore}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace tessera::storage
