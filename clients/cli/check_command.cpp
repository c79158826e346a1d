// tessera check: lists all problems that would keep a model from compiling.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/analysis.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/output.h"
#include "tessera/v1/analysis.pb.h"

namespace tessera::client {
namespace {

std::string plural(int64_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string reportText(const v1::CheckReport& report) {
  std::vector<std::string> versions;
  for (const auto& opset : report.opsets()) {
    versions.push_back(absl::StrCat(opset.domain().empty() ? "ai.onnx" : opset.domain(), " ", opset.version()));
  }
  std::string text = plural(report.nodes(), "node");
  if (!versions.empty()) absl::StrAppend(&text, ", operator sets: ", absl::StrJoin(versions, ", "));
  text += "\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& use : report.operators()) {
    rows.push_back({use.domain().empty() ? use.name() : absl::StrCat(use.domain(), ".", use.name()),
                    absl::StrCat(use.count()), use.supported() ? "yes" : "NO"});
  }
  if (!rows.empty()) absl::StrAppend(&text, table({"OPERATOR", "NODES", "SUPPORTED"}, rows));
  for (const auto& input : report.inputs()) {
    absl::StrAppend(&text, "input ", input.name(), ": ", typeText(input), "\n");
  }
  if (!report.assumed().empty()) {
    absl::StrAppend(&text, "unbound dimensions, and the sizes that the check assumed: ",
                    absl::StrJoin(report.assumed(), ", ",
                                  [](std::string* out, const v1::DimensionBinding& dimension) {
                                    absl::StrAppend(out, dimension.name(), " = ", dimension.size());
                                  }),
                    "\n");
  }
  for (const std::string& message : report.run_faults())
    absl::StrAppend(&text, "an error of some runs, not of the compilation: ", message, "\n");
  if (report.problems().empty()) return text + "no problems\n";
  absl::StrAppend(&text, plural(report.problems_size() + report.problems_left_out(), "problem"), "\n");
  int number = 0;
  for (const v1::Failure& problem : report.problems()) {
    absl::StrAppend(&text, ++number, ". ", failureText(problem));
  }
  if (report.problems_left_out() > 0) absl::StrAppend(&text, "... and ", report.problems_left_out(), " more\n");
  if (report.unchecked_nodes() > 0) {
    absl::StrAppend(&text, plural(report.unchecked_nodes(), "node"),
                    " could not be checked, because their inputs depend on these problems\n");
  }
  return text;
}

int check(CommandLine& line, const AnalysisFlags& flags) {
  auto bytes = requestAnalysis(line, flags, v1::AnalyzeSpec::CHECK);
  if (!bytes.ok()) return reportError(bytes.status(), line.json);
  v1::CheckReport report;
  if (!report.ParseFromString(*bytes)) {
    return reportError(absl::DataLossError("the service's report cannot be read"), line.json);
  }
  std::cout << (line.json ? toJson(report) + "\n" : reportText(report));
  return exitCodeOf(report);
}

}  // namespace

void addCheckCommand(CommandLine& line) {
  CLI::App* command = line.add("check", "List all problems that would keep a model from compiling; compile nothing");
  auto flags = std::make_shared<AnalysisFlags>();
  flags->addTo(command);
  command->footer(
      "Exit codes: 0 the model would compile; 3 the model is invalid, or a dimension is unbound; 4 it is valid "
      "but\nuses an unsupported feature.");
  command->callback([&line, flags] { line.action = [&line, flags] { return check(line, *flags); }; });
}

}  // namespace tessera::client
