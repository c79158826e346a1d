// tessera versions: lists the versions of a tune job's artifact, and chooses the one that programs should run.

#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command.h"
#include "clients/cli/output.h"
#include "clients/cpp/versions.h"

namespace tessera::client {
namespace {

struct VersionFlags {
  std::string job;
  int choose = -1;
};

int versions(const CommandLine& line, const VersionFlags& flags) {
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  if (flags.choose >= 0) {
    v1::ChooseArtifactVersionRequest request;
    request.set_job_id(flags.job);
    request.set_number(flags.choose);
    CallOptions once;
    once.attempts = 1;
    auto chosen = (*channel)->call((*channel)->versions(), &v1::ArtifactVersionService::Stub::ChooseArtifactVersion,
                                   request, once);
    if (!chosen.ok()) return reportError(chosen.status(), line.json);
    const v1::ArtifactVersion& version = chosen->version();
    if (line.json) {
      std::cout << toJson(version) << "\n";
    } else if (version.same_as() == 0) {
      std::cout << "version " << version.number() << " is the newest, artifact " << version.artifact_id() << "\n";
    } else {
      std::cout << "version " << version.number() << " is version " << version.same_as() << " again, artifact "
                << version.artifact_id() << "\n";
    }
    return 0;
  }
  auto list = listVersions(**channel, flags.job);
  if (!list.ok()) return reportError(list.status(), line.json);
  if (line.json) {
    std::cout << toJson(*list) << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::ArtifactVersion& version : list->versions()) {
    const bool compared = version.ms() > 0;
    rows.push_back({absl::StrCat(version.number()), timeText(version.create_time_us()),
                    absl::StrCat(version.tuned_workloads()), compared ? millisecondsText(version.default_ms()) : "-",
                    compared ? millisecondsText(version.ms()) : "-", version.artifact_id(),
                    version.same_as() > 0 ? absl::StrCat("version ", version.same_as(), " was chosen")
                    : version.held()      ? "held: an earlier one is chosen"
                                          : ""});
  }
  std::cout << table({"VERSION", "SINCE", "TUNED", "DEFAULT ms", "MS", "ARTIFACT", ""}, rows) << "mode "
            << absl::AsciiStrToLower(v1::TuneMode_Name(list->mode())) << "\n";
  return 0;
}

}  // namespace

void addVersionCommand(CommandLine& line) {
  CLI::App* command = line.add("versions", "List the versions of a tune job's artifact, or choose one");
  auto flags = std::make_shared<VersionFlags>();
  command->add_option("JOB", flags->job, "a tune job")->required();
  command
      ->add_option("--choose", flags->choose,
                   "make programs that follow the job run this version from their next run on, and hold later versions "
                   "back; 0: run the newest version again")
      ->check(nonNegative());
  command->callback([&line, flags] { line.action = [&line, flags] { return versions(line, *flags); }; });
}

}  // namespace tessera::client
