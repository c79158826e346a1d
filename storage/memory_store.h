#pragma once

#include <memory>

#include "storage/store.h"

namespace tessera::storage {

/// A store in memory, for simulations that run years of a service in seconds. It passes the conformance suite. It is
/// deterministic: equal calls give equal results, whatever else the process did.
std::unique_ptr<Store> makeMemoryStore();

}  // namespace tessera::storage
