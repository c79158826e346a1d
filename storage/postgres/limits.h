#pragma once

#include <chrono>

namespace tessera::storage {

/// How long a connection to PostgreSQL waits.
struct PostgresLimits {
  std::chrono::milliseconds answer{30'000};  ///< for an answer of the server; a connection that reads: 4 times as long
  std::chrono::milliseconds lock{10'000};    ///< for a lock of another session
  std::chrono::milliseconds idle{60'000};    ///< the server ends a transaction that waits longer for its client
};

}  // namespace tessera::storage
