#include "storage/columns.h"

#include <cmath>
#include <cstdint>
#include <map>

#include "proto/messages/project.h"
#include "storage/record_properties.h"

namespace tessera::storage {
namespace {

constexpr char kBetweenLabels = '\x1f';  // labels cannot contain control characters

Value whole(int64_t number) { return Value(number); }

}  // namespace

std::string indexedPart(const std::string& text) {
  constexpr size_t kMost = 2000;
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // within a character of UTF-8
  return text.substr(0, end);
}

const v1::CompileSpec& modelOf(const v1::Job& job) {
  return job.has_analyze() ? job.analyze().compile() : job.has_tune() ? job.tune().compile() : job.compile();
}

std::string targetNameOf(const v1::Job& job) {
  const v1::TargetRef& target = modelOf(job).target();
  return target.has_inline_() ? target.inline_().name() : target.name();
}

double nanToZero(double value) { return std::isnan(value) ? 0.0 : value; }

std::vector<Value> columnsOf(const v1::Job& job) {
  return {job.id(),
          whole(job.state()),
          whole(job.spec_case()),
          targetNameOf(job),
          modelOf(job).name(),
          job.request_id(),
          job.action_key(),
          whole(job.cached() ? 1 : 0),
          whole(job.priority()),
          whole(job.create_time_us()),
          whole(job.end_time_us()),
          projectOf(job),
          labelsText(job)};
}

std::vector<Value> columnsOf(const v1::Artifact& artifact) {
  return {artifact.id(),
          artifact.manifest().name(),
          artifact.manifest().target_name(),
          artifact.manifest().model_sha256(),
          artifact.job_id(),
          whole(artifact.create_time_us()),
          projectOf(artifact)};
}

std::vector<Value> columnsOf(const v1::TuningRecord& record) {
  return {record.id(),
          record.workload_hash(),
          indexedPart(record.workload_summary()),
          indexedPart(record.workload_shape().operators()),
          record.target_name(),
          record.target_hash(),
          record.hostname(),
          record.job_id(),
          record.artifact_id(),
          record.mode(),
          record.method(),
          whole(record.outcome()),
          indexedPart(record.validation()),
          whole(record.threads()),
          whole(record.trial()),
          nanToZero(record.median_ms()),
          speedOf(record),
          whole(record.create_time_us()),
          projectOf(record)};
}

std::vector<Value> columnsOf(const StoredTarget& stored) {
  return {stored.target.name(), stored.target.summary(), whole(stored.target.family()), stored.project};
}

std::vector<Value> columnsOf(const v1::Worker& worker) {
  return {worker.id(), whole(worker.state()), worker.host().hostname(), worker.compiler_version(),
          whole(worker.last_seen_us())};
}

std::vector<Value> columnsOf(const v1::Task& task) {
  return {task.id(),
          whole(task.state()),
          whole(task.spec().kind()),
          whole(task.priority()),
          task.worker_id(),
          whole(task.create_time_us()),
          projectOf(task)};
}

std::string labelPart(std::string_view key) { return std::string(1, kBetweenLabels).append(key).append("="); }

std::string labelPart(std::string_view key, std::string_view value) {
  return labelPart(key).append(value).append(1, kBetweenLabels);
}

std::string labelsText(const v1::Job& job) {
  std::string text;
  for (const auto& [key, value] : std::map<std::string, std::string>(job.labels().begin(), job.labels().end())) {
    text += labelPart(key, value);
  }
  return text;
}

}  // namespace tessera::storage
