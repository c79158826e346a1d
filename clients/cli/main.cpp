// tessera: the command line client.

#include <cstdlib>
#include <iostream>

#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "proto/version/version.h"

int main(int argc, char** argv) {
  using namespace tessera::client;
  CommandLine line;
  const char* from_environment = std::getenv("TESSERA_SERVER");
  line.server = from_environment && *from_environment ? from_environment : "localhost:7400";
  line.app.add_option("--server", line.server, "host:port or unix:/path of the service (TESSERA_SERVER)")
      ->capture_default_str();
  line.app.add_flag("--json", line.json, "print JSON for scripts");
  line.app.add_flag("-q,--quiet", line.quiet, "no progress");
  line.app.set_version_flag("--version", std::string("tessera ") + tessera::releaseVersion() + " (compiler " +
                                             tessera::compilerVersion() + ", LLVM " + tessera::llvmVersion() + ")");
  line.app.require_subcommand(1);
  line.app.footer(
      "Exit codes: 0 done, 1 internal error, 2 usage, 3 invalid model or input, 4 unsupported operator,\n"
      "5 not found, 6 deadline passed, 7 cancelled, 8 no server, 9 artifact does not fit this host, 10 task or\n"
      "generated code crashed.");
  addCompileCommand(line);
  addRunCommand(line);
  addVerifyCommand(line);
  addRemoteRunCommands(line);
  addJobCommands(line);
  addArtifactCommands(line);
  addRecordCommand(line);
  addTargetCommands(line);
  addWorkerCommand(line);
  addCheckCommand(line);
  addExplainCommand(line);
  addOperatorCommand(line);
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = line.app.exit(error);
    return code == 0 ? tessera::kExitOk : tessera::kExitUsage;
  }
  return line.action();
}
