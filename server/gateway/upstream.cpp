#include "server/gateway/upstream.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <future>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/messages/failure.h"
#include "proto/messages/project.h"
#include "server/access/gate.h"
#include "server/gateway/web_limits.h"
#include "tessera/v1/blob_service.grpc.pb.h"

namespace tessera::server::gateway {
namespace {

/// Path of a method: "/tessera.v1.JobService/GetJob" for "tessera.v1.JobService.GetJob".
std::string pathOf(std::string_view method) {
  const size_t dot = method.rfind('.');
  return absl::StrCat("/", std::string(method.substr(0, dot)), "/", std::string(method.substr(dot + 1)));
}

/// Characters permitted in metadata. Anything else cannot be part of a token.
bool isPlainText(const std::string& text) {
  for (const char c : text) {
    if (c < ' ' || c > '~') {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status fromGrpc(const grpc::Status& status) {
  if (status.ok()) {
    return absl::OkStatus();
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  absl::Status error(code, status.error_message());
  if (const auto failure = failureInDetails(status.error_details())) {
    failureStatus(*failure).ForEachPayload(
        [&](absl::string_view url, const absl::Cord& payload) { error.SetPayload(url, payload); });
  }
  return error;
}

void Upstream::prepare(grpc::ClientContext& context, const WebCaller& caller, std::chrono::milliseconds patience) {
  context.set_deadline(std::chrono::system_clock::now() + patience);
  context.AddMetadata(kWebAddress, isPlainText(caller.address) ? caller.address : "unknown");
  if (!caller.authorization.empty()) {
    // A header that metadata cannot carry is no valid token; it is rejected like an unknown one.
    context.AddMetadata("authorization", isPlainText(caller.authorization) ? caller.authorization : "Bearer ?");
  }
  if (!caller.certificate.empty() && isPlainText(caller.certificate)) {
    context.AddMetadata(kWebCertificate, caller.certificate);
  }
  if (!caller.project.empty()) {
    context.AddMetadata(kProjectMetadata, isPlainText(caller.project) ? caller.project : "?");
  }
}

absl::Status Upstream::call(std::string_view method, const WebCaller& caller, const google::protobuf::Message& request,
                            google::protobuf::Message& response) {
  grpc::ClientContext context;
  prepare(context, caller, WebLimits::kCallPatience);
  grpc::ByteBuffer sent, received;
  bool own_buffer = false;
  grpc::Status status =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(request, &sent, &own_buffer);
  if (!status.ok()) {
    return fromGrpc(status);
  }
  std::promise<grpc::Status> answered;
  stub_.UnaryCall(&context, pathOf(method), grpc::StubOptions(), &sent, &received,
                  [&answered](grpc::Status outcome) { answered.set_value(std::move(outcome)); });
  status = answered.get_future().get();
  if (status.ok()) {
    status = grpc::GenericDeserialize<grpc::ProtoBufferReader, google::protobuf::Message>(&received, &response);
  }
  return fromGrpc(status);
}

absl::StatusOr<std::string> Upstream::read(const WebCaller& caller, const std::string& sha256, int64_t offset,
                                           int64_t length) {
  grpc::ClientContext context;
  prepare(context, caller, WebLimits::kCallPatience);
  v1::DownloadBlobRequest request;
  request.set_sha256(sha256);
  request.set_offset(offset);
  request.set_limit(length);
  const auto blobs = v1::BlobService::NewStub(channel_);
  const auto reader = blobs->DownloadBlob(&context, request);
  std::string bytes;
  v1::DownloadBlobResponse chunk;
  while (reader->Read(&chunk)) {
    bytes += chunk.data();
  }
  if (const grpc::Status status = reader->Finish(); !status.ok()) {
    return fromGrpc(status);
  }
  return bytes;
}

}  // namespace tessera::server::gateway
