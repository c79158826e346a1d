#pragma once

#include <string>

#include "proto/support/cli11.h"

namespace tessera::client {

/// Scripts that complete a program's commands, flags and their choices in a shell, and files elsewhere. Each is a
/// function over the words before the cursor and a table of completionTable(); it starts no program.
std::string bashCompletion(const CLI::App& app);
std::string zshCompletion(const CLI::App& app);
std::string fishCompletion(const CLI::App& app);

}  // namespace tessera::client
