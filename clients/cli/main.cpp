// tessera: the command line client.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/command.h"
#include "clients/cli/completion/table.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/nearest.h"
#include "proto/version/version.h"

namespace tessera::client {
namespace {

std::string doYouMean(const std::string& name) { return name.empty() ? "" : absl::StrCat("; do you mean ", name, "?"); }

/// Lists the commands at this place; CLI11 would only print that a subcommand is required.
void reportUnknownCommand(const CLI::App& at, const std::string& word) {
  const auto known = at.get_subcommands([](const CLI::App*) { return true; });
  std::vector<std::string> names;
  for (const CLI::App* each : known) names.push_back(each->get_name());
  std::cerr << "there is no " << (word.starts_with('-') ? "flag" : "command") << " '" << word << "'"
            << doYouMean(nearest(word, names)) << "; commands: " << absl::StrJoin(names, ", ") << "\n";
}

/// The flags that are accepted after a command.
std::vector<std::string> flagsOf(const CLI::App& app, const std::string& path) {
  std::vector<std::string> names;
  for (const CompletionPlace& place : completionTable(app))
    if (place.path == path)
      for (const CompletionFlag& flag : place.flags) names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

/// Suggests commands or flags for the words of a command line that CLI11 could not parse.
void explainError(const CLI::App& app) {
  const CLI::App* at = &app;
  std::string path;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    absl::StrAppend(&path, path.empty() ? "" : " ", at->get_name());
  }
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  const bool wants_command = !at->get_subcommands([](const CLI::App*) { return true; }).empty();
  if (wants_command && !words.empty()) reportUnknownCommand(*at, words.front());
  const std::vector<std::string> flags = flagsOf(app, path);
  for (const std::string& word : words) {
    const std::string flag = word.starts_with("--") ? word.substr(0, word.find('=')) : "";
    if (const std::string meant = nearest(flag, flags); !meant.empty())
      std::cerr << "there is no flag '" << flag << "'" << doYouMean(meant) << "\n";
  }
}

/// Output that was written to a full disk is lost; the exit code must tell scripts. A closed pipe is no error: its
/// reader wants no more.
int checkedOutput(int code) {
  errno = 0;
  std::cout.flush();
  const bool written = std::cout.good() && std::fflush(stdout) == 0;
  const int error = errno;
  struct stat to{};
  const bool piped = fstat(1, &to) == 0 && (S_ISFIFO(to.st_mode) || S_ISSOCK(to.st_mode));
  if (written || piped || code != kExitOk) return code;
  std::cerr << "tessera: cannot write standard output" << (error != 0 ? absl::StrCat(": ", std::strerror(error)) : "")
            << "\n";
  return kExitInternal;
}

}  // namespace
}  // namespace tessera::client

int main(int argc, char** argv) {
  using namespace tessera::client;
  // The command reports connection errors once; gRPC would log every attempt.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // gRPC makes progress on connections between calls only at this interval; its default of five seconds is too long.
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100", /*overwrite=*/0);
  CommandLine line;
  const char* from_environment = std::getenv("TESSERA_SERVER");
  line.server = from_environment && *from_environment ? from_environment : "localhost:7400";
  line.app.add_option("--server", line.server, "host:port or unix:/path of the service (TESSERA_SERVER)")
      ->capture_default_str();
  line.app.add_option("--operator-of", line.data_folder,
                      "data folder of a tesserad on this machine, instead of --server: connect to it as its operator");
  line.app.add_option("--token-file", line.identity.token_file,
                      "file with the caller's token "
                      "(TESSERA_TOKEN_FILE; TESSERA_TOKEN is the token itself)");
  line.app.add_option("--tls-ca", line.identity.ca_file,
                      "use TLS: the server's certificate authority (TESSERA_TLS_CA)");
  line.app.add_option("--tls-cert", line.identity.certificate_file, "the caller's certificate (TESSERA_TLS_CERT)");
  line.app.add_option("--tls-key", line.identity.key_file, "its private key (TESSERA_TLS_KEY)");
  line.app.add_option("--project", line.identity.project,
                      "the project an operator acts for ('-' in lists: all); other callers have their token's project "
                      "(TESSERA_PROJECT)");
  line.app.add_flag("--token-in-clear", line.identity.allow_plaintext_token,
                    "send the token even without TLS to another host");
  line.app.add_flag("--json", line.json, "print JSON for scripts");
  line.app.add_flag("-q,--quiet", line.quiet, "no progress");
  line.app.set_version_flag("--version", std::string("tessera ") + tessera::releaseVersion() + " (compiler " +
                                             tessera::compilerVersion() + ", LLVM " + tessera::llvmVersion() + ")");
  line.app.require_subcommand(1);
  line.app.footer(
      "`tessera help COMMAND` describes a command.\n\n"
      "Exit codes: 0 done, 1 internal error, 2 usage, 3 invalid model or input, 4 unsupported operator,\n"
      "5 not found, 6 deadline passed, 7 cancelled, 8 no server, or a quota used up, 9 artifact cannot run on\nthis "
      "host, 10 task or generated code crashed, 11 permission denied.");
  addCompileCommand(line);
  addReweightCommand(line);
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
  addDataflowCommand(line);
  addGradientCommand(line);
  addWorkerCommand(line);
  addTaskCommand(line);
  addCheckCommand(line);
  addTrainCommand(line);
  addTuneCommand(line);
  addVersionCommand(line);
  addSpaceCommand(line);
  addCurveAndTraceCommands(line);
  addExplainCommand(line);
  addOperatorCommand(line);
  addAdminCommand(line);
  addCompletionCommand(line);
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {  // tessera help compile
    words.erase(words.begin());
    const auto is_named = [&words](const CLI::App* each) { return each->check_name(words.front()); };
    if (!words.empty() && line.app.get_subcommands(is_named).empty()) {
      reportUnknownCommand(line.app, words.front());
      return tessera::kExitUsage;
    }
    words.emplace_back("--help");
  }
  std::reverse(words.begin(), words.end());  // CLI11 expects reversed order
  try {
    line.app.parse(words);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) explainError(line.app);
    const int code = line.app.exit(error);
    return checkedOutput(code == 0 ? tessera::kExitOk : tessera::kExitUsage);
  }
  return checkedOutput(line.action());
}
