#include "server/gateway/answers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/support/status_macros.h"
#include "server/gateway/event_stream.h"
#include "server/gateway/page_files.h"
#include "server/gateway/reports.h"
#include "server/gateway/transcoding.h"
#include "server/request_checks.h"

namespace tessera::server::gateway {
namespace {

constexpr char kJson[] = "application/json; charset=utf-8";
constexpr char kApi[] = "/v1";
constexpr char kDocs[] = "/docs";
constexpr std::chrono::milliseconds kLookForEvents{200};

/// Addresses within the page ("/jobs/7") are answered with the page, which interprets them. A target's name may contain
/// dots. The documentation consists of files only.
bool isPlace(std::string_view path) {
  if (path.substr(0, path.find('/', 1)) == kDocs) {
    return false;
  }
  return path == "/" || absl::StartsWith(absl::string_view(path.data(), path.size()), "/targets/") ||
         path.substr(path.rfind('/') + 1).find('.') == std::string_view::npos;
}

const PageFile* fileAt(std::string_view path) {
  for (const PageFile& file : pageFiles()) {
    if (file.path == path) {
      return &file;
    }
  }
  return nullptr;
}

std::string routesJson() {
  std::string lines;
  for (const Route& route : routes()) {
    absl::StrAppend(&lines, lines.empty() ? "" : ",\n  ", "{\"verb\": \"", std::string(route.verb), "\", \"path\": \"",
                    std::string(route.pattern), "\", \"method\": \"", std::string(route.method), "\"}");
  }
  return absl::StrCat("{\"routes\": [\n  ", lines, "\n]}\n");
}

/// Sends the text in pieces. Its place among large answers is kept until the last byte is sent.
void sendLarge(httplib::Response& response, std::string text, std::shared_ptr<void> place) {
  const auto held = std::make_shared<std::string>(std::move(text));
  response.set_content_provider(
      held->size(), kJson, [held, place = std::move(place)](size_t offset, size_t length, httplib::DataSink& sink) {
        constexpr size_t kPiece = 1 << 16;
        return sink.write(held->data() + offset, std::min(length, kPiece));
      });
}

absl::Status crowded(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat("too many ", what, " at a time; try again"));
}

absl::StatusOr<int64_t> cursorOf(const httplib::Request& request) {
  for (const std::string& text : {request.get_header_value("Last-Event-ID"), request.get_param_value("cursor")}) {
    int64_t cursor = 0;
    if (!text.empty() && (!absl::SimpleAtoi(text, &cursor) || cursor < 0)) {
      return fieldError("Last-Event-ID", text, "the id of an event, a whole number");
    }
    if (!text.empty()) {
      return cursor;
    }
  }
  return 0;
}

}  // namespace

void setError(httplib::Response& response, const absl::Status& status) {
  response.status = httpStatus(status.code());
  if (response.status == 401) {
    response.set_header("WWW-Authenticate", "Bearer");
  }
  if (const int64_t wait_us = failureOf(status).retry_after_us(); wait_us > 0) {
    response.set_header("Retry-After", absl::StrCat((wait_us + 999'999) / 1'000'000));  // whole seconds, rounded up
  }
  response.set_content(errorJson(status), kJson);
}

Answers::Answers(Upstream& upstream, HostNames names, const WebLimits& limits, const std::atomic<bool>& stopping)
    : upstream_(upstream),
      names_(std::move(names)),
      limits_(limits),
      stopping_(stopping),
      watchers_(limits.max_watchers, limits.max_watchers / 2),
      reports_(limits.max_reports, limits.max_reports / 2),
      calls_(limits.max_calls, limits.max_calls / 2),
      large_(limits.max_large, limits.max_large / 2) {}

bool Answers::refuse(const httplib::Request& request, httplib::Response& response) const {
  const absl::Status status = checkCrossSite(request, names_);
  if (status.ok()) {
    return false;
  }
  setError(response, status);
  return true;
}

void Answers::answer(const httplib::Request& request, const WebCaller& caller, httplib::Response& response) {
  if (request.path != kApi && !absl::StartsWith(request.path, absl::StrCat(kApi, "/"))) {
    return page(request, response);
  }
  if (request.path == kApi) {
    return response.set_content(routesJson(), kJson);
  }
  std::string allowed;
  const std::string verb = request.method == "HEAD" ? "GET" : request.method;
  const std::optional<Match> found = match(verb, request.path, &allowed);
  if (!found) {
    setError(response, allowed.empty()
                           ? absl::NotFoundError("there is nothing here; /v1 lists what there is")
                           : absl::UnimplementedError(absl::StrCat("this takes ", allowed, ", not ", verb)));
    if (!allowed.empty()) {
      response.status = 405;
      response.set_header("Allow", allowed);
    }
    return;
  }
  absl::Status status;
  switch (found->route->kind) {
    case AnswerKind::kUnary:
      status = call(*found, request, caller, response);
      break;
    case AnswerKind::kReport:
    case AnswerKind::kPlan:
    case AnswerKind::kTrace:
      status = report(*found, caller, response);
      break;
    case AnswerKind::kEvents:
      status = request.method == "HEAD" ? absl::UnimplementedError("an event stream has no head alone")
                                        : watch(*found, request, caller, response);
      break;
  }
  if (!status.ok()) {
    setError(response, status);
  }
}

void Answers::page(const httplib::Request& request, httplib::Response& response) const {
  if (request.path == kDocs) {
    return response.set_redirect("/docs/");  // base of the pages' relative links
  }
  const PageFile* file = fileAt(request.path == "/docs/" ? "/docs/index.html" : request.path);
  if (file == nullptr && isPlace(request.path)) {
    file = fileAt("/index.html");
  }
  if (file == nullptr || request.method == "POST") {
    return setError(response, absl::NotFoundError("there is no such file"));
  }
  const std::string tag = absl::StrCat("\"", std::string(file->sha256), "\"");
  response.set_header("ETag", tag);
  response.set_header("Cache-Control", "no-cache");
  if (request.get_header_value("If-None-Match") == tag) {
    response.status = 304;
    return;
  }
  response.set_content(file->content.data(), file->content.size(), std::string(file->type));
}

absl::Status Answers::call(const Match& match, const httplib::Request& request, const WebCaller& caller,
                           httplib::Response& response) {
  const std::shared_ptr<void> call = calls_.take(caller.address);
  if (!call) {
    return crowded("calls");
  }
  TESSERA_ASSIGN_OR_RETURN(const auto asked, requestOf(match, request.params, request.body));
  const auto answered = responseOf(*match.route);
  TESSERA_RETURN_IF_ERROR(upstream_.call(match.route->method, caller, *asked, *answered));
  std::string json = toJson(*answered);
  if (json.size() <= WebLimits::kLargeBytes) {
    response.set_content(json, kJson);
    return absl::OkStatus();
  }
  std::shared_ptr<void> place = large_.take(caller.address);
  if (!place) {
    return crowded("large answers");
  }
  sendLarge(response, std::move(json), std::move(place));
  return absl::OkStatus();
}

absl::Status Answers::report(const Match& match, const WebCaller& caller, httplib::Response& response) {
  std::shared_ptr<void> place = reports_.take(caller.address);
  if (!place) {
    return crowded("reports");
  }
  const std::string& id = match.variables.front().second;
  const auto read = match.route->kind == AnswerKind::kReport ? reportJson
                    : match.route->kind == AnswerKind::kPlan ? planJson
                                                             : timelineJson;
  TESSERA_ASSIGN_OR_RETURN(std::string json, read(upstream_, caller, id));
  sendLarge(response, std::move(json), std::move(place));
  return absl::OkStatus();
}

absl::Status Answers::watch(const Match& match, const httplib::Request& request, const WebCaller& caller,
                            httplib::Response& response) {
  TESSERA_ASSIGN_OR_RETURN(const int64_t cursor, cursorOf(request));
  std::shared_ptr<void> place = watchers_.take(caller.address);
  if (!place) {
    return absl::ResourceExhaustedError("too many watch jobs already; try again, or ask for the job itself");
  }
  const auto stream = std::make_shared<EventStream>(upstream_, caller, match.variables.front().second, cursor);
  // A missing job or a missing right is an HTTP error this way, not a stream that ends with one.
  stream->wait(kFirstEvent);
  TESSERA_RETURN_IF_ERROR(stream->status());
  response.set_header("X-Accel-Buffering", "no");
  const auto sent = std::make_shared<std::chrono::steady_clock::time_point>(std::chrono::steady_clock::now());
  response.set_chunked_content_provider(
      "text/event-stream", [this, stream, place, sent](size_t, httplib::DataSink& sink) {
        stream->wait(kLookForEvents);
        const std::optional<std::vector<v1::JobEvent>> events = stream->take();
        if (!events) {
          const absl::Status status = stream->status();
          const std::string last = status.ok() ? "event: end\ndata: {}\n\n"
                                               : absl::StrCat("event: failed\ndata: ", errorJson(status), "\n\n");
          if (!sink.write(last.data(), last.size())) {
            return false;
          }
          sink.done();
          return true;
        }
        if (stopping_) {
          return false;
        }
        const auto now = std::chrono::steady_clock::now();
        const bool quiet = events->empty() && now - *sent < limits_.max_silence;
        if (quiet) {
          return sink.is_writable();
        }
        *sent = now;
        std::string text = events->empty() ? ": still here\n\n" : "";
        for (const v1::JobEvent& event : *events) {
          absl::StrAppend(&text, asServerSentEvent(event));
        }
        return sink.write(text.data(), text.size());
      });
  return absl::OkStatus();
}

}  // namespace tessera::server::gateway
