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
  line.app.add_option("--operator-of", line.data_folder,
                      "data folder of a tesserad on this machine, instead of --server: speak to it as its operator");
  line.app.add_option("--token-file", line.identity.token_file,
                      "file with the token that says who calls "
                      "(TESSERA_TOKEN_FILE; TESSERA_TOKEN is the token itself)");
  line.app.add_option("--tls-ca", line.identity.ca_file,
                      "talk TLS: the server's certificate authority (TESSERA_TLS_CA)");
  line.app.add_option("--tls-cert", line.identity.certificate_file, "certificate to show (TESSERA_TLS_CERT)");
  line.app.add_option("--tls-key", line.identity.key_file, "its private key (TESSERA_TLS_KEY)");
  line.app.add_option("--project", line.identity.project,
                      "the project an operator speaks for, '-' in lists for all; everybody else has their token's "
                      "(TESSERA_PROJECT)");
  line.app.add_flag("--token-in-clear", line.identity.token_in_clear,
                    "show the token even where others can read it on the way");
  line.app.add_flag("--json", line.json, "print JSON for scripts");
  line.app.add_flag("-q,--quiet", line.quiet, "no progress");
  line.app.set_version_flag("--version", std::string("tessera ") + tessera::releaseVersion() + " (compiler " +
                                             tessera::compilerVersion() + ", LLVM " + tessera::llvmVersion() + ")");
  line.app.require_subcommand(1);
  line.app.footer(
      "Exit codes: 0 done, 1 internal error, 2 usage, 3 invalid model or input, 4 unsupported operator,\n"
      "5 not found, 6 deadline passed, 7 cancelled, 8 no server, or a quota used up, 9 artifact does not fit this\n"
      "host, 10 task or generated code crashed, 11 the server does not let this caller do that.");
  addCompileCommand(line);
  addRunCommand(line);
  addVerifyCommand(line);
  addCompareCommand(line);
  addRemoteRunCommands(line);
  addJobCommands(line);
  addArtifactCommands(line);
  addRecordCommand(line);
  addTargetCommands(line);
  addTargetFileCommands(line);
  addMappingsCommand(line);
  addCoverageCommand(line);
  addSimulateCommand(line);
  addKernelCommand(line);
  addWorkerCommand(line);
  addTaskCommand(line);
  addCheckCommand(line);
  addTuneCommand(line);
  addVersionCommand(line);
  addSpaceCommand(line);
  addWatchingCommands(line);
  addExplainCommand(line);
  addOperatorCommand(line);
  addAdminCommand(line);
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = line.app.exit(error);
    return code == 0 ? tessera::kExitOk : tessera::kExitUsage;
  }
  return line.action();
}
