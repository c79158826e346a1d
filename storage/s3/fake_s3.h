#pragma once

#include <httplib.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "storage/s3/location.h"
#include "storage/s3/sigv4.h"

namespace tessera::storage {

/// An S3 service in memory with planned faults. It checks each signature and each body's hash. Its signatures are
/// Tessera's own code; tests/e2e/s3_suite.py runs the same suite against an independent service.
class FakeS3 {
 public:
  enum class Fault {
    kError,       ///< status 500, nothing done
    kSlowDown,    ///< status 503, code SlowDown, nothing done
    kLostAnswer,  ///< the request is done, and the connection is cut before the answer is complete
    kCutBody,     ///< the connection is cut in the middle of the body
    kWrongBytes,  ///< a byte of the body is changed
    kLateError,   ///< status 200 with an error in the body, as of CompleteMultipartUpload
    kForbidden,   ///< status 403
  };
  struct Planned {
    Fault fault;
    std::string method;  ///< of the requests that fail
    int skip = 0;        ///< that many of them succeed first
    int times = 1;
  };

  explicit FakeS3(S3Credentials keys);
  ~FakeS3();

  S3Location location() const;
  void plan(const Planned& fault) { faults_.push_back(fault); }
  void loseBucket() { bucket_exists_ = false; }
  /// Objects by name.
  std::map<std::string, std::string> objects();
  /// Number of multipart uploads that were neither completed nor aborted.
  size_t uploads();

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  void answer(const Request& request, Response& response);
  /// The fault of this request, if one is planned.
  bool struck(const Request& request, Fault& fault);
  static void cut(const Request& request, Response& response, bool middle);
  bool isAuthentic(const Request& request) const;
  void perform(const Request& request, Response& response);
  void getOrHead(const Request& request, const std::string& key, Response& response);
  void put(const Request& request, const std::string& key, Response& response);
  void complete(const std::string& key, const std::string& id, Response& response);
  void list(const Request& request, Response& response) const;
  void listUploads(Response& response) const;
  static void reject(Response& response, int status, const std::string& code);

  struct Upload {
    std::string key;
    std::map<int, std::string> parts;
  };

  const S3Credentials keys_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<Planned> faults_;
  std::map<std::string, std::string> objects_;
  std::map<std::string, Upload> uploads_;
  int next_upload_ = 0;
  bool bucket_exists_ = true;
};

}  // namespace tessera::storage
