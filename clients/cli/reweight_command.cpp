// tessera reweight: new weights for an artifact.

#include <filesystem>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "clients/cli/artifact_file.h"
#include "clients/cli/bound_weights.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/local_flags.h"
#include "clients/cli/lora.h"
#include "clients/cli/output.h"
#include "clients/cli/recorded_spec.h"
#include "clients/cli/reweight.h"
#include "clients/cli/safetensors.h"
#include "clients/cpp/external_data.h"
#include "clients/cpp/local_file.h"
#include "compiler/schedule/pins.h"
#include "proto/messages/failure.h"
#include "proto/version/version.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;

// Locations by which a model refers to files of this command.
constexpr char kWeightsLocation[] = "tessera-reweight.safetensors";
constexpr char kMergedLocation[] = "tessera-reweight.merged";

struct ReweightFlags {
  std::string artifact, weights, model, lora, output, name, timeout = "10m";
  double lora_scale = 1;
  std::vector<std::string> external_data;
  LocalFlags service;
};

/// A folder that the destructor deletes.
class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> make() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "tessera-reweight-XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, path);
    return TemporaryFolder(path);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Adds the files of external tensors that the model at `path` refers to.
absl::Status addExternalData(const std::string& path, std::map<std::string, std::string>& files) {
  for (const std::string& location : externalLocations(path)) {
    if (files.contains(location)) continue;  // the user named its file
    TESSERA_ASSIGN_OR_RETURN(auto file, resolveExternalFile(path, location));
    if (!file.empty()) files.emplace(location, std::move(file));
  }
  return absl::OkStatus();
}

/// The model with the new weights: the file itself, or --model with the tensors of a safetensors file.
absl::StatusOr<BoundWeights> chooseModel(const ReweightFlags& flags, const TemporaryFolder& folder, Reweighting& work) {
  for (const std::string& text : flags.external_data) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty())
      return absl::InvalidArgumentError(absl::StrCat("--external-data ", text, ": write LOCATION=FILE"));
    work.external_data[parts[0]] = parts[1];
  }
  const bool stored = absl::EndsWith(flags.weights, ".safetensors");
  if (!stored && !flags.model.empty())
    return absl::InvalidArgumentError("--model is the graph for a .safetensors file; an ONNX file has its own");
  if (stored && flags.model.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.weights, " has no graph: name the ONNX model that the artifact was compiled from, --model"));
  }
  const std::string& graph = stored ? flags.model : flags.weights;
  TESSERA_RETURN_IF_ERROR(addExternalData(graph, work.external_data));
  work.model = graph;
  BoundWeights bound;
  if (!stored && flags.lora.empty()) return bound;
  TESSERA_ASSIGN_OR_RETURN(onnx::ModelProto model, readGraph(graph));
  if (stored) {
    TESSERA_ASSIGN_OR_RETURN(const StoredTensors tensors, readSafetensors(flags.weights));
    TESSERA_ASSIGN_OR_RETURN(bound, bindWeights(tensors, kWeightsLocation, model));
    work.external_data[kWeightsLocation] = flags.weights;
  }
  if (!flags.lora.empty()) {
    const LoraRequest request{.path = flags.lora,
                              .scale = flags.lora_scale,
                              .files = work.external_data,
                              .merged_path = folder.file("merged.bin"),
                              .merged_location = kMergedLocation};
    TESSERA_ASSIGN_OR_RETURN(bound.merged, mergeLora(request, model));
    work.external_data[kMergedLocation] = request.merged_path;
  }
  work.model = folder.file("model.onnx");
  TESSERA_RETURN_IF_ERROR(writeGraph(model, work.model));
  return bound;
}

absl::Status checkVersion(const Reweighting& work, bool here) {
  if (!here || work.plan.compiler_version() == compilerVersion()) return absl::OkStatus();
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(absl::StrCat(work.artifact, " was compiled by ", work.plan.compiler_version(),
                                   ", this compiler is ", compilerVersion(),
                                   ": another version may pack weights in another way"));
  failure.set_found(work.plan.compiler_version());
  failure.set_accepted(compilerVersion());
  failure.set_fix("compile the model again");
  return failureStatus(failure);
}

void print(const CommandLine& line, const ReweightFlags& flags, const BoundWeights& bound, const Reweighted& done,
           int reused, bool here) {
  const int kernels = done.manifest.kernels();
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(flags.output, error));
  if (line.json) {
    std::cout << absl::StrFormat(
        R"({"output":%s,"manifest":%s,"kernels":%d,"kernels_built":%d,"weights_bound":%d,"weights_kept":%d,"weights_merged":%d,)"
        R"("times_ms":{"plan":%.3f,"write":%.3f}})"
        "\n",
        jsonString(flags.output), toJson(done.manifest), kernels, here ? 0 : kernels - reused, bound.bound, bound.kept,
        bound.merged, done.plan_ms, done.write_ms);
    return;
  }
  std::cout << "reweight " << done.manifest.name() << " for " << done.manifest.target_name() << ": " << kernels
            << (kernels == 1 ? " kernel, " : " kernels, ") << (here ? 0 : kernels - reused) << " built";
  if (bound.bound > 0) std::cout << "; " << bound.bound << " weights replaced, " << bound.kept << " kept";
  if (bound.merged > 0) std::cout << "; " << bound.merged << " low-rank products merged";
  std::cout << "\n  plan " << durationText(done.plan_ms) << ", write " << durationText(done.write_ms) << "\n  "
            << flags.output << " (" << bytesText(size) << ")" << (here ? ", without a signature" : "") << "\n";
}

absl::Status reweight(CommandLine& line, const ReweightFlags& flags) {
  TESSERA_RETURN_IF_ERROR(checkOutputPath(flags.output, /*regular=*/true));
  TESSERA_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::make());
  Reweighting work;
  work.artifact = flags.artifact;
  work.output = resolveLinks(flags.output);
  TESSERA_ASSIGN_OR_RETURN(work.manifest, readManifest(flags.artifact));
  TESSERA_ASSIGN_OR_RETURN(work.plan, readPlan(flags.artifact));
  TESSERA_ASSIGN_OR_RETURN(work.timeout_us, parseDuration(flags.timeout));
  TESSERA_ASSIGN_OR_RETURN(const BoundWeights bound, chooseModel(flags, folder, work));
  work.spec = recordedSpec(work.manifest, work.plan);
  if (!flags.name.empty()) work.spec.set_name(flags.name);
  if (const std::string ending = fs::path(work.model).extension(); ending == ".mlir" || ending == ".te")
    work.spec.set_format(ending == ".te" ? v1::TENSOR_EXPRESSION : v1::MLIR_TEXT);
  work.pins = folder.file("decisions.txt");
  TESSERA_RETURN_IF_ERROR(writeText(work.pins, compiler::printPins(compiler::pinsOf(work.plan))));

  const bool here = !flags.service.local && !line.namesServer();
  TESSERA_RETURN_IF_ERROR(checkVersion(work, here));
  int reused = 0;
  if (here) {
    TESSERA_ASSIGN_OR_RETURN(const Reweighted done, reweightHere(line, work));
    print(line, flags, bound, done, reused, here);
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const auto service, flags.service.start(line));
  TESSERA_ASSIGN_OR_RETURN(const Reweighted done, reweightOnService(line, work, reused));
  print(line, flags, bound, done, reused, here);
  return absl::OkStatus();
}

}  // namespace

void addReweightCommand(CommandLine& line) {
  CLI::App* command = line.add("reweight", "Write an artifact with the code of another one and new weights");
  auto flags = std::make_shared<ReweightFlags>();
  command->add_option("ARTIFACT", flags->artifact, "the .tsra file whose code is kept")->required();
  command
      ->add_option("--weights", flags->weights,
                   "the new weights: the model as an ONNX file (.mlir, .te), or a .safetensors file whose tensors have "
                   "the names of the model's initializers")
      ->required();
  command->add_option("--model", flags->model, "with a .safetensors file: the ONNX model of the artifact");
  CLI::Option* lora = command->add_option(
      "--lora", flags->lora,
      "a .safetensors file with pairs MODULE.lora_A.weight and MODULE.lora_B.weight: B * A is added to MODULE.weight");
  command->add_option("--lora-scale", flags->lora_scale, "factor of these products: alpha / rank of the training")
      ->needs(lora)
      ->capture_default_str();
  command->add_option("-o,--output", flags->output, "the new .tsra file")->required();
  command->add_option("--name", flags->name, "name of the new artifact (default: that of ARTIFACT)");
  command->add_option("--external-data", flags->external_data,
                      "LOCATION=FILE for external tensors that are not in the model's folder");
  command->add_option("--timeout", flags->timeout, "how long planning may run, e.g. 5m")->capture_default_str();
  flags->service.addTo(command);
  command->footer(
      "The weights are folded and packed by the decisions that ARTIFACT records; no kernel is built. The new file is,\n"
      "byte for byte, that of a compilation of the model with these weights. If a value of the old weights decided\n"
      "about the code (a weight of zeros, a scale that is a constant of a kernel), the command fails and names it.\n"
      "Without --server and --local it needs no service: a sandboxed process of this machine plans, and the new file\n"
      "has no signature. A service compiles by the same decisions and with the objects it has, and signs the file.");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      const absl::Status status = reweight(line, *flags);
      return status.ok() ? kExitOk : reportError(status, line.json);
    };
  });
}

}  // namespace tessera::client
