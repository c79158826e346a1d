#pragma once

#include <memory>

#include "storage/store.h"

namespace tessera::storage {

/// A store that keeps nothing: for simulations that run a service's years in seconds. It passes the conformance suite.
/// Equal calls give equal answers, whatever ran before in the process.
std::unique_ptr<Store> makeMemoryStore();

}  // namespace tessera::storage
