#include "compiler/artifact/reweight.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/description.h"
#include "compiler/artifact/zip_writer.h"
#include "compiler/runtime/artifact_reader.h"
#include "proto/messages/deterministic_bytes.h"
#include "proto/messages/failure.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

absl::Status invalid(const std::string& message, const std::string& fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::INVALID_INPUT);
  failure.set_message(message);
  failure.set_fix(fix);
  return failureStatus(failure);
}

absl::Status damaged(const std::string& path, const std::string& what) {
  return invalid(absl::StrCat(path, ": ", what), "fetch or compile the artifact again");
}

template <typename Message>
absl::StatusOr<Message> readMessage(const ArtifactFile& file, std::string_view entry, const std::string& path) {
  std::span<const uint8_t> bytes;
  if (const RuntimeStatus status = file.read(entry, &bytes); !status.ok()) return damaged(path, status.message());
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return damaged(path, absl::StrCat(std::string(entry), " is damaged"));
  return message;
}

absl::Status checkSameCode(const v1::Plan& base, const v1::Plan& plan, const std::string& path) {
  const std::vector<std::string> differences = codeDifferences(base, plan);
  if (differences.empty()) return absl::OkStatus();
  return invalid(absl::StrCat("the code of ", path, " cannot take these weights: ", absl::StrJoin(differences, "; ")),
                 "compile the model with these weights");
}

bool isMapped(std::string_view entry) { return entry == kCodeEntry || entry == kKernelsEntry || entry == kSourceEntry; }

/// Writes the zip. The entries of the base keep their order, which is that of assemble().
absl::Status write(const ReweightRequest& request, const ArtifactFile& base, const std::string& path,
                   v1::Manifest& manifest) {
  ZipWriter zip;
  TESSERA_RETURN_IF_ERROR(zip.open(path));
  for (const ZipEntry& entry : base.entries()) {
    if (entry.name == kPlanEntry || entry.name == kManifestEntry || entry.name == kManifestJsonEntry) continue;
    if (entry.name == kWeightsEntry) {
      Sha256 digest;
      TESSERA_RETURN_IF_ERROR(
          zip.addFile(entry.name, request.weights_path, kArtifactPage, [&digest](std::span<const uint8_t> bytes) {
            digest.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
          }));
      manifest.set_weights_sha256(digest.finish());
      continue;
    }
    std::span<const uint8_t> bytes;
    if (const RuntimeStatus status = base.read(entry.name, &bytes); !status.ok())
      return damaged(request.base_path, status.message());
    TESSERA_RETURN_IF_ERROR(zip.add(entry.name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                    isMapped(entry.name) ? kArtifactPage : 1));
  }
  return finishArtifact(zip, deterministicBytes(request.plan), manifest);
}

}  // namespace

absl::StatusOr<v1::Manifest> reweight(const ReweightRequest& request) {
  ArtifactFile base;
  if (const RuntimeStatus status = ArtifactFile::open(request.base_path, &base); !status.ok())
    return damaged(request.base_path, status.message());
  TESSERA_ASSIGN_OR_RETURN(auto plan, readMessage<v1::Plan>(base, kPlanEntry, request.base_path));
  TESSERA_ASSIGN_OR_RETURN(auto manifest, readMessage<v1::Manifest>(base, kManifestEntry, request.base_path));
  TESSERA_RETURN_IF_ERROR(checkSameCode(plan, request.plan, request.base_path));
  if ((base.find(kWeightsEntry) != nullptr) != (request.plan.weights_bytes() > 0))
    return damaged(request.base_path, "the plan and the entries disagree about weights");

  manifest.set_name(request.name);
  manifest.set_model_sha256(request.plan.model_sha256());
  // Renamed into place, so that the artifact appears completely or not at all.
  const std::string unfinished = request.artifact_path + ".unfinished";
  absl::Cleanup remove = [&unfinished] {
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
  };
  TESSERA_RETURN_IF_ERROR(write(request, base, unfinished, manifest));
  std::error_code error;
  std::filesystem::rename(unfinished, request.artifact_path, error);
  if (error) return invalid(absl::StrCat("cannot create ", request.artifact_path, ": ", error.message()), "");
  std::move(remove).Cancel();
  return manifest;
}

}  // namespace tessera::compiler
