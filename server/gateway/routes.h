#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Paths of the API: one row for each method available over HTTP, by the conventions of google.api.http.
namespace tessera::server::gateway {

/// How a path is answered.
enum class AnswerKind {
  kUnary,   ///< request from path, query and body; answer as JSON
  kEvents,  ///< WatchJob as server-sent events
  kReport,  ///< the report of an analyze job
  kPlan,    ///< the plan in an artifact, as an Explanation (planJson in reports.h)
  kTrace,   ///< finished attempts of a job in Chrome's trace format (timelineJson in reports.h)
};

struct Route {
  std::string_view verb;     ///< "GET" changes nothing; "POST" changes something, or has a body
  std::string_view pattern;  ///< "/v1/jobs/{id}:cancel": a variable is a field of the request, and one segment
  std::string_view method;   ///< "tessera.v1.JobService.CancelJob"
  AnswerKind kind = AnswerKind::kUnary;
};

struct Match {
  const Route* route = nullptr;
  std::vector<std::pair<std::string, std::string>> variables;  ///< field, value
};

std::span<const Route> routes();

/// The route of a decoded path; nullopt if there is none. `allowed`: verbs of the path, if only the verb does not
/// match.
std::optional<Match> match(std::string_view verb, std::string_view path, std::string* allowed = nullptr);

}  // namespace tessera::server::gateway
