// tessera space: starts tessera-space, since this program does not link the compiler's analysis.
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "clients/cli/command.h"
#include "clients/cli/local_service.h"
#include "clients/cli/output.h"

namespace tessera::client {

void addSpaceCommand(CommandLine& line) {
  CLI::App* command =
      line.add("space", "Print the schedule space of a model's workloads; with --table the thesis's table 4.2");
  command->fallthrough(false)->prefix_command()->set_help_flag();  // all following words belong to tessera-space
  command->callback([&line, command] {
    line.action = [&line, words = command->remaining()] {
      const std::string binary = siblingBinary("tessera-space");
      std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
      for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
      std::string json = "--json";
      if (line.json) argv.push_back(json.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      return reportError(absl::ErrnoToStatus(errno, absl::StrCat("cannot start ", binary)), line.json);
    };
  });
}

}  // namespace tessera::client
