#include "storage/s3/location.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera::storage {
namespace {

constexpr char kForm[] = "s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&addressing=path|virtual&ca=FILE]";

absl::Status rejected(const std::string& found, const std::string& accepted) {
  return absl::InvalidArgumentError(absl::StrCat("found ", found, "; accepted: ", accepted));
}

bool onlyHas(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(std::string("abcdefghijklmnopqrstuvwxyz0123456789").append(characters)) ==
         std::string_view::npos;
}

}  // namespace

absl::StatusOr<S3Location> parseS3Url(const std::string& url) {
  S3Location location;
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "s3://")) return rejected("\"" + url + "\"", kForm);
  const std::pair<absl::string_view, std::string> halves = absl::StrSplit(rest, absl::MaxSplits('?', 1));
  const std::pair<std::string, std::string> place = absl::StrSplit(halves.first, absl::MaxSplits('/', 1));
  location.bucket = place.first;
  if (location.bucket.size() < 3 || location.bucket.size() > 63 || !onlyHas(location.bucket, ".-")) {
    return rejected(absl::StrCat("bucket \"", location.bucket, "\""),
                    "3 to 63 lower-case letters, digits, '.' and '-'");
  }
  location.prefix = place.second;
  if (!onlyHas(location.prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZ._/-")) {
    return rejected(absl::StrCat("prefix \"", location.prefix, "\""), "letters, digits, '.', '_', '-' and '/'");
  }
  if (!location.prefix.empty() && !absl::EndsWith(location.prefix, "/")) location.prefix += "/";
  std::string addressing;
  for (const absl::string_view option : absl::StrSplit(halves.second, '&', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(option, absl::MaxSplits('=', 1));
    if (parts.first == "endpoint") {
      location.endpoint = std::string(absl::StripSuffix(parts.second, "/"));
    } else if (parts.first == "region") {
      location.region = parts.second;
    } else if (parts.first == "addressing") {
      addressing = parts.second;
    } else if (parts.first == "ca") {
      location.ca_file = parts.second;
    } else {
      return rejected(absl::StrCat("option \"", parts.first, "\""), kForm);
    }
  }
  if (location.region.empty() || !onlyHas(location.region, "-_")) {
    return rejected(absl::StrCat("region \"", location.region, "\""), "a name such as eu-central-1");
  }
  if (!addressing.empty() && addressing != "path" && addressing != "virtual") {
    return rejected(absl::StrCat("addressing \"", addressing, "\""), "path or virtual");
  }
  location.path_style = addressing.empty() ? !location.endpoint.empty() : addressing == "path";
  if (location.endpoint.empty()) location.endpoint = absl::StrCat("https://s3.", location.region, ".amazonaws.com");
  absl::string_view host = location.endpoint;
  if ((!absl::ConsumePrefix(&host, "https://") && !absl::ConsumePrefix(&host, "http://")) || host.empty() ||
      host.find_first_of("/?#@ ") != absl::string_view::npos) {
    return rejected(absl::StrCat("endpoint \"", location.endpoint, "\""),
                    "http://HOST[:PORT] or https://HOST[:PORT], without a path");
  }
  return location;
}

}  // namespace tessera::storage
