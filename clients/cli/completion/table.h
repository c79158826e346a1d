#pragma once

#include <string>
#include <vector>

#include "proto/support/cli11.h"

namespace tessera::client {

/// The words that can follow a prefix of a command line, as data for completion scripts.
struct CompletionFlag {
  std::vector<std::string> names;  ///< "--output", "-o"
  std::string description;         ///< one line
  bool takes_value = false;
  std::vector<std::string> choices;  ///< all accepted values; empty: any value, possibly a file
};

struct CompletionCommand {
  std::string name;
  std::string description;  ///< one line
};

struct CompletionPlace {
  std::string path;                         ///< "admin token create"; empty: after the program's name
  std::vector<CompletionCommand> commands;  ///< one of them must follow; empty: no subcommands
  std::vector<CompletionFlag> flags;        ///< including the program's flags, which are accepted everywhere
  std::vector<std::string> choices;         ///< accepted values of the positional argument; empty: any, possibly a file
};

/// Returns the place after the program's name and all places below it, in the order of `app`. The data is that of
/// --help, so completions are always accepted words.
std::vector<CompletionPlace> completionTable(const CLI::App& app);

}  // namespace tessera::client
