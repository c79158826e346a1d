// Compiles models for a target in the checking mode, which interprets every kernel, and says what became of each:
//
//   check_models --target NAME [--verbose] [--unchecked] [--keep DIR] MODEL...
//
// A MODEL that is a folder stands for the files model.onnx in its folders. The last line counts models that compiled,
// that the importer refuses, that the back end refuses, and that fail otherwise. Exit code 1 if any failed otherwise.
// --keep keeps the artifacts, for comparison with those of another build.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "compiler/driver/pipeline.h"
#include "compiler/target/target.h"
#include "proto/messages/failure.h"
#include "proto/support/cli11.h"

namespace tessera::compiler {
namespace {

namespace fs = std::filesystem;

struct Verdict {
  std::string kind;  ///< "compiled", "importer", "back end", "failed"
  std::string text;
};

Verdict judged(const absl::Status& status, const char* refusing) {
  const v1::Failure failure = failureOf(status);
  return {failure.reason() == v1::Failure::INTERNAL || failure.reason() == v1::Failure::REASON_UNSPECIFIED ? "failed"
                                                                                                           : refusing,
          failure.message()};
}

struct Flags {
  std::vector<std::string> models;
  std::string target, keep;
  bool verbose = false, unchecked = false;
};

Verdict compileOne(const std::string& path, const v1::Target& target, const std::string& scratch, const Flags& flags) {
  PlanRequest request;
  request.model_path = path;
  request.target = target;
  request.weights_path = scratch + "/weights.bin";
  request.spec.set_name(path);
  request.spec.mutable_options()->set_verify(!flags.unchecked);
  const absl::StatusOr<v1::CheckReport> report = check(request);
  if (!report.ok()) return judged(report.status(), "importer");
  if (report->problems_size() > 0) return {"importer", report->problems(0).message()};
  const absl::StatusOr<PlanResult> planned = plan(request, nullptr);
  if (!planned.ok()) return judged(planned.status(), "back end");
  AssembleRequest assembly;
  assembly.name = "model";
  assembly.plan = planned->plan;
  assembly.artifact_path =
      flags.keep.empty() ? scratch + "/model.tsra" : flags.keep + "/" + fs::path(path).stem().string() + ".tsra";
  if (planned->has_weights) assembly.weights_path = request.weights_path;
  int skipped = 0;
  for (const v1::BuildUnit& unit : planned->units) {
    absl::StatusOr<v1::BuiltObject> built = build(unit);
    if (!built.ok()) return judged(built.status(), "back end");
    for (const v1::VerifiedStep& step : built->info().verified()) skipped += !step.skipped().empty();
    assembly.objects.push_back(*std::move(built));
  }
  const absl::StatusOr<v1::Manifest> manifest = assemble(assembly);
  if (!manifest.ok()) return judged(manifest.status(), "failed");
  return {"compiled", std::to_string(planned->units.size()) + " kernels" +
                          (skipped > 0 ? ", " + std::to_string(skipped) + " steps were not checked" : "")};
}

std::vector<std::string> modelsIn(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    if (fs::exists(entry.path() / "model.onnx")) found.push_back(entry.path() / "model.onnx");
  std::ranges::sort(found);
  return found;
}

int checkAll(const Flags& flags) {
  const v1::Target* target = findBuiltinTarget(flags.target);
  if (target == nullptr) {
    std::fprintf(stderr, "there is no built-in target %s\n", flags.target.c_str());
    return 2;
  }
  const std::string scratch = fs::temp_directory_path() / ("check_models." + std::to_string(getpid()));
  fs::create_directory(scratch);
  std::map<std::string, int> counts;
  for (const std::string& path : flags.models)
    for (const std::string& model : modelsIn(path)) {
      const Verdict verdict = compileOne(model, *target, scratch, flags);
      ++counts[verdict.kind];
      if (!flags.verbose && (verdict.kind == "compiled" || verdict.kind == "importer")) continue;
      std::printf("%s: %s: %s\n", model.c_str(), verdict.kind.c_str(), verdict.text.c_str());
      std::fflush(stdout);
    }
  fs::remove_all(scratch);
  std::printf("%d compiled, %d refused by the importer, %d by the back end, %d failed\n", counts["compiled"],
              counts["importer"], counts["back end"], counts["failed"]);
  return counts["failed"] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera::compiler

int main(int argc, char** argv) {
  tessera::compiler::Flags flags;
  CLI::App app("Compiles models for a target and checks every kernel");
  app.add_option("models", flags.models, "Model files, or folders of ONNX's backend test cases")->required();
  app.add_option("--target", flags.target, "A built-in target")->required();
  app.add_flag("--verbose", flags.verbose, "Print models that compile or that the importer refuses, too");
  app.add_flag("--unchecked", flags.unchecked, "Interpret nothing");
  app.add_option("--keep", flags.keep, "Folder that the artifacts stay in");
  CLI11_PARSE(app, argc, argv);
  return tessera::compiler::checkAll(flags);
}
