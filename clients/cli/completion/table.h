#pragma once

#include <string>
#include <vector>

#include "proto/support/cli11.h"

namespace tessera::client {

/// What can be written behind some words of a command line, for scripts that complete them in a shell.
struct CompletionFlag {
  std::vector<std::string> names;  ///< "--output", "-o"
  std::string description;         ///< one line
  bool takes_value = false;
  std::vector<std::string> choices;  ///< all values there are; empty: any, perhaps a file
};

struct CompletionCommand {
  std::string name;
  std::string description;  ///< one line
};

struct CompletionPlace {
  std::string path;                         ///< "admin token create"; empty: behind the program's name
  std::vector<CompletionCommand> commands;  ///< one of them must follow; empty: none does
  std::vector<CompletionFlag> flags;        ///< those of the program included, which are accepted anywhere
  std::vector<std::string> choices;         ///< all values there are of what else it takes; empty: any, perhaps a file
};

/// The place behind the program's name, then all others, as `app` would parse them. It is the table that --help prints,
/// so that nothing is completed which is not accepted.
std::vector<CompletionPlace> completionTable(const CLI::App& app);

}  // namespace tessera::client
