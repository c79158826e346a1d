// tessera compare: is one artifact faster than another, in which steps, and beyond the noise?

#include <chrono>
#include <iostream>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "clients/cli/artifact_comparison.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/junit.h"
#include "clients/cli/local_run.h"
#include "clients/cli/output.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

struct CompareFlags {
  std::string before, after, fail_above, junit;
  TrustFlags trust;
  RunInputs inputs;
  int rounds = 20, warmup = 3, threads = 1;
};

/// One of the two artifacts: loaded, with its own memory and all its measured times.
struct Side {
  v1::Manifest manifest;
  v1::Plan plan;
  LocalArtifact artifact{nullptr, &tessera_artifact_destroy};
  LocalSession session{nullptr, &tessera_session_destroy};
  RunBuffers buffers;
  std::vector<double> total_ms;
  std::vector<std::vector<double>> steps_ms;  ///< for each step, in the order of total_ms

  absl::Status open(const std::string& path, const CompareFlags& flags);
  absl::Status run(bool counts);
  absl::Status profile();
};

absl::Status Side::open(const std::string& path, const CompareFlags& flags) {
  TESSERA_ASSIGN_OR_RETURN(artifact, loadArtifact(path, flags.trust, /*verify_weights=*/false));
  TESSERA_ASSIGN_OR_RETURN(manifest, readManifest(path));
  TESSERA_ASSIGN_OR_RETURN(plan, readPlan(path));
  TESSERA_RETURN_IF_ERROR(buffers.prepare(artifact.get(), flags.inputs));
  TESSERA_ASSIGN_OR_RETURN(session, createSession(artifact.get(), flags.threads, buffers.variant));
  tessera_variant_info variant;
  tessera_artifact_variant(artifact.get(), buffers.variant, &variant);
  steps_ms.resize(variant.num_steps);
  return absl::OkStatus();
}

/// Made-up inputs may lead to a branch that does not work: such a run takes as long as any.
absl::Status timed(tessera_status code) { return runtimeError(code == TESSERA_RUN_FAULT ? TESSERA_OK : code); }

absl::Status Side::run(bool counts) {
  const auto start = std::chrono::steady_clock::now();
  const tessera_status code =
      tessera_session_run(session.get(), buffers.in.data(), buffers.in.size(), buffers.out.data(), buffers.out.size());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (counts) total_ms.push_back(took.count());
  return timed(code);
}

absl::Status Side::profile() {
  std::vector<int64_t> ns(steps_ms.size());
  const tessera_status code = tessera_session_profile(session.get(), buffers.in.data(), buffers.in.size(),
                                                      buffers.out.data(), buffers.out.size(), ns.data(), ns.size());
  for (size_t i = 0; i < ns.size(); ++i) steps_ms[i].push_back(static_cast<double>(ns[i]) / 1e6);
  return timed(code);
}

/// Alternates both artifacts. The order changes every round, so that neither always runs with the other's cache
/// contents.
absl::Status measure(Side& before, Side& after, const CompareFlags& flags) {
  for (int round = -flags.warmup; round < flags.rounds; ++round) {
    Side* turn[] = {&before, &after};
    if (round % 2 != 0) std::swap(turn[0], turn[1]);
    for (Side* side : turn) {
      TESSERA_RETURN_IF_ERROR(side->run(round >= 0));
    }
    for (Side* side : turn) {
      if (round < 0) continue;
      TESSERA_RETURN_IF_ERROR(side->profile());
    }
  }
  return absl::OkStatus();
}

/// Parses "5%" or "5" as 0.05.
absl::StatusOr<std::optional<double>> shareOf(const std::string& text) {
  if (text.empty()) return std::nullopt;
  double percent = 0;
  if (!absl::SimpleAtod(absl::StripSuffix(text, "%"), &percent) || !(percent >= 0 && percent <= 1e6)) {
    return absl::InvalidArgumentError(absl::StrCat("--fail-above: \"", text, "\"; accepted: a percentage, as in 5%"));
  }
  return percent / 100;
}

struct Row {
  StepPair step;
  std::optional<TimeChange> times;  ///< unset: only one artifact has the step
  double alone_ms = 0;
};

std::vector<Row> rowsOf(const Side& before, const Side& after) {
  std::vector<Row> rows;
  for (StepPair& pair : pairSteps(before.plan, before.buffers.variant, after.plan, after.buffers.variant)) {
    Row row{std::move(pair), std::nullopt, 0};
    if (row.step.before >= 0 && row.step.after >= 0) {
      row.times = changeOf(before.steps_ms[static_cast<size_t>(row.step.before)],
                           after.steps_ms[static_cast<size_t>(row.step.after)]);
    } else {
      const std::vector<double>& alone = row.step.before >= 0 ? before.steps_ms[static_cast<size_t>(row.step.before)]
                                                              : after.steps_ms[static_cast<size_t>(row.step.after)];
      row.alone_ms = changeOf(alone, alone).before_ms;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string verdict(const TimeChange& times) {
  return !times.sure() ? "within the noise" : times.change < 0 ? "faster" : "slower";
}

std::vector<std::string> cells(const std::string& name, const std::string& code, const TimeChange& times) {
  return {name,
          code,
          millisecondsText(times.before_ms),
          millisecondsText(times.after_ms),
          absl::StrFormat("%+.1f %%", times.change * 100),
          absl::StrFormat("%.1f %%", times.noise * 100),
          verdict(times)};
}

std::string timesJson(const TimeChange& times) {
  return absl::StrFormat(R"("before_ms":%.6f,"after_ms":%.6f,"change":%.6f,"noise":%.6f,"verdict":"%s")",
                         times.before_ms, times.after_ms, times.change, times.noise, verdict(times));
}

void printText(const TimeChange& total, const std::vector<Row>& rows, const CompareFlags& flags, bool one_model) {
  std::vector<std::vector<std::string>> lines = {cells("total", "", total)};
  int others = 0;
  for (const Row& row : rows) {
    others += row.step.code == CodeChange::kSame ? 0 : 1;
    if (row.times) {
      lines.push_back(cells(row.step.name, describe(row.step.code), *row.times));
      continue;
    }
    const std::string time = millisecondsText(row.alone_ms);
    lines.push_back({row.step.name, describe(row.step.code), row.step.before >= 0 ? time : "-",
                     row.step.after >= 0 ? time : "-", "", "", ""});
  }
  std::cout << table({"STEP", "CODE", "BEFORE MS", "AFTER MS", "CHANGE", "NOISE", "VERDICT"}, lines)
            << absl::StrFormat("%d of %d steps have other code; medians of %d alternating rounds, %d %s%s\n", others,
                               rows.size(), flags.rounds, flags.threads, flags.threads == 1 ? "thread" : "threads",
                               one_model ? "" : "; they are of different models");
}

void printJson(const TimeChange& total, const std::vector<Row>& rows, const CompareFlags& flags, bool one_model,
               bool failed) {
  std::string steps;
  for (const Row& row : rows) {
    absl::StrAppend(
        &steps, steps.empty() ? "" : ",", "{\"name\":", jsonString(row.step.name),
        ",\"code\":", jsonString(describe(row.step.code)), ",",
        row.times ? timesJson(*row.times)
                  : absl::StrFormat(R"("%s":%.6f)", row.step.before >= 0 ? "before_ms" : "after_ms", row.alone_ms),
        "}");
  }
  std::cout << absl::StrFormat(R"({"passed":%s,"same_model":%s,"rounds":%d,"threads":%d,"total":{%s},"steps":[%s]})",
                               failed ? "false" : "true", one_model ? "true" : "false", flags.rounds, flags.threads,
                               timesJson(total), steps)
            << "\n";
}

absl::Status writeReport(const CompareFlags& flags, const TimeChange& total, const std::vector<Row>& rows,
                         bool failed) {
  const std::string suite = absl::StrCat("tessera compare ", flags.before, " ", flags.after);
  const auto told = [](const TimeChange& times) {
    return absl::StrFormat("%s ms before, %s ms after: %+.1f %%, noise %.1f %%, %s", millisecondsText(times.before_ms),
                           millisecondsText(times.after_ms), times.change * 100, times.noise * 100, verdict(times));
  };
  std::vector<JunitCase> cases = {{flags.after, "total", failed ? told(total) : "", told(total)}};
  for (const Row& row : rows) {
    cases.push_back({flags.after, row.step.name, "",
                     absl::StrCat(describe(row.step.code), row.times ? absl::StrCat(", ", told(*row.times)) : "")});
  }
  return writeJunit(flags.junit, suite, cases);
}

int compareArtifacts(const CommandLine& line, CompareFlags flags) {
  const auto limit = shareOf(flags.fail_above);
  if (!limit.ok()) {
    (void)reportError(limit.status(), line.json);
    return kExitUsage;
  }
  // Inputs without a file are filled with seeded values, equal for both artifacts.
  flags.inputs.random = true;
  Side before, after;
  if (absl::Status status = before.open(flags.before, flags); !status.ok()) return reportError(status, line.json);
  if (absl::Status status = after.open(flags.after, flags); !status.ok()) return reportError(status, line.json);
  if (absl::Status status = measure(before, after, flags); !status.ok()) return reportError(status, line.json);
  const TimeChange total = changeOf(before.total_ms, after.total_ms);
  const std::vector<Row> rows = rowsOf(before, after);
  const bool failed = limit->has_value() && total.sure() && total.change > **limit;
  if (!flags.junit.empty()) {
    if (absl::Status status = writeReport(flags, total, rows, failed); !status.ok()) {
      return reportError(status, line.json);
    }
  }
  const bool one_model = before.manifest.model_sha256() == after.manifest.model_sha256();
  if (line.json) {
    printJson(total, rows, flags, one_model, failed);
  } else {
    printText(total, rows, flags, one_model);
    if (failed) std::cout << "slower by more than " << flags.fail_above << ", and by more than the noise\n";
  }
  return failed ? kExitInternal : kExitOk;
}

}  // namespace

void addCompareCommand(CommandLine& line) {
  CLI::App* command = line.add("compare", "Time two artifacts in alternation and show which steps changed");
  auto flags = std::make_shared<CompareFlags>();
  command->add_option("BEFORE", flags->before, "a .tsra file")->required();
  command->add_option("AFTER", flags->after, "another .tsra file")->required();
  command->add_option("-i,--input", flags->inputs.files,
                      "NAME=FILE.npy or FILE.npz; repeat for each input; other inputs get seeded values");
  flags->inputs.shapes.addChoiceTo(command);
  command->add_option("--seed", flags->inputs.seed, "seed of generated values")->capture_default_str();
  command->add_option("--rounds", flags->rounds, "timed runs of each artifact")
      ->capture_default_str()
      ->check(CLI::Range(5, 1'000'000));
  command->add_option("--warmup", flags->warmup, "warm-up runs of each artifact")
      ->capture_default_str()
      ->check(nonNegative());
  command->add_option("--threads", flags->threads)
      ->capture_default_str()
      ->check(CLI::Range(1, static_cast<int>(TESSERA_MAX_THREADS)));
  command->add_option("--fail-above", flags->fail_above,
                      "exit with 1 if AFTER is slower by more than this, such as 5%, and by more than the noise");
  flags->trust.addTo(command);
  command->add_option("--junit", flags->junit,
                      "also write a JUnit report with a test case for the total and each step");
  command->footer(
      "Exit codes: 0 compared; 1 slower than --fail-above allows; 3 the inputs do not fit; 9 an artifact cannot\nrun "
      "on this host. Both run in this process: compare only artifacts that you trust.");
  command->callback([&line, flags] { line.action = [&line, flags] { return compareArtifacts(line, *flags); }; });
}

}  // namespace tessera::client
