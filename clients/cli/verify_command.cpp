// tessera verify: compares an artifact's outputs with reference outputs.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/command.h"
#include "clients/cli/comparison.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/junit.h"
#include "clients/cli/local_run.h"
#include "clients/cli/output.h"
#include "clients/cli/tensor_flags.h"
#include "clients/cpp/digest.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

struct VerifyFlags {
  std::string model, artifact, junit;
  std::vector<std::string> references;
  TrustFlags trust;
  RunInputs inputs;
  double tolerance = 1e-4;
  int threads = 1;
};

// Checks that the artifact belongs to the model: a correct result of another model proves nothing.
absl::Status checkModel(const VerifyFlags& flags) {
  TESSERA_ASSIGN_OR_RETURN(auto manifest, readManifest(flags.artifact));
  TESSERA_ASSIGN_OR_RETURN(auto digest, cachedDigestOfFile(flags.model, defaultDigestCache()));
  if (digest.sha256() == manifest.model_sha256()) return absl::OkStatus();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_MODEL);
  failure.set_message(absl::StrCat(flags.artifact, " was not compiled from ", flags.model));
  failure.set_found(digest.sha256());
  failure.set_accepted(manifest.model_sha256());
  failure.set_fix("compile the model again");
  return failureStatus(failure);
}

absl::StatusOr<std::vector<Difference>> compareOutputs(const VerifyFlags& flags) {
  TESSERA_ASSIGN_OR_RETURN(auto references, readInputs(flags.references, "--reference"));
  TESSERA_ASSIGN_OR_RETURN(auto artifact, loadArtifact(flags.artifact, flags.trust, /*verify_weights=*/true));
  RunBuffers buffers;
  TESSERA_RETURN_IF_ERROR(buffers.prepare(artifact.get(), flags.inputs));
  TESSERA_ASSIGN_OR_RETURN(auto session, createSession(artifact.get(), flags.threads, buffers.variant));
  const tessera_status code =
      tessera_session_run(session.get(), buffers.in.data(), buffers.in.size(), buffers.out.data(), buffers.out.size());
  if (code != TESSERA_OK) return runtimeError(code);
  buffers.takeExtents(session.get());

  std::vector<Difference> differences;
  for (size_t i = 0; i < buffers.out.size(); ++i) {
    const v1::TensorSpec& spec = buffers.output_specs[i];
    const auto reference = references.find(spec.name());
    if (reference == references.end()) {
      differences.push_back({.name = spec.name(), .why = "the reference has no array of that name", .measured = false});
      continue;
    }
    const Tensor actual{spec,
                        {static_cast<const char*>(buffers.out[i].data), static_cast<size_t>(buffers.out_bytes[i])}};
    differences.push_back(compare(spec.name(), actual, reference->second, flags.tolerance));
    references.erase(reference);
  }
  for (const auto& [name, tensor] : references) {
    differences.push_back({.name = name, .why = "the artifact has no output of that name", .measured = false});
  }
  return differences;
}

// One test case for each output.
absl::Status writeReport(const VerifyFlags& flags, const std::vector<Difference>& differences) {
  std::vector<JunitCase> cases;
  for (const Difference& each : differences) {
    cases.push_back({flags.model, each.name, each.why,
                     each.measured ? absl::StrFormat("largest error %.3g, relative %.3g", each.absolute, each.relative)
                                   : "the outputs cannot be compared"});
  }
  return writeJunit(flags.junit, absl::StrCat("tessera verify ", flags.model), cases);
}

int verify(const CommandLine& line, const VerifyFlags& flags) {
  if (absl::Status status = checkModel(flags); !status.ok()) return reportError(status, line.json);
  auto differences = compareOutputs(flags);
  if (!differences.ok()) return reportError(differences.status(), line.json);
  size_t failed = 0;
  std::vector<std::vector<std::string>> rows;
  std::string json;
  for (const Difference& each : *differences) {
    failed += each.passed() ? 0 : 1;
    rows.push_back({each.name, each.measured ? absl::StrFormat("%.3g", each.absolute) : "-",
                    each.measured ? absl::StrFormat("%.3g", each.relative) : "-", each.passed() ? "ok" : each.why});
    absl::StrAppend(&json, json.empty() ? "" : ",", "{\"name\":", jsonString(each.name),
                    ",\"max_error\":", each.measured ? absl::StrFormat("%g", each.absolute) : "null",
                    ",\"relative_error\":", each.measured ? absl::StrFormat("%g", each.relative) : "null",
                    ",\"passed\":", each.passed() ? "true" : "false", ",\"why\":", jsonString(each.why), "}");
  }
  if (!flags.junit.empty()) {
    if (absl::Status status = writeReport(flags, *differences); !status.ok()) {
      return reportError(status, line.json);
    }
  }
  if (line.json) {
    std::cout << absl::StrFormat(R"({"passed":%s,"tolerance":%g,"outputs":[%s]})", failed ? "false" : "true",
                                 flags.tolerance, json)
              << "\n";
  } else {
    std::cout << table({"OUTPUT", "LARGEST ERROR", "RELATIVE", "VERDICT"}, rows)
              << absl::StrFormat("%d of %d outputs within %g\n", rows.size() - failed, rows.size(), flags.tolerance);
  }
  return failed ? kExitInternal : kExitOk;
}

}  // namespace

void addVerifyCommand(CommandLine& line) {
  CLI::App* command = line.add("verify", "Compare an artifact's outputs with reference outputs");
  auto flags = std::make_shared<VerifyFlags>();
  command->add_option("MODEL", flags->model, "the model file that the artifact must belong to")->required();
  command->add_option("ARTIFACT", flags->artifact, "a .tsra file")->required();
  command->add_option("--reference", flags->references, "expected outputs: FILE.npz, or NAME=FILE.npy; repeat")
      ->required();
  command->add_option("-i,--input", flags->inputs.files, "NAME=FILE.npy or FILE.npz; repeat for each input");
  command
      ->add_option("--tolerance", flags->tolerance,
                   "tolerance for floats, relative to the reference's largest magnitude")
      ->capture_default_str()
      ->check(nonNegative());
  command->add_option("--threads", flags->threads)
      ->capture_default_str()
      ->check(CLI::Range(1, static_cast<int>(TESSERA_MAX_THREADS)));
  flags->trust.addTo(command);
  command->add_option("--junit", flags->junit, "also write a JUnit report with a test case for each output");
  command->footer(
      "Exit codes: 0 all outputs are correct; 1 an output is wrong; 3 the artifact belongs to another model,\nor the "
      "inputs do not fit. Runs in this process: verify only artifacts that you trust.");
  command->callback([&line, flags] { line.action = [&line, flags] { return verify(line, *flags); }; });
}

}  // namespace tessera::client
