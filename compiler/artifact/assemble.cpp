#include "compiler/artifact/assemble.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/description.h"
#include "compiler/artifact/descriptor.h"
#include "compiler/artifact/internal_failure.h"
#include "compiler/artifact/link.h"
#include "compiler/artifact/zip_writer.h"
#include "compiler/backends/opencl/prelude.h"
#include "compiler/runtime/artifact_reader.h"
#include "compiler/runtime/module_abi.h"
#include "compiler/target/target.h"
#include "llvm/Support/MathExtras.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/element_size.h"
#include "proto/messages/plan_loops.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "tessera/v1/opencl.pb.h"
#include "tessera/v1/spatial.pb.h"

namespace tessera::compiler {
namespace {

constexpr int32_t kFormatVersion = 1;
constexpr char kScalarLoops[] = "scalar-loops";

/// A temporary folder that the destructor removes.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {
    std::filesystem::remove_all(path_, error_);
    std::filesystem::create_directory(path_, error_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  absl::Status status() const {
    return error_ ? internalFailure(absl::StrCat("cannot create ", path_, ": ", error_.message())) : absl::OkStatus();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::error_code error_;
};

/// The object of each workload, in the plan's order.
absl::StatusOr<std::vector<const v1::BuiltObject*>> objectsInOrder(const AssembleRequest& request) {
  std::map<std::string, const v1::BuiltObject*> by_hash;
  for (const v1::BuiltObject& object : request.objects) by_hash[object.info().workload_hash()] = &object;
  std::vector<const v1::BuiltObject*> ordered;
  for (const v1::Workload& workload : request.plan.workloads()) {
    const auto found = by_hash.find(workload.hash());
    if (found == by_hash.end()) {
      return internalFailure(
          absl::StrCat("no object was given for workload ", workload.hash(), " (", workload.summary(), ")"));
    }
    ordered.push_back(found->second);
  }
  return ordered;
}

absl::StatusOr<std::string> linkObjects(const v1::Plan& plan, const std::vector<const v1::BuiltObject*>& built,
                                        const std::string& folder) {
  std::vector<const v1::KernelInfo*> kernels;
  std::vector<std::string> objects;
  for (const v1::BuiltObject* object : built) {
    kernels.push_back(&object->info());
    objects.push_back(object->object());
  }
  TESSERA_ASSIGN_OR_RETURN(std::string descriptor, emitDescriptor(plan, kernels));
  objects.push_back(std::move(descriptor));
  return linkShared(objects, TESSERA_MODULE_SYMBOL, folder);
}

absl::StatusOr<std::string> linkCode(const AssembleRequest& request, const std::vector<const v1::BuiltObject*>& built,
                                     const std::string& folder) {
  const v1::Plan plan = planOfCode(request.plan);
  if (request.steps == nullptr) return linkObjects(plan, built, folder);
  std::string inputs = deterministicBytes(plan);
  for (const v1::BuiltObject* object : built) inputs += sha256Hex(deterministicBytes(*object));
  const std::string key = stepKey("code", {inputs});
  if (std::optional<std::string> known = request.steps->find(key)) return *std::move(known);
  absl::StatusOr<std::string> code = linkObjects(plan, built, folder);
  if (code.ok()) request.steps->keep(key, *code);
  return code;
}

/// Bytes of a tensor, including the padding before the next one.
int64_t paddingOverhead(const v1::TensorSpec& spec) {
  int64_t bytes = elementBytes(spec.dtype());
  for (int64_t extent : spec.shape()) bytes *= extent;
  return (bytes + TESSERA_BUFFER_ALIGNMENT - 1) / TESSERA_BUFFER_ALIGNMENT * TESSERA_BUFFER_ALIGNMENT;
}

/// Bytes of the weights that are computed before the first run.
int64_t preparedBytes(const v1::Plan& plan) {
  int64_t bytes = 0;
  for (const v1::TensorSpec& weight : plan.preparation().outputs()) bytes += paddingOverhead(weight);
  return bytes;
}

/// Operations of one run of `variant`, which is `plan` or one of its variants.
int64_t flopsOf(const v1::Plan& plan, const v1::Plan& variant) {
  const std::vector<int64_t> iterations = iterationsOfSteps(variant);
  uint64_t flops = 0;
  for (int s = 0; s < variant.steps_size(); ++s)
    flops = llvm::SaturatingMultiplyAdd<uint64_t>(plan.workloads(variant.steps(s).workload()).flops(),
                                                  iterations[static_cast<size_t>(s)], flops);
  return static_cast<int64_t>(std::min<uint64_t>(flops, INT64_MAX));
}

v1::Manifest::Variant describeVariant(const v1::Plan& plan, const v1::Plan& variant) {
  v1::Manifest::Variant described;
  *described.mutable_dimensions() = variant.dimensions();
  *described.mutable_inputs() = variant.inputs();
  *described.mutable_outputs() = variant.outputs();
  described.set_arena_bytes(variant.arena_bytes());
  described.set_flops(flopsOf(plan, variant));
  described.set_steps(variant.steps_size());
  return described;
}

/// As many as a reader of the manifest can use; the plan has them all.
void addRunFaults(const v1::Plan& plan, v1::Manifest& manifest) {
  constexpr int kMaxListed = 16;
  for (const std::string& message : plan.run_faults().messages()) {
    const auto& known = manifest.run_faults();
    if (known.size() == kMaxListed) return;
    if (std::find(known.begin(), known.end(), message) == known.end()) manifest.add_run_faults(message);
  }
}

v1::Manifest describe(const AssembleRequest& request, const std::vector<const v1::BuiltObject*>& built) {
  const v1::Plan& plan = request.plan;
  v1::Manifest manifest;
  manifest.set_format_version(kFormatVersion);
  manifest.set_name(request.name);
  manifest.set_model_sha256(plan.model_sha256());
  manifest.set_compiler_version(plan.compiler_version());
  manifest.set_target_name(plan.target().name());
  *manifest.mutable_code() = plan.target().code();
  *manifest.mutable_inputs() = plan.inputs();
  *manifest.mutable_outputs() = plan.outputs();
  *manifest.mutable_fixed_inputs() = plan.fixed_inputs();
  *manifest.mutable_default_inputs() = plan.default_inputs();
  for (v1::State state : plan.states()) {
    state.clear_append();
    *manifest.add_states() = std::move(state);
  }
  addRunFaults(plan, manifest);
  for (const v1::Plan& variant : plan.variants()) addRunFaults(variant, manifest);
  manifest.set_arena_bytes(plan.arena_bytes());
  manifest.set_weights_bytes(plan.weights_bytes());
  manifest.set_prepared_bytes(preparedBytes(plan));
  manifest.set_simulated(isSimulated(plan.target()));
  manifest.set_opencl(runsOnOpenCl(plan.target()));
  manifest.set_kernels(plan.workloads_size());
  manifest.set_steps(plan.steps_size());
  manifest.set_flops(flopsOf(plan, plan));
  const bool ranged = std::any_of(plan.dimensions().begin(), plan.dimensions().end(),
                                  [](const v1::DimensionBinding& each) { return each.size() < 0; });
  if (plan.variants_size() > 0 || ranged) {
    *manifest.add_variants() = describeVariant(plan, plan);
    for (const v1::Plan& variant : plan.variants()) *manifest.add_variants() = describeVariant(plan, variant);
  }
  for (int i = 0; i < plan.workloads_size(); ++i) {
    const v1::KernelInfo& info = built[static_cast<size_t>(i)]->info();
    bool scalar = info.strategy() == kScalarLoops;
    for (const v1::KernelInfo::Phase& phase : info.phases()) scalar |= phase.strategy() == kScalarLoops;
    if (scalar)
      manifest.add_scalar_kernels(absl::StrCat(plan.workloads(i).symbol(), ": ", plan.workloads(i).summary()));
  }
  return manifest;
}

absl::Status checkWeights(const AssembleRequest& request) {
  const int64_t expected = request.plan.weights_bytes();
  if (request.weights_path.empty()) {
    return expected == 0 ? absl::OkStatus()
                         : internalFailure(absl::StrCat("the plan has ", expected,
                                                        " bytes of weights, "
                                                        "no weights file was given"));
  }
  std::error_code error;
  const auto size = std::filesystem::file_size(request.weights_path, error);
  if (error) return internalFailure(absl::StrCat("cannot read ", request.weights_path, ": ", error.message()));
  if (size == static_cast<uintmax_t>(expected)) return absl::OkStatus();
  return internalFailure(absl::StrCat("the weights file has ", size, " bytes, the plan expects ", expected));
}

/// The plan as stored: with the results of verifying its kernels.
std::string planBytes(const v1::Plan& plan, const std::vector<const v1::BuiltObject*>& built) {
  std::vector<v1::VerifiedStep> verified;
  for (const v1::BuiltObject* object : built) {
    verified.insert(verified.end(), object->info().verified().begin(), object->info().verified().end());
  }
  if (verified.empty()) return deterministicBytes(plan);
  v1::Plan with_kernels = plan;
  for (v1::VerifiedStep& step : verified) *with_kernels.mutable_report()->add_verified() = std::move(step);
  return deterministicBytes(with_kernels);
}

/// The kernels of a program for a described chip, serialized, in the plan's order.
absl::StatusOr<std::string> programOf(const std::vector<const v1::BuiltObject*>& built) {
  v1::SpatialProgram program;
  for (const v1::BuiltObject* object : built)
    if (!program.add_kernels()->ParseFromString(object->object()))
      return internalFailure(
          absl::StrCat("the kernel of workload ", object->info().workload_hash(), " does not parse"));
  return deterministicBytes(program);
}

/// The entries of an artifact that its kernels become.
struct Code {
  std::string_view entry;
  std::string text;
  std::string launches = {};  ///< launches.pb, of OpenCL programs
};

/// The source of a program for an OpenCL device and its launches, in the plan's order.
absl::StatusOr<Code> openClCodeOf(const std::vector<const v1::BuiltObject*>& built) {
  v1::OpenClProgram program;
  std::string functions;
  for (const v1::BuiltObject* object : built) {
    v1::OpenClKernel& kernel = *program.add_kernels();
    if (!kernel.ParseFromString(object->object()))
      return internalFailure(
          absl::StrCat("the kernel of workload ", object->info().workload_hash(), " does not parse"));
    functions += kernel.source();
    kernel.clear_source();
  }
  return Code{
      .entry = kSourceEntry, .text = opencl::preludeOf(functions) + functions, .launches = deterministicBytes(program)};
}

/// The contents of target.txt.
Requirements requirementsOf(const v1::Target& target) {
  if (isSimulated(target)) return {.triple = "", .features = {}, .simulated = target.name()};
  if (runsOnOpenCl(target)) return {.triple = "", .features = {}, .opencl = target.name()};
  return {.triple = target.code().triple(), .features = requiredFeatures(target.code()), .simulated = ""};
}

/// The code of an artifact, by the kind of its target.
absl::StatusOr<Code> codeOf(const AssembleRequest& request, const std::vector<const v1::BuiltObject*>& built,
                            const std::string& folder) {
  if (runsOnOpenCl(request.plan.target())) return openClCodeOf(built);
  const bool simulated = isSimulated(request.plan.target());
  TESSERA_ASSIGN_OR_RETURN(std::string text, simulated ? programOf(built) : linkCode(request, built, folder));
  return Code{.entry = simulated ? kKernelsEntry : kCodeEntry, .text = std::move(text)};
}

/// Writes the entries, those after the weights to `behind` unless that is empty. Computes the manifest's digests
/// meanwhile, so that the weights are read once.
absl::Status writeArtifact(const AssembleRequest& request, const Code& code, const std::string& plan,
                           const std::string& path, const std::string& behind, v1::Manifest& manifest) {
  ZipWriter zip;
  TESSERA_RETURN_IF_ERROR(zip.open(path));
  const v1::Target& target = request.plan.target();
  TESSERA_RETURN_IF_ERROR(zip.add(std::string(kRequirementsEntry), printRequirements(requirementsOf(target))));

  Sha256 code_digest;
  code_digest.update({code.text.data(), code.text.size()});
  manifest.set_code_sha256(code_digest.finish());
  TESSERA_RETURN_IF_ERROR(zip.add(std::string(code.entry), code.text, kArtifactPage));
  if (!code.launches.empty()) TESSERA_RETURN_IF_ERROR(zip.add(std::string(kLaunchesEntry), code.launches));

  if (request.plan.weights_bytes() > 0) {
    const std::string entry(kWeightsEntry);
    Sha256 digest;
    const bool known = !request.weights_sha256.empty();
    const ZipWriter::Observer observe = [&](std::span<const uint8_t> bytes) {
      if (!known) digest.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    };
    TESSERA_RETURN_IF_ERROR(behind.empty() ? zip.addFile(entry, request.weights_path, kArtifactPage, observe)
                                           : zip.addExternal(entry, request.weights_path, kArtifactPage, behind));
    manifest.set_weights_sha256(known ? request.weights_sha256 : digest.finish());
  }
  return finishArtifact(zip, plan, manifest);
}

}  // namespace

absl::StatusOr<v1::Manifest> assemble(const AssembleRequest& request) {
  TESSERA_RETURN_IF_ERROR(checkWeights(request));
  if (!request.after_weights_path.empty() && (request.weights_sha256.empty() || request.plan.weights_bytes() == 0)) {
    return internalFailure("only weights whose digest is known can stay apart");
  }
  TESSERA_ASSIGN_OR_RETURN(auto built, objectsInOrder(request));
  const ScratchFolder folder(request.artifact_path + ".link");
  if (!folder.status().ok()) return folder.status();
  TESSERA_ASSIGN_OR_RETURN(const Code code, codeOf(request, built, folder.path()));

  v1::Manifest manifest = describe(request, built);
  const std::string unfinished = folder.path() + "/artifact";
  const std::string behind = request.after_weights_path.empty() ? "" : folder.path() + "/behind";
  if (absl::Status status = writeArtifact(request, code, planBytes(request.plan, built), unfinished, behind, manifest);
      !status.ok())
    return status;
  // Renamed into place, so that the artifact appears completely or not at all.
  std::error_code error;
  if (!behind.empty()) std::filesystem::rename(behind, request.after_weights_path, error);
  if (!error) std::filesystem::rename(unfinished, request.artifact_path, error);
  if (error) return internalFailure(absl::StrCat("cannot create ", request.artifact_path, ": ", error.message()));
  return manifest;
}

}  // namespace tessera::compiler
