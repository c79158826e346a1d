#include "storage/testing/postgres_server.h"

#include <fcntl.h>
#include <postgresql/libpq-fe.h>
#include <pwd.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill()
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"

namespace tessera::storage {
namespace {

constexpr const char* kPrograms = "/usr/lib/postgresql/15/bin/";
constexpr std::chrono::seconds kPatience(60);

/// The user that runs the programs if this process is root's; null: this process's own user.
const passwd* otherUser() {
  if (geteuid() != 0) return nullptr;
  const passwd* const user = getpwnam("postgres");
  return user != nullptr ? user : getpwnam("nobody");
}

/// Starts a program of the package, whose output goes to `log`.
pid_t spawn(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const passwd* const user = otherUser();
  const pid_t child = fork();
  if (child != 0) return child;
  if (user != nullptr && (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGQUIT);  // after setuid(), which clears it
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (output >= 0) {
    dup2(output, 1);
    dup2(output, 2);
  }
  if (chdir("/") != 0) _exit(126);
  execv(arguments[0], arguments.data());
  _exit(127);
}

int wait(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresServer>> PostgresServer::start() {
  if (!std::filesystem::exists(absl::StrCat(kPrograms, "postgres"))) {
    return absl::NotFoundError("PostgreSQL 15 is not installed; install Debian's package postgresql-15");
  }
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-postgres-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return absl::InternalError("cannot create a temporary folder");
  const passwd* const user = otherUser();
  if (user != nullptr && chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0) {
    return absl::InternalError("cannot give the temporary folder away");
  }
  std::unique_ptr<PostgresServer> server(new PostgresServer(folder));
  const pid_t creating = spawn({absl::StrCat(kPrograms, "initdb"), "-D", folder + "/data", "-U", "tessera", "-A",
                                "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"},
                               folder + "/log");
  if (wait(creating) != 0) return absl::InternalError(absl::StrCat("initdb failed; see ", folder, "/log"));
  TESSERA_RETURN_IF_ERROR(server->launch());
  return server;
}

const absl::StatusOr<std::unique_ptr<PostgresServer>>& PostgresServer::shared() {
  static const absl::StatusOr<std::unique_ptr<PostgresServer>> server = start();
  return server;
}

absl::Status PostgresServer::launch() {
  process_ = spawn({absl::StrCat(kPrograms, "postgres"), "-D", folder_ + "/data", "-k", folder_, "-c",
                    "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200", "-c", "shared_buffers=64MB"},
                   folder_ + "/log");
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (PQping(uri("template1").c_str()) != PQPING_OK) {
    if (std::chrono::steady_clock::now() > give_up || waitpid(process_, nullptr, WNOHANG) != 0) {
      return absl::InternalError(absl::StrCat("PostgreSQL does not start; see ", folder_, "/log"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return absl::OkStatus();
}

PostgresServer::~PostgresServer() {
  if (process_ > 0) {
    kill(process_, SIGQUIT);  // ends at once; nothing is to be kept
    wait(process_);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

absl::Status PostgresServer::crashAndRestart() {
  kill(process_, SIGQUIT);
  wait(process_);
  return launch();
}

void PostgresServer::signalAll(int signal) const {
  std::ifstream children(absl::StrCat("/proc/", process_, "/task/", process_, "/children"));
  std::vector<pid_t> processes = {process_};
  for (pid_t child = 0; children >> child;) processes.push_back(child);
  for (const pid_t process : processes) kill(process, signal);
}

std::string PostgresServer::uri(const std::string& database) const {
  return absl::StrCat("postgresql:///", database, "?host=", folder_, "&user=tessera");
}

absl::StatusOr<std::string> PostgresServer::createDatabase(const std::string& like) {
  const std::string name = absl::StrCat("test_", ++databases_);
  TESSERA_RETURN_IF_ERROR(query(uri("template1"), absl::StrCat("CREATE DATABASE ", name, " TEMPLATE ", like)).status());
  return uri(name);
}

absl::StatusOr<std::string> PostgresServer::query(const std::string& uri, const std::string& sql) const {
  PGconn* const connection = PQconnectdb(uri.c_str());
  PGresult* const result = PQexec(connection, sql.c_str());
  absl::StatusOr<std::string> answer = absl::InternalError(PQerrorMessage(connection));
  if (PQresultStatus(result) == PGRES_TUPLES_OK) {
    answer = PQntuples(result) > 0 ? std::string(PQgetvalue(result, 0, 0)) : "";
  } else if (PQresultStatus(result) == PGRES_COMMAND_OK) {
    answer = "";
  }
  PQclear(result);
  PQfinish(connection);
  return answer;
}

}  // namespace tessera::storage
