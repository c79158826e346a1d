// The page and the API over HTTP, as browsers and scripts use them.
#include "server/gateway/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_split.h"
#include "server/gateway/page_files.h"
#include "server/testing/service_bench.h"

namespace tessera::server::gateway {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

ServerOptions withWeb(ServerOptions options = {}) {
  options.web_listen = {"127.0.0.1:0"};
  return options;
}

class Web : public testing::Test {
 protected:
  explicit Web(ServerOptions options = {}) : bench_(withWeb(std::move(options))) {}

  httplib::Client client() const {
    httplib::Client client("http://" + bench_.server->webAddresses().front());
    client.set_read_timeout(20);
    return client;
  }
  Json get(const std::string& path, int status = 200, const httplib::Headers& headers = {}) const {
    const auto answer = client().Get(path, headers);
    EXPECT_TRUE(answer) << path;
    EXPECT_EQ(answer ? answer->status : 0, status) << path << (answer ? answer->body : "");
    return answer ? Json::parse(answer->body, nullptr, false) : Json();
  }
  int post(const std::string& path, const httplib::Headers& headers, const std::string& body = "{}",
           const char* type = "application/json") const {
    const auto answer = client().Post(path, headers, body, type);
    return answer ? answer->status : 0;
  }
  /// Ids of the events in a stream from a cursor to its end.
  std::vector<int> watched(const std::string& id, const httplib::Headers& headers) const {
    const auto answer = client().Get("/v1/jobs/" + id + ":watch", headers);
    EXPECT_EQ(answer ? answer->status : 0, 200);
    std::vector<int> ids;
    for (const absl::string_view line : absl::StrSplit(answer ? answer->body : "", '\n')) {
      if (line.substr(0, 4) == "id: ") {
        ids.push_back(std::stoi(std::string(line.substr(4))));
      }
    }
    EXPECT_THAT(answer ? answer->body : "", testing::EndsWith("event: end\ndata: {}\n\n"));
    return ids;
  }

  ServiceBench bench_;
};

const httplib::Headers kPage = {{"X-Tessera", "page"}};

TEST_F(Web, ListsAndShowsWhatGrpcDoes) {
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a")).id();
  const Json list = get("/v1/jobs?pageSize=5&orderBy=create_time%20desc");
  ASSERT_EQ(list["jobs"].size(), 1);
  EXPECT_EQ(list["jobs"][0]["compile"]["name"], "net");
  EXPECT_EQ(get("/v1/jobs/" + id)["job"]["id"], id);
  EXPECT_EQ(get("/v1/jobs?filter=state%20%3D%20FAILED").value("jobs", Json::array()).size(), 0);
  EXPECT_THAT(get("/v1/targets/cascadelake")["target"]["family"], "X86_64");
  EXPECT_GT(get("/v1")["routes"].size(), 20);
}

TEST_F(Web, ProjectsAreThoseOfGrpc) {
  const auto as = [&](const std::string& name, v1::Role role, const std::string& project) {
    return httplib::Headers{{"Authorization", "Bearer " + bench_.newToken(name, role, 0, project)}};
  };
  const httplib::Headers vision = as("ada", v1::CLIENT, "vision"), speech = as("bob", v1::CLIENT, "speech");
  const v1::CreateJobRequest request =
      bench_.compileRequest("r1", "net", "a");  // of an anonymous caller, hence of project default
  const std::string id = bench_.create(request).id(), sha256 = request.compile().model().sha256();
  const std::string digest = R"({"digests": [{"sha256": ")" + sha256 + R"(", "sizeBytes": "1"}]})";
  for (const httplib::Headers& thief : {vision, speech}) {
    EXPECT_EQ(get("/v1/jobs", 200, thief).value("jobs", Json::array()).size(), 0);
    EXPECT_EQ(get("/v1/jobs/" + id, 404, thief)["error"]["status"], "NOT_FOUND");
    EXPECT_EQ(get("/v1/jobs/" + id + ":watch", 404, thief)["error"]["status"], "NOT_FOUND");
    EXPECT_EQ(post("/v1/jobs/" + id + ":cancel", thief), 404);
    EXPECT_FALSE(get("/v1/blobs/" + sha256 + ":queryUpload?digest.sizeBytes=14", 200, thief).value("complete", false));
    const auto missing = client().Post("/v1/blobs:findMissing", thief, digest, "application/json");
    ASSERT_TRUE(missing);
    EXPECT_THAT(missing->body, HasSubstr(sha256));
  }
  EXPECT_EQ(get("/v1/jobs/" + id)["job"]["state"], "QUEUED");

  const auto speaking = [&](httplib::Headers headers, const std::string& project) {
    headers.emplace("Tessera-Project", project);
    return headers;
  };
  EXPECT_EQ(get("/v1/jobs", 403, speaking(vision, "default"))["error"]["status"], "PERMISSION_DENIED");
  EXPECT_EQ(get("/v1/jobs", 403, speaking({}, "vision"))["error"]["status"], "PERMISSION_DENIED");
  const httplib::Headers mender = as("eve", v1::OPERATOR, "vision");
  EXPECT_EQ(get("/v1/jobs", 200, mender).value("jobs", Json::array()).size(), 0);
  EXPECT_EQ(get("/v1/jobs", 200, speaking(mender, "-"))["jobs"].size(), 1);
  EXPECT_EQ(get("/v1/jobs/" + id, 200, speaking(mender, "default"))["job"]["project"], "default");
}

TEST_F(Web, ErrorsAreThoseOfGrpc) {
  EXPECT_EQ(get("/v1/jobs/none", 404)["error"]["status"], "NOT_FOUND");
  EXPECT_EQ(get("/v1/jobs/none:watch", 404)["error"]["status"], "NOT_FOUND");
  EXPECT_THAT(std::string(get("/v1/jobs?filter=stat%3D1", 400)["error"]["details"][0]["accepted"]), HasSubstr("state"));
  EXPECT_EQ(get("/v1/jobs?pageSize=-1", 400)["error"]["details"][0]["attribute"], "page_size");
  EXPECT_TRUE(get("/v1/jobs?pageSize=100000", 200).is_object()) << "the largest page";
  EXPECT_EQ(get("/v1/operators", 503)["error"]["status"], "UNAVAILABLE");
  EXPECT_EQ(get("/v1/nothing", 404)["error"]["code"], 404);
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a")).id();
  EXPECT_EQ(get("/v1/jobs/" + id + "/report", 400)["error"]["status"], "FAILED_PRECONDITION");
  for (const char* bytes : {"/v1/jobs?filter=%FF", "/v1/jobs?%C3=1", "/v1/jobs/%FF", "/v1/jobs/%FF:watch"}) {
    EXPECT_EQ(get(bytes, 400)["error"]["message"], "paths and parameters are UTF-8") << bytes;
  }
  EXPECT_EQ(get("/v1/tokens", 403)["error"]["status"], "PERMISSION_DENIED") << "a stranger is no operator";
}

TEST_F(Web, EventsGoOnBehindTheLastOneSeen) {
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a b")).id();
  const FakeWorkerLoop worker(bench_, "w");
  const std::vector<int> all = watched(id, {});  // live: until the job ends
  ASSERT_GT(all.size(), 4);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i], static_cast<int>(i) + 1) << "without gaps";
  }
  const std::vector<int> rest(all.begin() + 3, all.end());
  EXPECT_EQ(watched(id, {{"Last-Event-ID", "3"}}), rest);
  EXPECT_TRUE(watched(id, {{"Last-Event-ID", std::to_string(all.size())}}).empty());
  for (const char* wrong : {"-1", "x", "1e3", "99999999999999999999"}) {
    EXPECT_EQ(get("/v1/jobs/" + id + ":watch", 400, {{"Last-Event-ID", wrong}})["error"]["status"], "INVALID_ARGUMENT");
  }
}

TEST_F(Web, TraceSaysWhoWorkedWhen) {
  EXPECT_EQ(get("/v1/jobs/none/trace", 404)["error"]["status"], "NOT_FOUND");
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a b")).id();
  const Json before = get("/v1/jobs/" + id + "/trace");
  EXPECT_EQ(before["otherData"]["job"], id);
  EXPECT_TRUE(before["traceEvents"].empty()) << "nobody works, and the answer does not wait for the end";
  const FakeWorkerLoop worker(bench_, "w");
  (void)watched(id, {});
  const Json trace = get("/v1/jobs/" + id + "/trace");
  std::map<std::string, int> phases;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      EXPECT_EQ(event["args"]["name"], "w");
    } else {
      ++phases[event["name"]];
    }
  }
  EXPECT_EQ(phases["build"], 2) << "a and b";
  EXPECT_EQ(phases["plan"], 1);
}

TEST_F(Web, EveryWatchComesToItsEnd) {
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a")).id();
  const FakeWorkerLoop worker(bench_, "w");
  (void)watched(id, {});
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(watched(id, {}).empty());
      }
    });
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  bench_.server.reset();  // waits for all calls
}

TEST_F(Web, CancelNeedsWhatNoOtherSitesPageCanSend) {
  const std::string id = bench_.create(bench_.compileRequest("r1", "net", "a")).id();
  const std::string path = "/v1/jobs/" + id + ":cancel";
  EXPECT_EQ(post(path, {}), 403);
  EXPECT_EQ(get(path, 405)["error"]["code"], 501);
  EXPECT_EQ(post(path, {{"X-Tessera", "page"}, {"Origin", "http://evil.example"}}), 403);
  EXPECT_EQ(post(path, {{"X-Tessera", "page"}, {"Origin", "null"}}), 403);
  EXPECT_EQ(post(path, {{"X-Tessera", "page"}, {"Sec-Fetch-Site", "cross-site"}}), 403);
  EXPECT_EQ(post(path, kPage, "id=1", "application/x-www-form-urlencoded"), 400);
  EXPECT_EQ(post(path, kPage, "{}", "text/plain"), 400);
  EXPECT_EQ(post(path, {{"X-Tessera", "page"}, {"Content-Encoding", "gzip"}}), 400);
  EXPECT_EQ(bench_.job(id).state(), v1::Job::QUEUED);
  EXPECT_EQ(post(path, {{"X-Tessera", "page"}, {"Origin", "http://" + bench_.server->webAddresses().front()}}), 200);
  EXPECT_EQ(bench_.job(id).state(), v1::Job::CANCELLED);
}

TEST_F(Web, OtherHostsNamesAreTurnedAway) {
  for (const char* host : {"evil.example", "evil.example:7480", "127.0.0.1.evil.example", "localhost.evil.example", "",
                           "[::1].evil.example", "0x7f000001"}) {
    const auto answer = client().Get("/v1/jobs", {{"Host", host}});
    EXPECT_TRUE(answer && answer->status >= 400) << host;
  }
  for (const char* host : {"localhost", "LOCALHOST:7480", "127.0.0.1", "[::1]:7480", "10.1.2.3"}) {
    const auto answer = client().Get("/v1/jobs", {{"Host", host}});
    EXPECT_TRUE(answer && answer->status == 200) << host << (answer ? answer->body : "");
  }
}

TEST_F(Web, OtherSitesPagesAreTurnedAwayLinksAreNot) {
  (void)get("/v1/jobs", 403, {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "no-cors"}});
  (void)get("/v1/jobs", 200, {{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}});
  const auto answer = client().Get("/v1/jobs", {{"Origin", "http://evil.example"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 403);
  EXPECT_FALSE(answer->has_header("Access-Control-Allow-Origin"));
  const auto asked = client().Options("/v1/jobs");
  EXPECT_TRUE(asked && asked->status >= 400) << "no other site is allowed anything";
}

TEST_F(Web, EveryAnswerIsSafeToShow) {
  for (const char* path : {"/", "/jobs/7", "/web/main.js", "/v1/jobs", "/v1/nothing", "/web/nothing.js"}) {
    const auto answer = client().Get(path);
    ASSERT_TRUE(answer) << path;
    const std::string policy = answer->get_header_value("Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("script-src 'self'")) << path;
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'")) << path;
    EXPECT_THAT(policy, testing::Not(HasSubstr("unsafe"))) << path;
    EXPECT_EQ(answer->get_header_value("X-Content-Type-Options"), "nosniff") << path;
  }
}

TEST_F(Web, PagesComeFromTheProgramAlone) {
  const auto page = client().Get("/jobs/some-job");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->body, client().Get("/")->body) << "a place of the page";
  for (const PageFile& file : pageFiles()) {
    const auto answer = client().Get(std::string(file.path));
    ASSERT_TRUE(answer) << file.path;
    EXPECT_EQ(answer->body, file.content) << file.path;
    EXPECT_EQ(answer->get_header_value("Content-Type"), file.type);
    EXPECT_EQ(client().Get(std::string(file.path), {{"If-None-Match", answer->get_header_value("ETag")}})->status, 304);
  }
  for (const char* path : {"/web/../server/main.cpp", "/web/%2e%2e/etc/passwd.txt", "/web/..%2fmain.js", "//etc/x.conf",
                           "/web/", "/web/main.js/.", "/web/main.js%00.html"}) {
    const auto answer = client().Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_TRUE(answer->status == 404 || answer->body == page->body) << path << " " << answer->status;
  }
}

TEST_F(Web, DocumentationIsFilesAlone) {
  const auto moved = client().Get("/docs");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->status, 302);
  EXPECT_EQ(moved->get_header_value("Location"), "/docs/");
  const auto start = client().Get("/docs/");
  ASSERT_TRUE(start);
  EXPECT_EQ(start->body, client().Get("/docs/index.html")->body);
  EXPECT_THAT(start->body, HasSubstr("Documentation"));
  EXPECT_NE(start->body, client().Get("/")->body);
  for (const char* path : {"/docs/no-such-page", "/docs/no-such-page.html", "/docs/tour/", "/docs/../web/main.js/x"}) {
    EXPECT_EQ(client().Get(path)->status, 404) << path;
  }
}

class WebWithTokens : public Web {
 protected:
  static ServerOptions asking() {
    ServerOptions options;
    options.gate.anonymous_role = v1::ROLE_UNSPECIFIED;
    return options;
  }
  WebWithTokens() : Web(asking()) {}
  static httplib::Headers bearer(const std::string& token) { return {{"Authorization", "Bearer " + token}}; }
};

TEST_F(WebWithTokens, RolesAreThoseOfGrpc) {
  EXPECT_EQ(get("/v1/jobs", 401)["error"]["status"], "UNAUTHENTICATED");
  EXPECT_EQ(client().Get("/")->status, 200) << "the page itself says nothing";
  (void)get("/v1/jobs", 401, bearer("tessera-guessed"));
  (void)get("/v1/jobs", 401, {{"Authorization", "Bearer \xc3\xa9"}});
  (void)get("/v1/jobs", 401, {{"tessera-web-certificate", "tessera://operator/eve"}, {"tessera-web-address", "x"}});
  const std::string reader = bench_.newToken("ada", v1::READER), worker = bench_.newToken("w", v1::WORKER);
  (void)get("/v1/jobs", 200, bearer(reader));
  (void)get("/v1/tokens", 403, bearer(reader));
  (void)get("/v1/jobs", 403, bearer(worker));
  EXPECT_EQ(post("/v1/jobs/x:cancel", bearer(reader)), 403);
  EXPECT_EQ(get("/v1/tokens", 200, bearer(bench_.server->operatorToken()))["tokens"].size(), 3);
}

}  // namespace
}  // namespace tessera::server::gateway
