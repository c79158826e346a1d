// tessera target measure: measures this host and writes a target description.

#include "clients/cli/target_measuring.h"

#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "compiler/measure/description.h"
#include "compiler/measure/measure.h"
#include "compiler/target/target.h"

namespace tessera::client {
namespace {

struct MeasureFlags {
  std::string out;
  compiler::MeasureOptions options;
};

std::string figureJson(const compiler::Figure& figure) {
  return absl::StrFormat(
      R"({"field":%s,"unit":%s,"how":%s,"cores":%d,"median":%.9g,"deviation":%.9g,"repetitions":%d,"away":%.9g,"noisy":%s})",
      jsonString(figure.field), jsonString(figure.unit), jsonString(figure.how), figure.cores, figure.value.median,
      figure.value.deviation, figure.repetitions, figure.away, figure.isNoisy() ? "true" : "false");
}

std::vector<std::string> figureRow(const compiler::Figure& figure) {
  std::string noise = absl::StrFormat("%.1f %%", 100 * figure.value.share());
  if (figure.value.share() > compiler::Figure::kNoisyShare) absl::StrAppend(&noise, " NOISY");
  if (figure.away > compiler::Figure::kNoisyShare) absl::StrAppendFormat(&noise, ", busy %.0f %%", 100 * figure.away);
  return {figure.field, absl::StrCat(figure.cores), absl::StrFormat("%.4g", figure.value.median), figure.unit, noise};
}

int measure(const CommandLine& line, const MeasureFlags& flags) {
  // Check that the file can be written before the measurement rather than after it.
  const bool fresh = !std::filesystem::exists(flags.out);
  if (!flags.out.empty() && !std::ofstream(flags.out, std::ios::app))
    return reportError(absl::InvalidArgumentError(absl::StrCat("cannot write ", flags.out)), line.json);
  compiler::MeasureOptions options = flags.options;
  ProgressView view(line.quiet || line.json);
  options.progress = [&view](int done, int total, const std::string& what) {
    v1::JobEvent event;
    v1::Progress& progress = *event.mutable_progress();
    progress.set_phase("measure");
    progress.set_done(done);
    progress.set_total(total);
    progress.set_detail(what);
    view.event(event);
  };
  const auto measured = compiler::measureHost(options);
  view.finish();
  if (!measured.ok()) {
    std::error_code ignored;
    if (!flags.out.empty() && fresh) std::filesystem::remove(flags.out, ignored);
    return reportError(measured.status(), line.json);
  }
  const std::string when = absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::Now(), absl::UTCTimeZone());
  const std::string text = compiler::describe(*measured, when);
  if (!flags.out.empty())
    if (absl::Status status = writeText(flags.out, text); !status.ok()) return reportError(status, line.json);

  std::vector<std::string> entries, left;
  std::vector<std::vector<std::string>> rows;
  for (const compiler::Figure& figure : measured->figures) {
    entries.push_back(figureJson(figure));
    rows.push_back(figureRow(figure));
  }
  for (const std::string& each : measured->left) left.push_back(jsonString(each));
  if (line.json) {
    std::cout << R"({"target":)" << toJson(measured->target) << R"(,"hash":")" << compiler::targetHash(measured->target)
              << R"(","figures":[)" << absl::StrJoin(entries, ",") << R"(],"left":[)" << absl::StrJoin(left, ",")
              << "]}\n";
    return kExitOk;
  }
  // Without an output file, the description goes to standard output and all other text to standard error.
  std::ostream& beside = flags.out.empty() ? std::cerr : std::cout;
  if (flags.out.empty()) std::cout << text;
  if (!line.quiet) beside << table({"FIGURE", "CORES", "MEDIAN", "UNIT", "DEVIATION"}, rows);
  for (const std::string& each : measured->left) std::cerr << "left out: " << each << "\n";
  const auto noisy = std::ranges::count_if(measured->figures, &compiler::Figure::isNoisy);
  if (noisy > 0)
    std::cerr << noisy << " of " << rows.size() << " figures spread by more than "
              << 100 * compiler::Figure::kNoisyShare
              << " %, or were measured while other programs ran: measure again on a quiet machine\n";
  if (!flags.out.empty() && !line.quiet)
    std::cout << flags.out << ": " << measured->target.name() << "; hash " << compiler::targetHash(measured->target)
              << "\n";
  return kExitOk;
}

}  // namespace

void addTargetMeasuring(CommandLine& line, CLI::App& command) {
  CLI::App* measures = command.add_subcommand(
      "measure", "measure this machine, in less than a minute, and write a description; needs no server");
  auto flags = std::make_shared<MeasureFlags>();
  measures->add_option("--out", flags->out, "output file; default: standard output")->type_name("FILE");
  measures->add_option("--name", flags->options.name, "name of the target; default: the chip's name + -measured");
  measures
      ->add_option("--repeat", flags->options.repetitions,
                   "repetitions of each measurement, alternating with the others")
      ->check(CLI::Range(3, 10'000))
      ->capture_default_str();
  measures
      ->add_option("--seconds", flags->options.seconds,
                   "time limit in seconds, after which no further repetition starts")
      ->check(positive())
      ->capture_default_str();
  measures->fallthrough();
  measures->callback([&line, flags] { line.action = [&line, flags] { return measure(line, *flags); }; });
}

}  // namespace tessera::client
