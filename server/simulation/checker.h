#pragma once

#include "server/simulation/client.h"
#include "server/simulation/world.h"

namespace tessera::server::simulation {

/// What must hold when the faults are over and everybody has had time; what does not goes to the world's problems.
/// Nothing acknowledged is lost, every effect happened once, every job ended and for a reason that somebody gave it, no
/// lease and no task is left over.
void checkClient(World& world, const Client& client);
void checkLeftovers(World& world);

}  // namespace tessera::server::simulation
