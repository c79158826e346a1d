#include "server/workflows/project_inputs.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/run_checks.h"
#include "server/workflows/versions.h"

namespace tessera::server {
namespace {

/// Checks that the project holds the blob, with the stated size.
absl::Status requireBlob(const ProjectInputs& own, const v1::Digest& digest, const std::string& field) {
  const auto size = own.reader.blobSize(digest.sha256());
  if (!size.ok() && !absl::IsNotFound(size.status())) {
    return size.status();
  }
  // Knowing a digest does not prove possession of the content.
  TESSERA_ASSIGN_OR_RETURN(const bool held, own.reader.mayReadBlob(own.project, digest.sha256()));
  v1::Failure failure;
  if (size.ok() && held) {
    // All jobs that share the work read the blob by this digest, so a wrong size must not reach them.
    if (*size == digest.size_bytes()) {
      return absl::OkStatus();
    }
    failure.set_reason(v1::Failure::INVALID_INPUT);
    failure.set_message(absl::StrCat(field, ".size_bytes is ", digest.size_bytes(), ", but blob ", digest.sha256(),
                                     " has ", *size, " bytes"));
    failure.set_attribute(absl::StrCat(field, ".size_bytes"));
    failure.set_found(absl::StrCat(digest.size_bytes()));
    failure.set_accepted(absl::StrCat(*size));
    failure.set_fix("send the digest as it was uploaded");
    return failureStatus(failure);
  }
  failure.set_reason(v1::Failure::MISSING_BLOB);
  failure.set_message(absl::StrCat(field, " refers to blob ", digest.sha256(), ", which is not on the server"));
  failure.set_attribute(field);
  failure.set_found(digest.sha256());
  failure.set_accepted("the digest of an uploaded blob");
  failure.set_fix("upload it with BlobService.UploadBlob, then send the request again");
  return failureStatus(failure);
}

template <typename Spec>
/// Checks a run's artifact and its inputs.
absl::StatusOr<v1::Artifact> requireArtifact(const ProjectInputs& own, const Spec& spec, const std::string& field) {
  auto artifact = own.reader.getArtifact(own.project, spec.artifact_id());
  if (absl::IsNotFound(artifact.status())) {
    return absl::NotFoundError(
        absl::StrCat(field, ".artifact_id: no artifact ", spec.artifact_id(), "; ListArtifacts names those there are"));
  }
  TESSERA_RETURN_IF_ERROR(artifact.status());
  TESSERA_RETURN_IF_ERROR(requireBlob(own, artifact->blob(), absl::StrCat(field, ".artifact_id")));
  for (int i = 0; i < spec.inputs_size(); ++i) {
    if (spec.inputs(i).has_blob()) {
      TESSERA_RETURN_IF_ERROR(requireBlob(own, spec.inputs(i).blob(), absl::StrCat(field, ".inputs[", i, "].blob")));
    }
  }
  TESSERA_RETURN_IF_ERROR(checkRunInputs(absl::StrCat(field, ".inputs"), artifact->manifest(), spec.inputs(),
                                         std::is_same_v<Spec, v1::ProfileSpec>));
  return artifact;
}

template <typename Spec>
/// Resolves `job_id` and `version` of a run.
absl::Status nameArtifactOf(storage::Reader& reader, const std::string& project, Spec& spec) {
  if (spec.job_id().empty()) {
    return absl::OkStatus();
  }
  const auto job = reader.getJob(spec.job_id());
  // The same answer for a missing job and another project's.
  if (absl::IsNotFound(job.status()) || (job.ok() && projectOf(*job) != project)) {
    return absl::NotFoundError(absl::StrCat("no job ", spec.job_id(), "; ListJobs names those there are"));
  }
  TESSERA_RETURN_IF_ERROR(job.status());
  TESSERA_ASSIGN_OR_RETURN(const v1::ArtifactVersion version, versionToRun(reader, *job, spec.version()));
  spec.set_artifact_id(version.artifact_id());
  spec.set_version(version.number());
  return absl::OkStatus();
}

/// Checks a model, its pins and its external data.
absl::Status requireModel(const ProjectInputs& own, const v1::CompileSpec& spec) {
  TESSERA_RETURN_IF_ERROR(requireBlob(own, spec.model(), "compile.model"));
  if (spec.has_pins()) {
    TESSERA_RETURN_IF_ERROR(requireBlob(own, spec.pins(), "compile.pins"));
  }
  for (const auto& [location, digest] : spec.external_data()) {
    TESSERA_RETURN_IF_ERROR(requireBlob(own, digest, absl::StrCat("compile.external_data[", location, "]")));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status nameArtifact(storage::Reader& reader, const std::string& project, v1::CreateJobRequest& request) {
  if (request.has_execute()) {
    return nameArtifactOf(reader, project, *request.mutable_execute());
  }
  return request.has_profile() ? nameArtifactOf(reader, project, *request.mutable_profile()) : absl::OkStatus();
}

absl::Status requireInputs(const ProjectInputs& own, const v1::CreateJobRequest& request) {
  if (request.has_compile()) {
    return requireModel(own, request.compile());
  }
  if (request.has_analyze()) {
    return requireModel(own, request.analyze().compile());
  }
  if (request.has_tune()) {
    return requireModel(own, request.tune().compile());
  }
  return request.has_execute() ? requireArtifact(own, request.execute(), "execute").status()
                               : requireArtifact(own, request.profile(), "profile").status();
}

}  // namespace tessera::server
