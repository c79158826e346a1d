#include "compiler/artifact/description.h"

#include <google/protobuf/util/json_util.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/internal_failure.h"
#include "compiler/runtime/artifact_reader.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::StatusOr<std::string> jsonText(const v1::Manifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(manifest, &text, options);
  if (!status.ok()) return internalFailure(absl::StrCat("the manifest has no JSON form: ", status.ToString()));
  return text;
}

}  // namespace

v1::Plan planOfCode(const v1::Plan& plan) {
  v1::Plan reduced = plan;
  reduced.clear_model_sha256();
  reduced.clear_report();
  for (v1::Plan& variant : *reduced.mutable_variants()) variant.clear_report();
  return reduced;
}

absl::Status finishArtifact(ZipWriter& zip, const std::string& plan, const v1::Manifest& manifest) {
  TESSERA_RETURN_IF_ERROR(zip.add(std::string(kPlanEntry), plan));
  TESSERA_RETURN_IF_ERROR(zip.add(std::string(kManifestEntry), deterministicBytes(manifest)));
  TESSERA_ASSIGN_OR_RETURN(const std::string json, jsonText(manifest));
  TESSERA_RETURN_IF_ERROR(zip.add(std::string(kManifestJsonEntry), json));
  return zip.finish();
}

}  // namespace tessera::compiler
