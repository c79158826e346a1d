#include "clients/cli/command.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

CLI::App* CommandLine::add(const std::string& name, const std::string& description) {
  CLI::App* command = app.add_subcommand(name, description);
  command->fallthrough();  // the parent accepts --server, --json and --quiet
  return command;
}

bool CommandLine::namesServer() const {
  const char* from_environment = std::getenv("TESSERA_SERVER");
  return !data_folder.empty() || app.count("--server") > 0 || (from_environment != nullptr && *from_environment != 0);
}

absl::StatusOr<std::unique_ptr<Channel>> CommandLine::connectIfThere() const {
  if (namesServer()) return connect();
  auto channel = connect(std::chrono::milliseconds(500));
  if (absl::IsUnavailable(channel.status())) return nullptr;
  return channel;
}

absl::StatusOr<std::unique_ptr<Channel>> CommandLine::connect(std::chrono::milliseconds patience) const {
  std::string address = server;
  Identity shown = withEnvironment(identity);
  if (!data_folder.empty()) {
    std::ifstream in(absl::StrCat(data_folder, "/operator.addr"));
    if (!std::getline(in, address)) {
      return absl::UnavailableError(
          absl::StrCat("no tesserad runs on ", data_folder, ", or you cannot read its folder"));
    }
    const std::string project = shown.project;
    shown = Identity();
    shown.project = project;
    shown.token_file = absl::StrCat(data_folder, "/operator.token");
  }
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<Channel> channel, Channel::open(address, shown));
  channel->setServerEndedCheck(check_service);
  if (!json && !quiet) {
    channel->setUnreachableCallback([address](std::chrono::milliseconds patience) {
      std::cerr << "\ntessera: the server at " << address << " does not answer; waiting for it, "
                << std::chrono::ceil<std::chrono::seconds>(patience).count() << " s at most\n";
    });
  }
  TESSERA_RETURN_IF_ERROR(channel->waitReady(patience));
  return channel;
}

absl::StatusOr<int64_t> parseDuration(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a duration; write for example 500ms, 30s, 5m or 1h30m"));
  }
  // The service would read 0 as its default or as no limit, which the user did not mean.
  if (duration < absl::Microseconds(1) || duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a positive duration; omit the flag for the default"));
  }
  return absl::ToInt64Microseconds(duration);
}

namespace {

CLI::Validator numberThat(bool (*fits)(double), const char* accepted, const char* name) {
  return {[fits, accepted](const std::string& text) -> std::string {
            double value = 0;
            const bool good = absl::SimpleAtod(text, &value) && std::isfinite(value) && fits(value);
            return good ? "" : absl::StrCat("found '", text, "', accepted: ", accepted);
          },
          name};
}

}  // namespace

CLI::Validator nonNegative() {
  return numberThat([](double value) { return value >= 0; }, "a number that is at least 0", "NONNEGATIVE");
}

CLI::Validator positive() {
  return numberThat([](double value) { return value > 0; }, "a number above 0", "POSITIVE");
}

void ListFlags::addTo(CLI::App* app, const std::string& fields, const std::string& default_order) {
  order_by = this->default_order = default_order;
  app->add_option("--filter", filter, absl::StrCat("AIP-160 filter over ", fields));
  app->add_option("--order-by", order_by, "e.g. \"create_time desc\"")->capture_default_str();
  app->add_option("--limit", limit, "largest number of items; 0 = all")->capture_default_str()->check(nonNegative());
  app->add_option("--page-token", page_token, "continue where an earlier list ended");
}

}  // namespace tessera::client
