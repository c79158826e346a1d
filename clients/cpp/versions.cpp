#include "clients/cpp/versions.h"

#include <thread>

#include "absl/strings/str_cat.h"

namespace tessera::client {

absl::Status watchVersions(Channel& channel, const std::string& job_id, const std::atomic<bool>& stop,
                           const std::function<absl::Status(const v1::ArtifactVersion&)>& on_version,
                           std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  v1::WatchArtifactRequest request;
  request.set_job_id(job_id);
  auto last_sign_of_life = Clock::now();
  while (!stop) {
    grpc::ClientContext context;
    // It goes on behind the cursor: a short stream costs nothing but asking again.
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    auto reader = channel.versions().WatchArtifact(&context, request);
    v1::WatchArtifactResponse response;
    while (reader->Read(&response)) {
      request.set_cursor(response.version().number());
      if (absl::Status status = on_version(response.version()); !status.ok()) {
        context.TryCancel();
        (void)reader->Finish();
        return status;
      }
    }
    const grpc::Status status = reader->Finish();
    if (status.ok()) return absl::OkStatus();
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      last_sign_of_life = Clock::now();
      continue;
    }
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE && status.error_code() != grpc::StatusCode::CANCELLED)
      return fromGrpc(status);
    if (Clock::now() - last_sign_of_life > patience)
      return absl::UnavailableError(absl::StrCat("the server at ", channel.address(), " has been away for too long"));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return absl::OkStatus();
}

}  // namespace tessera::client
