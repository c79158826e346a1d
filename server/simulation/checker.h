#pragma once

#include "server/simulation/client.h"
#include "server/simulation/world.h"

namespace tessera::server::simulation {

/// Checks the invariants once the faults have ended and the system has settled; violations are added to the world's
/// problems. Nothing acknowledged is lost, every effect happened once, every job has ended for a legitimate reason, and
/// no lease or task remains.
void checkClient(World& world, const Client& client);
void checkLeftovers(World& world);

}  // namespace tessera::server::simulation
