#include "clients/cli/command.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace tessera::client {

CLI::App* CommandLine::add(const std::string& name, const std::string& description) {
  CLI::App* command = app.add_subcommand(name, description);
  command->fallthrough();  // --server, --json and --quiet belong to the parent
  return command;
}

absl::StatusOr<std::unique_ptr<Channel>> CommandLine::connect() const {
  std::string address = server;
  Identity shown = withEnvironment(identity);
  if (!data_folder.empty()) {
    std::ifstream in(absl::StrCat(data_folder, "/operator.addr"));
    if (!std::getline(in, address)) {
      return absl::UnavailableError(
          absl::StrCat("no tesserad runs on ", data_folder, ", or its folder is not yours to read"));
    }
    const std::string project = shown.project;
    shown = Identity();
    shown.project = project;
    shown.token_file = absl::StrCat(data_folder, "/operator.token");
  }
  auto opened = Channel::open(address, shown);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<Channel> channel = *std::move(opened);
  channel->setEnded(ended);
  if (absl::Status status = channel->waitReady(std::chrono::seconds(5)); !status.ok()) return status;
  return channel;
}

absl::StatusOr<int64_t> parseDuration(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a duration; write for example 500ms, 30s, 5m or 1h30m"));
  }
  return absl::ToInt64Microseconds(duration);
}

void ListFlags::addTo(CLI::App* app, const std::string& fields, const std::string& default_order) {
  order_by = default_order;
  app->add_option("--filter", filter, absl::StrCat("AIP-160 filter over ", fields));
  app->add_option("--order-by", order_by, "e.g. \"create_time desc\"")->capture_default_str();
  app->add_option("--limit", limit, "how many at most; 0 = all")->capture_default_str()->check(CLI::NonNegativeNumber);
  app->add_option("--page-token", page_token, "go on where an earlier list ended");
}

}  // namespace tessera::client
