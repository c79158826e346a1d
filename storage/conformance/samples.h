#pragma once

#include <string>

#include "proto/messages/project.h"
#include "storage/store_conformance.h"

/// Small entities for the conformance suite.
namespace tessera::storage {

#define ASSERT_OK(expression)                   \
  do {                                          \
    const absl::Status& status_ = (expression); \
    ASSERT_TRUE(status_.ok()) << status_;       \
  } while (false)

#define EXPECT_OK(expression)                   \
  do {                                          \
    const absl::Status& status_ = (expression); \
    EXPECT_TRUE(status_.ok()) << status_;       \
  } while (false)

inline v1::Job sampleJob(const std::string& id, int64_t create_time_us = 0) {
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::Job::QUEUED);
  job.set_request_id("request-" + id);
  job.mutable_compile()->set_name("model of " + id);
  job.mutable_compile()->mutable_target()->set_name("cascadelake");
  job.set_create_time_us(create_time_us);
  return job;
}

inline v1::Action sampleAction(const std::string& id, const std::string& key, int64_t create_time_us = 0) {
  v1::Action action;
  action.set_id(id);
  action.set_key(key);
  action.set_state(v1::Job::QUEUED);
  action.set_create_time_us(create_time_us);
  return action;
}

inline v1::Task sampleTask(const std::string& id, v1::TaskKind kind = v1::BUILD, int priority = 0,
                           int64_t ready_time_us = 0) {
  v1::Task task;
  task.set_id(id);
  task.set_key("key of " + id);
  task.set_state(v1::Task::READY);
  task.mutable_spec()->set_kind(kind);
  task.set_priority(priority);
  task.set_ready_time_us(ready_time_us);
  return task;
}

inline v1::TuningRecord sampleRecord(const std::string& id, double median_ms, int64_t create_time_us = 0) {
  v1::TuningRecord record;
  record.set_id(id);
  record.set_median_ms(median_ms);
  record.set_create_time_us(create_time_us);
  return record;
}

inline v1::Artifact sampleArtifact(const std::string& id, const std::string& key, int64_t create_time_us) {
  v1::Artifact artifact;
  artifact.set_id(id);
  artifact.set_action_key(key);
  artifact.set_create_time_us(create_time_us);
  return artifact;
}

/// The answer of one read: read(store, [](Reader& r) { return r.getJob("a"); }).
template <typename Body>
auto readOne(Store& store, Body body) -> decltype(body(std::declval<Reader&>())) {
  decltype(body(std::declval<Reader&>())) answer = absl::UnknownError("the body did not run");
  absl::Status status = store.read([&](Reader& reader) {
    answer = body(reader);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return answer;
}

}  // namespace tessera::storage
