#pragma once

#include "clients/cli/command.h"

namespace tessera::client {

/// Adds `measure` to `tessera target`.
void addTargetMeasuring(CommandLine& line, CLI::App& command);

}  // namespace tessera::client
