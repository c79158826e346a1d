#include "storage/s3/fake_s3.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/support/sha256.h"

namespace tessera::storage {
namespace {

constexpr char kBucket[] = "/bucket/";
constexpr char kRegion[] = "eu-test-1";
constexpr size_t kPage = 7;  // objects in a page of a listing

}  // namespace

FakeS3::FakeS3(S3Credentials keys) : keys_(std::move(keys)) {
  const auto handle = [this](const Request& request, Response& response) { answer(request, response); };
  server_.Get(".*", handle);
  server_.Put(".*", handle);
  server_.Post(".*", handle);
  server_.Delete(".*", handle);
  server_.set_tcp_nodelay(true);
  port_ = server_.bind_to_any_port("127.0.0.1");
  thread_ = std::thread([this] { server_.listen_after_bind(); });
  while (!server_.is_running()) std::this_thread::yield();
}

FakeS3::~FakeS3() {
  server_.stop();
  thread_.join();
}

S3Location FakeS3::location() const {
  return {"bucket", "prefix/", absl::StrCat("http://127.0.0.1:", port_), kRegion, true, ""};
}

std::map<std::string, std::string> FakeS3::objects() {
  const std::lock_guard lock(mutex_);
  return objects_;
}

size_t FakeS3::uploads() {
  const std::lock_guard lock(mutex_);
  return uploads_.size();
}

bool FakeS3::struck(const Request& request, Fault& fault) {
  for (Planned& planned : faults_) {
    if (planned.method != request.method || planned.times == 0) continue;
    if (planned.skip-- > 0) continue;
    --planned.times;
    fault = planned.fault;
    return true;
  }
  return false;
}

void FakeS3::reject(Response& response, int status, const std::string& code) {
  response.status = status;
  response.set_content(
      absl::StrCat("<?xml version='1.0'?>\n<Error><Code>", code, "</Code><Message>as planned</Message></Error>"),
      "application/xml");
}

/// Whether the signature is that of the request as it arrived.
bool FakeS3::isAuthentic(const Request& request) const {
  SignableRequest signable{request.method, request.path, {}, {}, request.get_header_value("x-amz-content-sha256")};
  const std::string authorization = request.get_header_value("authorization");
  const size_t begin = authorization.find("SignedHeaders=") + 14;
  for (const absl::string_view name :
       absl::StrSplit(authorization.substr(begin, authorization.find(',', begin) - begin), ';')) {
    signable.headers[std::string(name)] = request.get_header_value(std::string(name));
  }
  for (const auto& [name, value] : request.params) signable.query.emplace_back(name, value);
  return signable.headers.contains("host") && sha256Hex(request.body) == signable.payload_sha256 &&
         authorizationHeader(signable, {kRegion, "s3", request.get_header_value("x-amz-date")}, keys_) == authorization;
}

void FakeS3::answer(const Request& request, Response& response) {
  const std::lock_guard lock(mutex_);
  if (!isAuthentic(request)) return reject(response, 403, "SignatureDoesNotMatch");
  Fault fault{};
  const bool strikes = struck(request, fault);
  if (strikes && fault == Fault::kError) return reject(response, 500, "InternalError");
  if (strikes && fault == Fault::kSlowDown) return reject(response, 503, "SlowDown");
  if (strikes && fault == Fault::kLateError) return reject(response, 200, "InternalError");
  if (strikes && fault == Fault::kForbidden) return reject(response, 403, "AccessDenied");
  if (!bucket_exists_) return reject(response, 404, "NoSuchBucket");
  perform(request, response);
  if (!strikes) return;
  if (fault == Fault::kWrongBytes && !response.body.empty()) response.body[response.body.size() / 2] ^= 1;
  if (fault == Fault::kCutBody || fault == Fault::kLostAnswer) cut(request, response, fault == Fault::kCutBody);
}

/// Cuts the connection in the middle of the body, or of the requested range, or before it.
void FakeS3::cut(const Request& request, Response& response, bool middle) {
  const std::string body = std::exchange(response.body, {});
  const size_t begin = request.ranges.empty() ? 0 : static_cast<size_t>(request.ranges[0].first);
  const bool open = request.ranges.empty() || request.ranges[0].second < 0;
  const size_t end = open ? body.size() : static_cast<size_t>(request.ranges[0].second) + 1;
  const size_t stop = middle ? begin + (end - begin + 1) / 2 : begin;
  if (response.status == 204) response.status = 200;  // which has a body that can be missing
  response.headers.erase("Content-Length");
  response.set_content_provider(std::max<size_t>(1, body.size()), "application/octet-stream",
                                [body, stop](size_t offset, size_t, httplib::DataSink& sink) {
                                  if (offset >= stop) return false;  // cuts the connection
                                  return sink.write(body.data() + offset, stop - offset);
                                });
}

void FakeS3::perform(const Request& request, Response& response) {
  if (!absl::StartsWith(request.path, kBucket)) return reject(response, 404, "NoSuchBucket");
  const std::string key = request.path.substr(sizeof(kBucket) - 1);
  const std::string upload = request.get_param_value("uploadId");
  if (!upload.empty() && !uploads_.contains(upload)) return reject(response, 404, "NoSuchUpload");
  if (key.empty()) {
    request.has_param("uploads") ? listUploads(response) : list(request, response);
  } else if (request.method == "PUT") {
    put(request, key, response);
  } else if (request.method == "POST" && request.has_param("uploads")) {
    const std::string id = absl::StrCat("upload-", ++next_upload_, "+/");
    uploads_[id].key = key;
    response.set_content(
        absl::StrCat("<InitiateMultipartUploadResult><UploadId>", id, "</UploadId></InitiateMultipartUploadResult>"),
        "application/xml");
  } else if (request.method == "POST") {
    complete(key, upload, response);
  } else if (request.method == "DELETE") {
    upload.empty() ? objects_.erase(key) : uploads_.erase(upload);
    response.status = 204;
  } else {
    getOrHead(request, key, response);
  }
}

void FakeS3::getOrHead(const Request& request, const std::string& key, Response& response) {
  const auto object = objects_.find(key);
  if (object == objects_.end()) return reject(response, 404, "NoSuchKey");
  // httplib applies a range to the body itself, but accepts one beyond the end.
  if (!request.ranges.empty() && request.ranges[0].first >= static_cast<ssize_t>(object->second.size())) {
    reject(response, 416, "InvalidRange");
    return;
  }
  response.set_content(object->second, "application/octet-stream");
}

void FakeS3::put(const Request& request, const std::string& key, Response& response) {
  const std::string upload = request.get_param_value("uploadId");
  if (upload.empty()) {
    objects_[key] = request.body;
  } else {
    int number = 0;
    if (!absl::SimpleAtoi(request.get_param_value("partNumber"), &number)) {
      response.status = 400;
      return;
    }
    uploads_[upload].parts[number] = request.body;
  }
  response.set_header("ETag", absl::StrCat("\"", sha256Hex(request.body).substr(0, 32), "\""));
}

void FakeS3::complete(const std::string& key, const std::string& id, Response& response) {
  std::string whole;
  for (const auto& [number, part] : uploads_[id].parts) whole += part;
  objects_[key] = whole;
  uploads_.erase(id);
  response.set_content("<CompleteMultipartUploadResult><ETag>&quot;x&quot;</ETag></CompleteMultipartUploadResult>",
                       "application/xml");
}

void FakeS3::list(const Request& request, Response& response) const {
  const std::string prefix = request.get_param_value("prefix"), after = request.get_param_value("start-after");
  std::string contents;
  size_t count = 0;
  bool more = false;
  for (auto object = objects_.upper_bound(std::max(after, prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1)));
       object != objects_.end(); ++object) {
    if (!absl::StartsWith(object->first, prefix)) continue;
    more = count++ == kPage;
    if (more) break;
    absl::StrAppend(&contents, "<Contents><Key>", object->first, "</Key><LastModified>2026-01-02T03:04:05.000Z",
                    "</LastModified><ETag>&quot;x&quot;</ETag><Size>", object->second.size(), "</Size></Contents>");
  }
  response.set_header("Date", "Fri, 02 Jan 2026 03:05:05 GMT");
  response.set_content(absl::StrCat("<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>",
                                    more ? "true" : "false", "</IsTruncated>", contents, "</ListBucketResult>"),
                       "application/xml");
}

void FakeS3::listUploads(Response& response) const {
  std::string found;
  for (const auto& [id, upload] : uploads_) {
    absl::StrAppend(&found, "<Upload><Key>", upload.key, "</Key><UploadId>", id,
                    "</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>");
  }
  response.set_header("Date", "Fri, 02 Jan 2026 03:05:05 GMT");
  response.set_content(absl::StrCat("<ListMultipartUploadsResult>", found, "</ListMultipartUploadsResult>"),
                       "application/xml");
}

}  // namespace tessera::storage
