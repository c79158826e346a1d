#pragma once

#include <string>

#include "proto/support/cli11.h"

namespace tessera::client {

/// Completion scripts for the commands, flags and choices of a program; other words complete to files. Each script is a
/// function over the words before the cursor and the table of completionTable(); it starts no program.
std::string bashCompletion(const CLI::App& app);
std::string zshCompletion(const CLI::App& app);
std::string fishCompletion(const CLI::App& app);

}  // namespace tessera::client
