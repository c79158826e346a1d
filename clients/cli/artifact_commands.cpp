// tessera artifacts | fetch | inspect

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/command.h"
#include "clients/cli/list_output.h"
#include "clients/cli/output.h"
#include "clients/cli/progress.h"
#include "clients/cli/trust_flags.h"
#include "clients/cpp/transfer.h"

namespace tessera::client {
namespace {

using ArtifactStub = v1::ArtifactService::Stub;

void addArtifacts(CommandLine& line) {
  CLI::App* command = line.add("artifacts", "List artifacts");
  auto flags = std::make_shared<ListFlags>();
  flags->addTo(command, "id, name, target, model, job, create_time", "create_time desc");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      return printList<v1::ListArtifactsRequest>(
          line, *flags, "artifacts", {"ARTIFACT", "NAME", "TARGET", "SIZE", "KERNELS", "CREATED"},
          [&](const auto& request) {
            return (*channel)->call((*channel)->artifacts(), &ArtifactStub::ListArtifacts, request);
          },
          [](const auto& page) -> const auto& { return page.artifacts(); },
          [](const v1::Artifact& artifact) {
            return std::vector<std::string>{artifact.id(),
                                            artifact.manifest().name(),
                                            artifact.manifest().target_name(),
                                            bytesText(artifact.blob().size_bytes()),
                                            absl::StrCat(artifact.manifest().kernels()),
                                            timeText(artifact.create_time_us())};
          });
    };
  });
}

int download(const CommandLine& line, Channel& channel, const v1::Digest& digest, const std::string& path,
             const std::string& json, bool sign) {
  ProgressView view(line.quiet || line.json);
  absl::Status status =
      downloadFile(channel, digest, path, [&](int64_t done, int64_t total) { view.transfer("download", done, total); });
  view.finish();
  if (status.ok() && sign) status = fetchSignatureAndTrustLocal(channel, digest.sha256(), path);
  if (!status.ok()) return reportError(status, line.json);
  std::cout << (line.json ? json : path) << "\n";
  return 0;
}

int fetchBlob(const CommandLine& line, Channel& channel, const std::string& sha256, const std::string& output) {
  auto digest = findBlob(channel, sha256);
  if (!digest.ok()) return reportError(digest.status(), line.json);
  return download(line, channel, *digest, output.empty() ? digest->sha256() : output, toJson(*digest), /*sign=*/false);
}

int fetchArtifact(const CommandLine& line, Channel& channel, const std::string& id, const std::string& output) {
  v1::GetArtifactRequest request;
  request.set_id(id);
  auto answer = channel.call(channel.artifacts(), &ArtifactStub::GetArtifact, request);
  if (!answer.ok()) return reportError(answer.status(), line.json);
  const v1::Artifact& artifact = answer->artifact();
  // The artifact's creator chose the name: use only its last component, so that it cannot point to another folder.
  const std::string name = std::filesystem::path(artifact.manifest().name()).filename().string();
  const std::string path = !output.empty() ? output : absl::StrCat(name.empty() ? artifact.id() : name, ".tsra");
  return download(line, channel, artifact.blob(), path, toJson(artifact), /*sign=*/true);
}

void addFetch(CommandLine& line) {
  CLI::App* command = line.add("fetch", "Download an artifact with its signature (FILE.sig), or another blob");
  auto id = std::make_shared<std::string>(), output = std::make_shared<std::string>();
  auto blob = std::make_shared<bool>(false);
  command->add_option("ID", *id, "the artifact")->required();
  command->add_option("-o,--output", *output, "output file (default: its name + .tsra; for a blob its SHA-256)");
  command->add_flag("--blob", *blob, "ID is the SHA-256 of any blob, e.g. of a failure's reproducer");
  command->callback([&line, id, output, blob] {
    line.action = [&line, id, output, blob] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      return *blob ? fetchBlob(line, **channel, *id, *output) : fetchArtifact(line, **channel, *id, *output);
    };
  });
}

/// Inputs and outputs of an artifact, or of one of its variants.
std::string interfaceText(const std::string& indent, const v1::Manifest& manifest, const auto& described) {
  std::string text;
  for (const auto& input : described.inputs()) {
    const auto named = [&](const v1::TensorValue& value) { return value.spec().name() == input.name(); };
    const bool fixed = std::ranges::any_of(manifest.fixed_inputs(), named);
    const bool optional = std::ranges::any_of(manifest.default_inputs(), named);
    absl::StrAppend(&text, indent, "input   ", input.name(), ": ", typeText(input), fixed ? ", fixed" : "",
                    optional ? ", optional\n" : "\n");
  }
  for (const auto& output : described.outputs()) {
    absl::StrAppend(&text, indent, "output  ", output.name(), ": ", typeText(output), "\n");
  }
  return text;
}

std::string variantText(const v1::Manifest::Variant& variant) {
  return absl::StrJoin(variant.dimensions(), " ", [](std::string* out, const v1::DimensionBinding& dimension) {
    absl::StrAppend(out, dimensionText(dimension));
  });
}

std::string describe(const v1::Manifest& manifest) {
  std::string text = absl::StrCat(manifest.name(), " for ", manifest.target_name(), "\n");
  if (manifest.variants_size() == 0) {
    absl::StrAppend(&text, interfaceText("  ", manifest, manifest));
  } else {
    const bool one = manifest.variants_size() == 1;  // a variant for ranges
    absl::StrAppend(&text, "  ", manifest.variants_size(),
                    one ? " variant\n" : " variants; the inputs' shapes choose\n");
  }
  for (const auto& variant : manifest.variants()) {
    absl::StrAppend(&text, "  variant ", variantText(variant), ": ", variant.steps(), " steps, ",
                    absl::StrFormat("%.3g", static_cast<double>(variant.flops()) / 1e9), " GFLOP a run, arena ",
                    bytesText(variant.arena_bytes()), "\n", interfaceText("    ", manifest, variant));
  }
  for (const v1::State& state : manifest.states()) {
    absl::StrAppend(&text, "  state ", state.input(), "=", state.output(),
                    state.has_growing_dim() ? absl::StrCat(", grows along dimension ", state.growing_dim()) : "", "\n");
  }
  absl::StrAppend(&text, "  ", manifest.kernels(), " kernels");
  if (manifest.variants_size() == 0) {
    absl::StrAppend(&text, ", ", manifest.steps(), " steps, ",
                    absl::StrFormat("%.3g", static_cast<double>(manifest.flops()) / 1e9), " GFLOP a run");
  }
  for (const std::string& message : manifest.run_faults())
    absl::StrAppend(&text, "\n  an error of some runs: ", message);
  int64_t arena_bytes = manifest.arena_bytes();
  for (const auto& variant : manifest.variants()) arena_bytes = std::max(arena_bytes, variant.arena_bytes());
  absl::StrAppend(&text, "\n  weights ", bytesText(manifest.weights_bytes()));
  if (manifest.prepared_bytes() > 0)
    absl::StrAppend(&text, ", prepared weights ", bytesText(manifest.prepared_bytes()));
  absl::StrAppend(&text, ", arena ", bytesText(arena_bytes), "\n  ");
  if (manifest.simulated()) {
    absl::StrAppend(&text, "is a program for a described chip, which `tessera run` simulates");
  } else if (manifest.opencl()) {
    absl::StrAppend(&text, "is a program for OpenCL devices; kernels.cl has its source");
  } else {
    absl::StrAppend(&text, "needs ", manifest.code().triple(), " with ",
                    absl::StrJoin(manifest.code().features(), " "));
  }
  absl::StrAppend(&text, "\n  compiler ", manifest.compiler_version(), ", model ", manifest.model_sha256(), "\n");
  if (manifest.scalar_kernels_size() > 0) {
    absl::StrAppend(&text, "  plain loops: ", absl::StrJoin(manifest.scalar_kernels(), ", "), "\n");
  }
  return text;
}

void addInspect(CommandLine& line) {
  CLI::App* command = line.add("inspect", "Show the content of an artifact file");
  auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "a .tsra file")->required();
  command->callback([&line, path] {
    line.action = [&line, path] {
      auto manifest = readManifest(*path);
      if (!manifest.ok()) return reportError(manifest.status(), line.json);
      std::cout << (line.json ? toJson(*manifest) + "\n" : describe(*manifest));
      return 0;
    };
  });
}

}  // namespace

void addArtifactCommands(CommandLine& line) {
  addArtifacts(line);
  addFetch(line);
  addInspect(line);
}

}  // namespace tessera::client
