#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/messages/project.h"
#include "server/testing/service_bench.h"

namespace tessera::server {

/// The stubs of one caller. `project`: the project in its metadata, for which an operator acts.
struct As {
  explicit As(const std::shared_ptr<grpc::Channel>& channel, std::string spoken_for = "")
      : project(std::move(spoken_for)),
        jobs(channel),
        blobs(channel),
        artifacts(channel),
        targets(channel),
        records(channel),
        execution(channel),
        fleet(channel),
        admin(channel) {}

  template <typename Stub, typename Request, typename Response>
  grpc::Status operator()(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                          const Request& request, Response* response = nullptr) {
    grpc::ClientContext context;
    prepare(context);
    Response unread;
    return (stub.*method)(&context, request, response != nullptr ? response : &unread);
  }
  void prepare(grpc::ClientContext& context) const {
    if (!project.empty()) context.AddMetadata(kProjectMetadata, project);
  }

  std::vector<std::string> jobIds() {
    v1::ListJobsResponse page;
    const grpc::Status status = (*this)(jobs, &v1::JobService::Stub::ListJobs, v1::ListJobsRequest(), &page);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> ids;
    for (const v1::Job& job : page.jobs()) ids.push_back(job.id());
    return ids;
  }
  grpc::Status fetch(const std::string& sha256, std::string& bytes) {
    v1::DownloadBlobRequest request;
    request.set_sha256(sha256);
    return download(blobs, request, bytes);
  }
  bool misses(const std::string& content) {
    v1::FindMissingBlobsRequest request;
    *request.add_digests() = digestOf(content);
    v1::FindMissingBlobsResponse response;
    EXPECT_TRUE((*this)(blobs, &v1::BlobService::Stub::FindMissingBlobs, request, &response).ok());
    return response.missing_size() == 1;
  }

  const std::string project;
  v1::JobService::Stub jobs;
  v1::BlobService::Stub blobs;
  v1::ArtifactService::Stub artifacts;
  v1::TargetService::Stub targets;
  v1::RecordService::Stub records;
  v1::ExecutionService::Stub execution;
  v1::FleetService::Stub fleet;
  v1::AdminService::Stub admin;
};

/// A model that the fake compiler plans as two units.
inline constexpr char kTwoUnits[] = "model net: a b";

inline v1::CreateJobRequest compileOf(const std::string& model, const std::string& request_id) {
  v1::CreateJobRequest request;
  request.set_request_id(request_id);
  *request.mutable_compile()->mutable_model() = digestOf(model);
  request.mutable_compile()->set_name("net");
  request.mutable_compile()->mutable_target()->set_name("cascadelake");
  return request;
}

/// A service, and callers of several projects.
class ProjectBench : public testing::Test {
 protected:
  explicit ProjectBench(ServerOptions options = {}) : bench_(std::move(options)) {}

  As of(const std::string& project, v1::Role role = v1::CLIENT) {
    return As(bench_.clientChannel(bench_.newToken(project + "'s", role, 0, project)));
  }
  As operatorFor(const std::string& project) { return As(bench_.operator_channel, project); }

  v1::Job create(As& as, const v1::CreateJobRequest& request) {
    v1::CreateJobResponse response;
    const grpc::Status status = as(as.jobs, &v1::JobService::Stub::CreateJob, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job();
  }
  v1::Job get(As& as, const std::string& id) {
    v1::GetJobRequest request;
    request.set_id(id);
    v1::GetJobResponse response;
    (void)as(as.jobs, &v1::JobService::Stub::GetJob, request, &response);
    return response.job();
  }
  /// Uploads and compiles a model, and waits for the job's end.
  v1::Job compiled(As& as, const std::string& model, const std::string& request_id) {
    EXPECT_TRUE(upload(as.blobs, model).ok());
    const v1::Job job = create(as, compileOf(model, request_id));
    return ended(as, job.id());
  }
  v1::Job ended(As& as, const std::string& id) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    v1::Job job = get(as, id);
    while ((job.state() == v1::Job::QUEUED || job.state() == v1::Job::RUNNING) &&
           std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      job = get(as, id);
    }
    return job;
  }

  ServiceBench bench_;
};

}  // namespace tessera::server
