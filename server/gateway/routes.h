#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The API as paths: one line for each method that HTTP reaches, by the conventions of google.api.http.
namespace tessera::server::gateway {

/// What a path stands for beyond a unary call.
enum class Shape {
  kUnary,   ///< request from path, query and body; the answer as JSON
  kEvents,  ///< WatchJob as server-sent events
  kReport,  ///< an analyze job's answer: the report itself
  kPlan,    ///< the plan within an artifact, with its steps as a graph
  kTrace,   ///< who worked on a job when, of WatchJob's events so far: Chrome's trace format
};

struct Route {
  std::string_view verb;     ///< "GET" looks and changes nothing; "POST" does something, or has a body
  std::string_view pattern;  ///< "/v1/jobs/{id}:cancel": a variable is a field of the request and one segment
  std::string_view method;   ///< "tessera.v1.JobService.CancelJob"
  Shape shape = Shape::kUnary;
};

struct Match {
  const Route* route = nullptr;
  std::vector<std::pair<std::string, std::string>> variables;  ///< field, value
};

std::span<const Route> routes();

/// The route of a decoded path. nullopt: there is none. Where another verb would do, `allowed` names it.
std::optional<Match> match(std::string_view verb, std::string_view path, std::string* allowed = nullptr);

}  // namespace tessera::server::gateway
