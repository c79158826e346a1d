// tessera completion: prints a shell script that completes the program's command line.
#include <iostream>
#include <memory>
#include <string>

#include "clients/cli/command.h"
#include "clients/cli/completion/scripts.h"

namespace tessera::client {

void addCompletionCommand(CommandLine& line) {
  CLI::App* command = line.add("completion", "Print a script that completes commands and flags in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "The packages install all three. Elsewhere, in the shell's start file:\n"
      "  bash  source <(tessera completion bash)\n"
      "  zsh   source <(tessera completion zsh)      after compinit\n"
      "  fish  tessera completion fish | source");
  command->callback([&line, shell] {
    line.action = [&line, shell] {
      std::cout << (*shell == "bash"  ? bashCompletion(line.app)
                    : *shell == "zsh" ? zshCompletion(line.app)
                                      : fishCompletion(line.app));
      return 0;
    };
  });
}

}  // namespace tessera::client
