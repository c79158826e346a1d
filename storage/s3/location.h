#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tessera::storage {

/// Place of the objects: a bucket of an S3 service, and a prefix of the objects' names.
struct S3Location {
  std::string bucket, prefix;  ///< a prefix that is not empty ends in "/"
  std::string endpoint;        ///< "https://HOST[:PORT]"
  std::string region = "us-east-1";
  bool path_style = true;  ///< URLs are ENDPOINT/BUCKET/NAME; otherwise BUCKET.ENDPOINT/NAME
  std::string ca_file;
};

/// Parses "s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&addressing=path|virtual&ca=FILE]". Without an endpoint the
/// objects are in Amazon S3, and addressing is virtual by default. INVALID_ARGUMENT says what is wrong and what is
/// accepted.
absl::StatusOr<S3Location> parseS3Url(const std::string& url);

}  // namespace tessera::storage
