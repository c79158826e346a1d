#include "storage/s3/s3_object_store.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <ctime>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "storage/s3/credentials.h"
#include "storage/s3/sigv4.h"
#include "storage/s3/xml.h"

namespace tessera::storage {
namespace {

constexpr int64_t kMaxUploadParts = 9000;  // S3 accepts 10,000
constexpr char kProbe[] = "probe";

/// Reads [offset, offset + bytes) of a file; DATA_LOSS if it is shorter.
absl::StatusOr<std::string> readPart(const File& file, int64_t offset, int64_t bytes) {
  std::string part(static_cast<size_t>(bytes), '\0');
  size_t done = 0;
  while (done < part.size()) {
    TESSERA_ASSIGN_OR_RETURN(const size_t got,
                             file.readAt(offset + static_cast<int64_t>(done), part.data() + done, part.size() - done));
    if (got == 0) return absl::DataLossError("the local file is shorter than its blob");
    done += got;
  }
  return part;
}

class S3ObjectStore : public ObjectStore {
 public:
  S3ObjectStore(S3Location location, const S3Options& options)
      : location_(std::move(location)), options_(options), http_(httpOptions(location_, options)) {}

  absl::Status put(const std::string& name, const File& file, const v1::Digest& digest) override {
    const absl::Status status =
        digest.size_bytes() <= options_.part_bytes ? putWhole(name, file, digest) : putParts(name, file, digest);
    if (!status.ok() && !absl::IsDataLoss(status)) ++requests_.failures;
    return status;
  }
  absl::Status get(const std::string& name, int64_t offset, int64_t limit,
                   const std::function<absl::Status(std::string_view chunk)>& sink) override;
  absl::Status remove(const std::string& name) override {
    const auto answer = send({"DELETE", name}, requests_.deletes);
    TESSERA_RETURN_IF_ERROR(answer.status());
    const absl::Status status = statusOf(name, *answer);
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }
  absl::Status list(const std::string& prefix, const std::string& after,
                    const std::function<bool(const ObjectInfo& object)>& visit) override;
  absl::StatusOr<int> removeIncomplete(int64_t age_s) override;
  absl::Status checkWritable() override {
    // Not repeated often: the answer is wanted at once.
    absl::StatusOr<HttpResponse> answer = sendOnce({"PUT", kProbe, {}, kProbe}, requests_.puts);
    if (absl::IsUnavailable(answer.status())) {
      pauseBefore(1);
      answer = sendOnce({"PUT", kProbe, {}, kProbe}, requests_.puts);
    }
    if (absl::IsUnavailable(answer.status())) return gaveUp(answer.status());
    TESSERA_RETURN_IF_ERROR(answer.status());
    return statusOf(kProbe, *answer);
  }

  std::string placeOf(const std::string& name) const override {
    return absl::StrCat("s3://", location_.bucket, "/", location_.prefix, name);
  }
  const ObjectRequests& requests() const override { return requests_; }

 private:
  using Query = std::vector<std::pair<std::string, std::string>>;
  struct Call {
    std::string method;
    std::string name;  ///< of the object; empty: the bucket
    Query query = {};
    std::string_view body = {};
    std::string range = {};
  };

  static HttpOptions httpOptions(const S3Location& location, const S3Options& options) {
    HttpOptions http = options.http;
    http.ca_file = location.ca_file;
    return http;
  }

  /// Sends a request once. UNAVAILABLE if it may succeed when it is repeated.
  absl::StatusOr<HttpResponse> sendOnce(const Call& call, std::atomic<int64_t>& count,
                                        const HttpClient::Sink& sink = nullptr);
  /// Sends a request, and repeats it while it fails with UNAVAILABLE.
  absl::StatusOr<HttpResponse> send(const Call& call, std::atomic<int64_t>& count);
  void pauseBefore(int attempt);
  absl::Status gaveUp(const absl::Status& last) {
    ++requests_.failures;
    return absl::UnavailableError(
        absl::StrCat("object store ", location_.endpoint, ": ", last.message(), "; it was tried several times"));
  }
  /// Meaning of an answer.
  absl::Status statusOf(const std::string& name, const HttpResponse& answer) const;

  absl::Status putWhole(const std::string& name, const File& file, const v1::Digest& digest);
  absl::Status putParts(const std::string& name, const File& file, const v1::Digest& digest);
  absl::StatusOr<std::string> sendParts(const std::string& name, const std::string& upload, const File& file,
                                        const v1::Digest& digest);
  absl::Status complete(const std::string& name, const std::string& upload, const std::string& parts, int64_t bytes);
  absl::StatusOr<int64_t> sizeOf(const std::string& name);

  const S3Location location_;
  const S3Options options_;
  HttpClient http_;
  S3CredentialSource credentials_;
  ObjectRequests requests_;
  std::mutex random_mutex_;
  std::mt19937_64 random_{std::random_device{}()};
};

absl::StatusOr<HttpResponse> S3ObjectStore::sendOnce(const Call& call, std::atomic<int64_t>& count,
                                                     const HttpClient::Sink& sink) {
  TESSERA_ASSIGN_OR_RETURN(const S3Credentials keys, credentials_.get());
  const size_t scheme = location_.endpoint.find("://") + 3;
  std::string host = location_.endpoint.substr(scheme);
  if (!location_.path_style) host = absl::StrCat(location_.bucket, ".", host);
  const std::string key = call.name.empty() ? "" : location_.prefix + call.name;
  const std::string path = location_.path_style ? absl::StrCat("/", location_.bucket, "/", key) : "/" + key;

  SignableRequest request{call.method, path, call.query, {}, sha256Hex(call.body)};
  const std::string now = absl::FormatTime("%Y%m%dT%H%M%SZ", absl::Now(), absl::UTCTimeZone());
  request.headers = {{"host", host}, {"x-amz-content-sha256", request.payload_sha256}, {"x-amz-date", now}};
  if (!call.range.empty()) request.headers["range"] = call.range;
  if (!keys.session_token.empty()) request.headers["x-amz-security-token"] = keys.session_token;

  HttpRequest http{call.method,
                   absl::StrCat(location_.endpoint.substr(0, scheme), host, uriEncode(path, true),
                                call.query.empty() ? "" : "?", canonicalQuery(call.query)),
                   request.headers, call.body};
  http.headers["authorization"] = authorizationHeader(request, {location_.region, "s3", now}, keys);
  ++count;
  requests_.bytes_sent += static_cast<int64_t>(call.body.size());
  TESSERA_ASSIGN_OR_RETURN(HttpResponse answer, http_.send(http, sink));
  if (answer.status >= 500 || answer.status == 429 || answer.status == 408 ||
      xmlText(answer.body, "Error/Code") == "RequestTimeout") {
    return absl::UnavailableError(absl::StrCat("it answers ", answer.status, " ", xmlText(answer.body, "Error/Code")));
  }
  return answer;
}

void S3ObjectStore::pauseBefore(int attempt) {
  ++requests_.retries;
  const auto most =
      std::min<int64_t>(options_.most_pause.count(), options_.first_pause.count() << std::min(attempt - 1, 20));
  std::chrono::milliseconds wait{0};
  {
    const std::lock_guard lock(random_mutex_);
    wait = std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(most / 4, most)(random_));
  }
  options_.pause ? options_.pause(wait) : std::this_thread::sleep_for(wait);
}

absl::StatusOr<HttpResponse> S3ObjectStore::send(const Call& call, std::atomic<int64_t>& count) {
  absl::StatusOr<HttpResponse> answer = absl::UnknownError("not sent");
  for (int attempt = 0; attempt < options_.attempts; ++attempt) {
    if (attempt > 0) pauseBefore(attempt);
    answer = sendOnce(call, count);
    if (!absl::IsUnavailable(answer.status())) return answer;
  }
  return gaveUp(answer.status());
}

absl::Status S3ObjectStore::statusOf(const std::string& name, const HttpResponse& answer) const {
  if (answer.status >= 200 && answer.status < 300) return absl::OkStatus();
  const std::string code = xmlText(answer.body, "Error/Code"), text = xmlText(answer.body, "Error/Message");
  if (code == "NoSuchKey" || code == "NoSuchUpload") {
    return absl::NotFoundError(absl::StrCat("there is no object ", placeOf(name)));
  }
  const auto with = [&](const char* remedy) {
    return absl::FailedPreconditionError(absl::StrCat("object store ", location_.endpoint, ": ", placeOf(name), ": ",
                                                      answer.status, " ", code, " (", text, "); ", remedy));
  };
  if (code == "NoSuchBucket") return with("create the bucket, or correct its name in --blobs");
  if (code == "RequestTimeTooSkewed") return with("set the clock of this machine");
  if (answer.status / 100 == 3 || code == "AuthorizationHeaderMalformed") {
    return with("correct endpoint and region in --blobs");
  }
  if (answer.status == 401 || answer.status == 403) {
    return with("check the credentials, and that they may read, write, list and delete objects of the bucket");
  }
  return with("is this the endpoint of an S3 service?");
}

absl::Status S3ObjectStore::get(const std::string& name, int64_t offset, int64_t limit,
                                const std::function<absl::Status(std::string_view chunk)>& sink) {
  int64_t delivered = 0;
  absl::Status consumed;
  const auto pass = [&](std::string_view chunk) {
    delivered += static_cast<int64_t>(chunk.size());
    requests_.bytes_received += static_cast<int64_t>(chunk.size());
    return consumed = sink(chunk);
  };
  absl::Status last;
  for (int attempt = 0; attempt < options_.attempts; ++attempt) {
    if (attempt > 0) pauseBefore(attempt);
    // A transfer that was cut off continues where it stopped.
    const int64_t begin = offset + delivered, before = delivered;
    if (limit != 0 && delivered == limit) return absl::OkStatus();
    Call call{"GET", name};
    if (begin > 0 || limit > 0) {
      call.range = absl::StrCat("bytes=", begin, "-");
      if (limit > 0) absl::StrAppend(&call.range, offset + limit - 1);
    }
    const auto answer = sendOnce(call, requests_.gets, pass);
    if (!consumed.ok()) return consumed;
    if (answer.ok() && answer->status == 416) {
      TESSERA_ASSIGN_OR_RETURN(const int64_t bytes, sizeOf(name));
      if (bytes == begin) return absl::OkStatus();
      return absl::OutOfRangeError(absl::StrCat(placeOf(name), " has ", bytes, " bytes; offset ", offset));
    }
    if (answer.ok() && answer->status == 200 && !call.range.empty() && begin > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("object store ", location_.endpoint, " sends whole objects when asked for ranges"));
    }
    if (!absl::IsUnavailable(answer.status())) return answer.ok() ? statusOf(name, *answer) : answer.status();
    last = answer.status();
    if (delivered > before) attempt = 0;  // it makes progress
  }
  return gaveUp(last);
}

absl::StatusOr<int64_t> S3ObjectStore::sizeOf(const std::string& name) {
  TESSERA_ASSIGN_OR_RETURN(const HttpResponse answer, send({"HEAD", name}, requests_.heads));
  int64_t bytes = 0;
  const auto length = answer.headers.find("content-length");
  if (answer.status == 200 && length != answer.headers.end() && absl::SimpleAtoi(length->second, &bytes)) return bytes;
  return absl::NotFoundError(absl::StrCat("there is no object ", placeOf(name)));
}

absl::Status S3ObjectStore::putWhole(const std::string& name, const File& file, const v1::Digest& digest) {
  TESSERA_ASSIGN_OR_RETURN(const std::string bytes, readPart(file, 0, digest.size_bytes()));
  if (sha256Hex(bytes) != digest.sha256()) {
    return absl::DataLossError(absl::StrCat("the local file of blob ", digest.sha256(), " is damaged"));
  }
  TESSERA_ASSIGN_OR_RETURN(const HttpResponse answer, send({"PUT", name, {}, bytes}, requests_.puts));
  return statusOf(name, answer);
}

absl::Status S3ObjectStore::putParts(const std::string& name, const File& file, const v1::Digest& digest) {
  TESSERA_ASSIGN_OR_RETURN(const HttpResponse begun, send({"POST", name, {{"uploads", ""}}}, requests_.puts));
  TESSERA_RETURN_IF_ERROR(statusOf(name, begun));
  const std::string upload = xmlText(begun.body, "InitiateMultipartUploadResult/UploadId");
  if (upload.empty()) return absl::UnavailableError("the object store's answer has no UploadId");
  const auto parts = sendParts(name, upload, file, digest);
  const absl::Status status = parts.ok() ? complete(name, upload, *parts, digest.size_bytes()) : parts.status();
  // If this fails as well, removeIncomplete() does it later.
  if (!status.ok()) (void)sendOnce({"DELETE", name, {{"uploadId", upload}}}, requests_.deletes);
  return status;
}

/// Sends all parts. Returns the body of the request that completes the upload.
absl::StatusOr<std::string> S3ObjectStore::sendParts(const std::string& name, const std::string& upload,
                                                     const File& file, const v1::Digest& digest) {
  const int64_t part_bytes =
      std::max(options_.part_bytes, (digest.size_bytes() + kMaxUploadParts - 1) / kMaxUploadParts);
  Sha256 whole;
  std::string list = "<CompleteMultipartUpload>";
  int number = 0;
  for (int64_t offset = 0; offset < digest.size_bytes(); offset += part_bytes) {
    TESSERA_ASSIGN_OR_RETURN(const std::string part,
                             readPart(file, offset, std::min(part_bytes, digest.size_bytes() - offset)));
    whole.update(part);
    ++number;
    TESSERA_ASSIGN_OR_RETURN(
        const HttpResponse answer,
        send({"PUT", name, {{"partNumber", absl::StrCat(number)}, {"uploadId", upload}}, part}, requests_.puts));
    TESSERA_RETURN_IF_ERROR(statusOf(name, answer));
    const auto tag = answer.headers.find("etag");
    if (tag == answer.headers.end()) return absl::UnavailableError("the object store's answer has no ETag");
    const absl::string_view bare = absl::StripSuffix(absl::StripPrefix(tag->second, "\""), "\"");
    absl::StrAppend(&list, "<Part><PartNumber>", number, "</PartNumber><ETag>&quot;", bare, "&quot;</ETag></Part>");
  }
  // Before the object exists.
  if (whole.finish() != digest.sha256()) {
    return absl::DataLossError(absl::StrCat("the local file of blob ", digest.sha256(), " is damaged"));
  }
  return list + "</CompleteMultipartUpload>";
}

absl::Status S3ObjectStore::complete(const std::string& name, const std::string& upload, const std::string& parts,
                                     int64_t bytes) {
  const Call call{"POST", name, {{"uploadId", upload}}, parts};
  absl::Status last;
  for (int attempt = 0; attempt < options_.attempts; ++attempt) {
    if (attempt > 0) pauseBefore(attempt);
    const auto answer = sendOnce(call, requests_.puts);
    last = answer.ok() ? statusOf(name, *answer) : answer.status();
    if (absl::IsNotFound(last) && attempt > 0) {
      // The upload is gone: an earlier attempt may have completed it, and its answer was lost.
      TESSERA_ASSIGN_OR_RETURN(const int64_t stored, sizeOf(name));
      return stored == bytes ? absl::OkStatus() : last;
    }
    // S3 sends its status before it has put the parts together; the body may still be an error.
    if (last.ok() && absl::StrContains(answer->body, "<Error>")) {
      last = absl::UnavailableError(absl::StrCat("it answers ", xmlText(answer->body, "Error/Code")));
    }
    if (!absl::IsUnavailable(last)) return last;
  }
  return gaveUp(last);
}

absl::Status S3ObjectStore::list(const std::string& prefix, const std::string& after,
                                 const std::function<bool(const ObjectInfo& object)>& visit) {
  std::string last = after;
  while (true) {
    Call call{"GET", "", {{"list-type", "2"}, {"prefix", location_.prefix + prefix}}};
    if (!last.empty()) call.query.emplace_back("start-after", location_.prefix + last);
    TESSERA_ASSIGN_OR_RETURN(const HttpResponse answer, send(call, requests_.lists));
    TESSERA_RETURN_IF_ERROR(statusOf(prefix, answer));
    const auto date = answer.headers.find("date");
    const int64_t now = date == answer.headers.end() ? time(nullptr) : parseHttpDate(date->second);
    ObjectInfo object;
    bool wanted = true, more = false, any = false;
    TESSERA_RETURN_IF_ERROR(forEachXmlElement(answer.body, [&](const std::string& path, const std::string& text) {
      if (path == "ListBucketResult/IsTruncated") more = text == "true";
      if (path == "ListBucketResult/Contents/Key")
        object.name = text.substr(std::min(location_.prefix.size(), text.size()));
      if (path == "ListBucketResult/Contents/Size") (void)absl::SimpleAtoi(text, &object.bytes);
      if (path == "ListBucketResult/Contents/LastModified") {
        absl::Time written;
        std::string why;
        const bool good = absl::ParseTime(absl::RFC3339_full, text, &written, &why);
        object.age_s = good ? std::max<int64_t>(0, now - absl::ToUnixSeconds(written)) : 0;
      }
      if (path == "ListBucketResult/Contents") {
        any = true;
        last = object.name;
        wanted = wanted && visit(std::exchange(object, {}));
      }
    }));
    if (!wanted || !more || !any) return absl::OkStatus();
  }
}

absl::StatusOr<int> S3ObjectStore::removeIncomplete(int64_t age_s) {
  TESSERA_ASSIGN_OR_RETURN(const HttpResponse answer,
                           send({"GET", "", {{"uploads", ""}, {"prefix", location_.prefix}}}, requests_.lists));
  TESSERA_RETURN_IF_ERROR(statusOf("", answer));
  // Ages are taken by the clock of the store, which also wrote the times of the uploads.
  const auto date = answer.headers.find("date");
  const int64_t now = date == answer.headers.end() ? time(nullptr) : parseHttpDate(date->second);
  struct Found {
    std::string name, upload;
  };
  std::vector<Found> stale;
  Found upload;
  int64_t age = 0;
  TESSERA_RETURN_IF_ERROR(forEachXmlElement(answer.body, [&](const std::string& path, const std::string& text) {
    if (path == "ListMultipartUploadsResult/Upload/Key")
      upload.name = text.substr(std::min(location_.prefix.size(), text.size()));
    if (path == "ListMultipartUploadsResult/Upload/UploadId") upload.upload = text;
    if (path == "ListMultipartUploadsResult/Upload/Initiated") {
      absl::Time begun;
      std::string why;
      age = absl::ParseTime(absl::RFC3339_full, text, &begun, &why) ? now - absl::ToUnixSeconds(begun) : 0;
    }
    if (path == "ListMultipartUploadsResult/Upload") {
      if (age >= age_s) stale.push_back(upload);
      upload = {};
    }
  }));
  int removed = 0;
  for (const Found& each : stale) {
    TESSERA_ASSIGN_OR_RETURN(const HttpResponse gone,
                             send({"DELETE", each.name, {{"uploadId", each.upload}}}, requests_.deletes));
    removed += gone.status / 100 == 2;
  }
  return removed;
}

}  // namespace

std::unique_ptr<ObjectStore> openS3Objects(const S3Location& location, const S3Options& options) {
  return std::make_unique<S3ObjectStore>(location, options);
}

}  // namespace tessera::storage
