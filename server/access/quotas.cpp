#include "server/access/quotas.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "proto/messages/failure.h"
#include "proto/messages/project.h"
#include "proto/support/read_file.h"
#include "proto/support/status_macros.h"

namespace tessera::server {
namespace {

/// The first fault in the text.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) {
      text_ = absl::StrCat(line + 1, ":", column + 1, ": ", message);
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status check(const v1::Quota& quota, const std::string& whose) {
  if (quota.queued_jobs() < 0 || quota.running_jobs() < 0 || quota.stored_bytes() < 0 ||
      !(quota.calls_per_second() >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("the quota of ", whose, " is negative; 0 is as much as there is"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Quotas> parse(const std::string& text) {
  v1::Quotas quotas;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &quotas)) {
    return absl::InvalidArgumentError(error.text());
  }
  TESSERA_RETURN_IF_ERROR(check(quotas.default_(), "all others"));
  std::map<std::string, int> seen;
  for (const v1::Quotas::Of& entry : quotas.of()) {
    if (!isProjectName(entry.project())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "project \"", entry.project(), "\" is no name: a lower-case letter, then at most 62 of a-z, 0-9, '-'"));
    }
    if (++seen[entry.project()] > 1) {
      return absl::InvalidArgumentError(absl::StrCat("project ", entry.project(), " has two quotas"));
    }
    TESSERA_RETURN_IF_ERROR(check(entry.quota(), entry.project()));
  }
  return quotas;
}

}  // namespace

absl::Status quotaExceeded(const std::string& project, const std::string& quota, double limit, double used,
                           int64_t retry_after_us, const std::string& fix) {
  v1::Failure failure;
  failure.set_reason(v1::Failure::QUOTA_EXCEEDED);
  failure.set_attribute(quota);
  failure.set_found(absl::StrCat(used));
  failure.set_accepted(absl::StrCat("at most ", limit));
  failure.set_message(absl::StrCat("project ", project, " has used up its quota ", quota, " of ", limit, " (it has ",
                                   used, "); try again in ", static_cast<double>(retry_after_us) / 1e6, " s"));
  failure.set_fix(fix);
  failure.set_retry_after_us(retry_after_us);
  return failureStatus(failure);
}

absl::Status outOfBytes(const std::string& project, int64_t limit, const storage::Usage& usage) {
  constexpr int64_t kHourUs = int64_t{3600} * 1'000'000;  // nothing is deleted sooner: see kMinKeepUs
  return quotaExceeded(
      project, "stored_bytes", static_cast<double>(limit), static_cast<double>(usage.blob_bytes), kHourUs,
      "finish what uploads began; ask the operator to collect what is no longer wanted (`tessera admin gc`), or for "
      "more");
}

void QuotaRefusals::note(const std::string& project, const absl::Status& answer) {
  if (!absl::IsResourceExhausted(answer)) {
    return;
  }
  const v1::Failure failure = failureOf(answer);
  if (failure.reason() != v1::Failure::QUOTA_EXCEEDED) {
    return;
  }
  const std::lock_guard lock(mutex_);
  Project& refused = projects_[project];
  ++refused.refusals;
  ++(isNamed(refused) ? refused.own : others_)[failure.attribute()];
}

/// The most frequently rejected projects have a name; a project with equally many rejections takes no name from
/// another.
bool QuotaRefusals::isNamed(Project& project) {
  if (project.named) {
    return true;
  }
  if (named_.size() < kNamed) {
    named_.push_back(&project);
    return project.named = true;
  }
  Project*& least = *std::min_element(named_.begin(), named_.end(), [](const Project* one, const Project* other) {
    return one->refusals < other->refusals;
  });
  if (project.refusals <= 2 * least->refusals) {
    return false;
  }
  least->named = false;
  least = &project;
  return project.named = true;
}

QuotaRefusals::Counts QuotaRefusals::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts;
  for (const auto& [name, project] : projects_) {
    if (!project.named) {
      continue;
    }
    counts.projects.insert(name);
    for (const auto& [quota, count] : project.own) {
      counts.named[{name, quota}] = count;
    }
  }
  counts.others = others_;
  counts.all_named = others_.empty();
  return counts;
}

Quotas::Facts Quotas::facts() const {
  struct stat info{};
  if (::stat(file_.c_str(), &info) != 0) {
    return "";
  }
  // Also the time of the last change of rights and names, since a file may become readable.
  return absl::StrCat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                      info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, ".", info.st_ctim.tv_nsec);
}

absl::Status Quotas::refresh() {
  if (file_.empty()) {
    return absl::OkStatus();
  }
  const std::lock_guard lock(mutex_);
  const bool first = !read_;
  const Facts before = std::exchange(seen_, facts());
  if (!first && (seen_ == read_ || seen_ != before)) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::string> content = readFile(file_);
  if (const Facts now = facts(); !first && now != seen_) {
    seen_ = now;
    return absl::OkStatus();
  }
  // Remember this version whatever the result: a fault is reported once, and stands until the file changes.
  read_ = seen_;
  if (!content.ok()) {
    return absl::InvalidArgumentError(content.status().message());
  }
  const std::string& text = *content;
  if (!first && text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_,
                     " is empty, as one is whose writer had no room; a comment (# none) says that there are no "
                     "quotas any more"));
  }
  auto quotas = parse(text);
  if (!quotas.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file_, ": ", quotas.status().message()));
  }
  default_ = quotas->default_();
  named_.clear();
  for (v1::Quotas::Of& entry : *quotas->mutable_of()) {
    named_[entry.project()] = std::move(*entry.mutable_quota());
  }
  return absl::OkStatus();
}

v1::Quota Quotas::lockedOf(const std::string& project) const {
  const auto found = named_.find(project);
  return found == named_.end() ? default_ : found->second;
}

v1::Quota Quotas::of(const std::string& project) const {
  const std::lock_guard lock(mutex_);
  return lockedOf(project);
}

std::map<std::string, v1::Quota> Quotas::named() const {
  const std::lock_guard lock(mutex_);
  return named_;
}

/// The project's bucket, filled up to now.
Quotas::Bucket& Quotas::lockedBucket(const std::string& project, double rate) {
  const double most = std::max(1.0, rate);
  const int64_t now_us = clock_.nowMicros();
  const auto [found, is_new] = buckets_.try_emplace(project, Bucket{.calls = most, .filled_us = now_us});
  Bucket& bucket = found->second;
  const double passed_s = static_cast<double>(std::max<int64_t>(0, now_us - bucket.filled_us)) / 1e6;
  bucket.calls = std::min(most, bucket.calls + passed_s * rate);
  bucket.filled_us = now_us;
  return bucket;
}

std::map<std::string, int64_t> Quotas::callsTaken() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int64_t> taken;
  for (const auto& [project, bucket] : buckets_) {
    taken[project] = bucket.taken;
  }
  return taken;
}

void Quotas::countElsewhere(const std::map<std::string, int64_t>& calls) {
  constexpr double kMaxSecondsOfDebt = 10;
  const std::lock_guard lock(mutex_);
  for (const auto& [project, sum] : calls) {
    const double rate = lockedOf(project).calls_per_second();
    if (rate == 0) {
      continue;
    }
    Bucket& bucket = lockedBucket(project, rate);
    // The sum decreases when a server leaves. The first one says nothing about when the calls were.
    const int64_t more = std::max<int64_t>(0, sum - bucket.elsewhere.value_or(sum));
    bucket.elsewhere = sum;
    bucket.calls = std::max(-kMaxSecondsOfDebt * std::max(1.0, rate), bucket.calls - static_cast<double>(more));
  }
}

absl::Status Quotas::takeCall(const std::string& project) {
  const std::lock_guard lock(mutex_);
  const double rate = lockedOf(project).calls_per_second();
  if (rate == 0) {
    return absl::OkStatus();
  }
  Bucket& bucket = lockedBucket(project, rate);
  if (bucket.calls < 1) {
    return quotaExceeded(project, "calls_per_second", rate, rate, static_cast<int64_t>((1 - bucket.calls) / rate * 1e6),
                         "make fewer calls: wait for a job with WatchJob instead of asking for it");
  }
  bucket.calls -= 1;
  ++bucket.taken;
  return absl::OkStatus();
}

}  // namespace tessera::server
