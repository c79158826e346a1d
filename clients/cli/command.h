#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cpp/channel.h"
#include "proto/support/cli11.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

/// Options and actions that all commands share. A command function adds its subcommand to `app`; parsing the chosen one
/// sets `action`.
struct CommandLine {
  CLI::App app{"Tessera: a compiler as a service for tensor programs", "tessera"};
  std::string server;
  std::string data_folder;  ///< data folder of a local tesserad; calls go to it with an operator's token
  std::function<absl::Status()>
      check_service;  ///< for a service that this command started, see Channel::setServerEndedCheck
  Identity identity;
  bool json = false;
  bool quiet = false;
  std::function<int()> action;

  /// Adds a subcommand that accepts --server, --json and --quiet after its name as well as before.
  CLI::App* add(const std::string& name, const std::string& description);

  /// Connects and waits up to 5 s for an answer.
  absl::StatusOr<std::unique_ptr<Channel>> connect() const { return connect(std::chrono::seconds(5)); }
  absl::StatusOr<std::unique_ptr<Channel>> connect(std::chrono::milliseconds patience) const;
  /// Whether the user named a service, by a flag or TESSERA_SERVER.
  bool namesServer() const;
  /// For commands that can also use built-in data: returns null if the user named no service and none answers.
  absl::StatusOr<std::unique_ptr<Channel>> connectIfThere() const;
};

void addCompileCommand(CommandLine& line);
void addReweightCommand(CommandLine& line);
void addRunCommand(CommandLine& line);
void addVerifyCommand(CommandLine& line);
void addCompareCommand(CommandLine& line);
void addRemoteRunCommands(CommandLine& line);  // execute, profile
void addJobCommands(CommandLine& line);        // jobs, job, watch, cancel
void addArtifactCommands(CommandLine& line);   // artifacts, fetch, inspect
void addRecordCommand(CommandLine& line);
void addTargetCommands(CommandLine& line);
void addTargetFileCommands(CommandLine& line);  // target check, show, diff, measure
void addMappingsCommand(CommandLine& line);
void addCoverageCommand(CommandLine& line);
void addSimulateCommand(CommandLine& line);
void addKernelCommand(CommandLine& line);
void addDataflowCommand(CommandLine& line);
void addGradientCommand(CommandLine& line);
void addWorkerCommand(CommandLine& line);
void addTaskCommand(CommandLine& line);
void addExplainCommand(CommandLine& line);
void addCheckCommand(CommandLine& line);
void addTrainCommand(CommandLine& line);
void addTuneCommand(CommandLine& line);
void addSpaceCommand(CommandLine& line);
void addVersionCommand(CommandLine& line);
void addCompletionCommand(CommandLine& line);
void addOperatorCommand(CommandLine& line);
void addAdminCommand(CommandLine& line);
void addCurveAndTraceCommands(CommandLine& line);  // curve, trace

/// Converts "500ms", "30s", "5m", "1h30m" to microseconds, at least one. INVALID_ARGUMENT states the accepted format.
absl::StatusOr<int64_t> parseDuration(const std::string& text);

/// Validators for finite numbers: at least 0, or above 0. CLI11's own validators state the largest double in their
/// messages.
CLI::Validator nonNegative();
CLI::Validator positive();

/// Flags that all lists share.
struct ListFlags {
  std::string filter;
  std::string order_by, default_order;
  std::string page_token;
  int limit = 50;
  void addTo(CLI::App* app, const std::string& fields, const std::string& default_order);
};

/// Fetches pages until `flags.limit` items have arrived (0: all) and passes each page to `use`. Returns the token of
/// the next page, empty at the end.
template <typename Request, typename Call, typename Use>
absl::StatusOr<std::string> forEachPage(const ListFlags& flags, Call&& call, Use&& use) {
  constexpr int kMaxPage = 1000;
  int left = flags.limit;
  std::string token = flags.page_token;
  do {
    Request request;
    request.set_filter(flags.filter);
    request.set_order_by(flags.order_by);
    request.set_page_token(token);
    request.set_page_size(flags.limit == 0 ? kMaxPage : std::min(left, kMaxPage));
    TESSERA_ASSIGN_OR_RETURN(auto page, call(request));
    left -= use(page);
    token = page.next_page_token();
  } while (!token.empty() && (flags.limit == 0 || left > 0));
  return token;
}

}  // namespace tessera::client
