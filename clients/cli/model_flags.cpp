#include "clients/cli/model_flags.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/cli/fix_flag.h"
#include "clients/cli/target_flag.h"
#include "clients/cpp/digest.h"
#include "proto/support/status_macros.h"

namespace tessera::client {

void ModelFlags::addTo(CLI::App* command) {
  command->add_option("MODEL", model, "an ONNX file, MLIR text (.mlir) or tensor expressions (.te)")->required();
  command->add_option("--format", format, "onnx, mlir or te, regardless of MODEL's name")
      ->check(CLI::IsMember({"onnx", "mlir", "te"}));
  command->add_option("-t,--target", target, "host, a name (`tessera targets`), or a description's file")
      ->capture_default_str();
  shapes.addTo(command);
  command->add_option("--fix", fixed,
                      "compiles for one value of an input that decides shapes: NAME=2,3 or NAME=@F.npy");
  command->add_option(
      "--state", states,
      "INPUT=OUTPUT: the artifact keeps this output as the input of the next run; repeat for each pair. "
      "auto: pairs with names of exporters (past_key_values.0.key and present.0.key, h0 and hn)");
  training.addTo(command);
  command->add_option("--name", name, "name of the artifact (default: the model's stem)");
  command->add_option("--external-data", external_data,
                      "LOCATION=FILE for external tensors that are not in the model's folder");
  command->add_option("-O,--opt-level", opt_level, "1 plain loops, 2 full")->check(CLI::Range(0, 2));
  command
      ->add_option("--precision", precision,
                   "bf16: round operands of f32 products with weights to bf16; model: keep the model's types")
      ->check(CLI::IsMember({"model", "bf16"}))
      ->capture_default_str();
  CLI::Option* pin = command->add_option(
      "--pin", pins, "apply the decisions in this file (`explain --plan-out`); the compiler makes all others");
  CLI::Option* whole =
      command->add_option("--plan", plan, "replay this file, which must state every decision")->excludes(pin);
  command
      ->add_option("--suggest", suggestions,
                   "apply those decisions in this file (`tune`, `records --best-out`) that fit the model")
      ->excludes(pin)
      ->excludes(whole);
}

absl::Status ModelFlags::fill(CompileRequest& request) const {
  namespace fs = std::filesystem;
  request.model_path = model;
  request.digest_cache = defaultDigestCache();
  request.spec.set_name(name.empty() ? fs::path(model).stem().string() : name);
  TESSERA_ASSIGN_OR_RETURN(auto resolved, resolveTarget(target));
  *request.spec.mutable_target() = resolved;
  TESSERA_RETURN_IF_ERROR(shapes.fill(request.spec));
  for (const std::string& text : fixed) {
    TESSERA_ASSIGN_OR_RETURN(auto value, parseFix(text));
    *request.spec.add_fixed_inputs() = std::move(value);
  }
  for (const std::string& text : states) {
    if (text == "auto") {
      request.spec.mutable_state()->set_automatic(true);
      continue;
    }
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty())
      return absl::InvalidArgumentError(absl::StrCat("--state ", text, ": write INPUT=OUTPUT, or auto"));
    v1::StatePair* pair = request.spec.mutable_state()->add_pairs();
    pair->set_input(parts[0]);
    pair->set_output(parts[1]);
  }
  if (training.train) TESSERA_RETURN_IF_ERROR(training.fill(*request.spec.mutable_training()));
  for (const std::string& text : external_data) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--external-data ", text, ": write LOCATION=FILE"));
    }
    request.external_data[parts[0]] = parts[1];
  }
  // A text may start with a comment, so the content does not determine the format.
  const std::string ending = format.empty() ? fs::path(model).extension().string() : "." + format;
  request.spec.set_format(ending == ".mlir"                      ? v1::MLIR_TEXT
                          : ending == ".te"                      ? v1::TENSOR_EXPRESSION
                          : ending == ".onnx" && !format.empty() ? v1::ONNX
                                                                 : v1::MODEL_FORMAT_UNSPECIFIED);
  request.spec.mutable_options()->set_opt_level(opt_level);
  if (precision == "bf16") request.spec.mutable_options()->set_precision(v1::CompileOptions::BF16);
  for (const auto& [path, use] :
       {std::pair{&pins, v1::PINS}, {&plan, v1::WHOLE_PLAN}, {&suggestions, v1::SUGGESTIONS}}) {
    if (path->empty()) continue;
    request.pins_path = *path;
    request.spec.set_pin_use(use);
  }
  return absl::OkStatus();
}

}  // namespace tessera::client
