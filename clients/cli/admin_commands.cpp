// tessera admin: tokens, certificates, retention, backups and quotas of a service.
#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "clients/cli/certificates.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/list_output.h"
#include "clients/cli/local_service.h"
#include "clients/cli/output.h"
#include "clients/cpp/trust.h"
#include "google/protobuf/util/time_util.h"
#include "proto/messages/project.h"
#include "proto/support/printable.h"

namespace tessera::client {
namespace {

using AdminStub = v1::AdminService::Stub;

std::string roleText(v1::Role role) { return absl::AsciiStrToLower(v1::Role_Name(role)); }

std::vector<std::string> tokenRow(const v1::AccessToken& token) {
  return {token.id(),
          token.name(),
          roleText(token.role()),
          projectOf(token),
          timeText(token.create_time_us()),
          token.expire_time_us() == 0 ? "never" : timeText(token.expire_time_us()),
          token.revoke_time_us() == 0 ? "" : absl::StrCat("revoked ", timeText(token.revoke_time_us()))};
}

const std::vector<std::string> kTokenHeadings = {"TOKEN", "NAME", "ROLE", "PROJECT", "MADE", "EXPIRES", ""};

void addSigningKeyCommand(CommandLine& line, CLI::App* admin) {
  CLI::App* command =
      admin
          ->add_subcommand("signing-key",
                           "Print the public key of this service's signatures; every role may ask for it")
          ->fallthrough();
  auto trust = std::make_shared<bool>(false);
  command->add_flag("--trust", *trust,
                    "add it to the trusted keys (TESSERA_TRUST): artifacts it signed may run from now on");
  command->callback([&line, trust] {
    line.action = [&line, trust] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      auto answer =
          (*channel)->call((*channel)->signing(), &v1::SigningService::Stub::GetSigningKey, v1::GetSigningKeyRequest());
      if (!answer.ok()) return reportError(answer.status(), line.json);
      if (*trust) {
        absl::Status status = trustKey(defaultTrustFile(), answer->public_key(), (*channel)->address());
        if (!status.ok()) return reportError(status, line.json);
      }
      std::cout << (line.json ? toJson(*answer) : answer->public_key()) << "\n";
      return static_cast<int>(kExitOk);
    };
  });
}

void addTokenCommands(CommandLine& line, CLI::App* admin) {
  CLI::App* token =
      admin->add_subcommand("token", "Create, list and revoke tokens")->fallthrough()->require_subcommand(1);

  CLI::App* create =
      token->add_subcommand("create", "Create a token for --project; it is printed only once")->fallthrough();
  struct CreateFlags {
    std::string name, role = "client", lifetime;
  };
  auto flags = std::make_shared<CreateFlags>();
  create->add_option("--name", flags->name, "name of its holder; quotas and logs use this name")->required();
  create->add_option("--role", flags->role, "reader, client, operator or worker")
      ->check(CLI::IsMember({"reader", "client", "operator", "worker"}))
      ->capture_default_str();
  create->add_option("--lifetime", flags->lifetime, "e.g. 720h; default: until it is revoked");
  create->callback([&line, flags] {
    line.action = [&line, flags] {
      v1::CreateTokenRequest request;
      request.set_name(flags->name);
      v1::Role role = v1::ROLE_UNSPECIFIED;
      v1::Role_Parse(absl::AsciiStrToUpper(flags->role), &role);
      request.set_role(role);
      if (!flags->lifetime.empty()) {
        auto lifetime = parseDuration(flags->lifetime);
        if (!lifetime.ok()) return reportError(lifetime.status(), line.json);
        request.set_lifetime_us(*lifetime);
      }
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      auto made = (*channel)->call((*channel)->admin(), &AdminStub::CreateToken, request, {.attempts = 1});
      if (!made.ok()) return reportError(made.status(), line.json);
      if (line.json) {
        std::cout << toJson(*made) << "\n";
      } else {
        // Only the token goes to standard output, so that it can be redirected to a file: tessera admin token create
        // ... > ada.token
        std::cerr << table(kTokenHeadings, {tokenRow(made->token())});
        std::cout << made->secret() << "\n";
      }
      return static_cast<int>(kExitOk);
    };
  });

  CLI::App* list = token->add_subcommand("list", "All tokens, without their secrets")->fallthrough();
  list->callback([&line] {
    line.action = [&line] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      auto page = (*channel)->call((*channel)->admin(), &AdminStub::ListTokens, v1::ListTokensRequest());
      if (!page.ok()) return reportError(page.status(), line.json);
      if (line.json) {
        std::cout << toJson(*page) << "\n";
      } else {
        std::vector<std::vector<std::string>> rows;
        for (const v1::AccessToken& entry : page->tokens()) rows.push_back(tokenRow(entry));
        std::cout << table(kTokenHeadings, rows);
      }
      return static_cast<int>(kExitOk);
    };
  });

  CLI::App* revoke = token->add_subcommand("revoke", "Revoke a token immediately")->fallthrough();
  auto id = std::make_shared<std::string>();
  revoke->add_option("id", *id, "id from `tessera admin token list`")->required();
  revoke->callback([&line, id] {
    line.action = [&line, id] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      v1::RevokeTokenRequest request;
      request.set_id(*id);
      auto answer = (*channel)->call((*channel)->admin(), &AdminStub::RevokeToken, request);
      if (!answer.ok()) return reportError(answer.status(), line.json);
      std::cout << (line.json ? toJson(answer->token()) + "\n" : table(kTokenHeadings, {tokenRow(answer->token())}));
      return static_cast<int>(kExitOk);
    };
  });
}

void addCertificatesCommand(CommandLine& line, CLI::App* admin) {
  CLI::App* command = admin->add_subcommand(
      "certificates", "Create an authority and certificates, for tests and for networks without an authority");
  command->fallthrough();
  auto request = std::make_shared<CertificateRequest>();
  command->add_option("folder", request->folder, "output folder; an existing authority in it is used")->required();
  command->add_option("--host", request->hosts,
                      "name or address of the server, in addition to localhost; may be repeated");
  command->add_option("--caller", request->callers,
                      "ROLE:NAME of a caller that gets a certificate, e.g. worker:build-1 or "
                      "'client:ada?project=vision'; may be repeated");
  command->add_option("--days", request->days, "validity of the certificates")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  command->callback([&line, request] {
    line.action = [&line, request] {
      const auto written = makeCertificates(*request);
      if (!written.ok()) return reportError(written.status(), line.json);
      if (line.json) {
        std::cout << "{\"files\":["
                  << absl::StrJoin(*written, ",", [](auto* out, const auto& file) { *out += jsonString(file); })
                  << "]}\n";
      }
      return static_cast<int>(kExitOk);
    };
  });
}

std::vector<std::string> serverRow(const v1::Server& server) {
  using google::protobuf::util::TimeUtil;
  return {server.id(),
          absl::AsciiStrToLower(v1::Server::State_Name(server.state())),
          server.address(),
          server.host(),
          server.release(),
          timeText(TimeUtil::TimestampToMicroseconds(server.start_time())),
          timeText(TimeUtil::TimestampToMicroseconds(server.heartbeat_time())),
          absl::StrJoin(server.duties(), ", ")};
}

void addServersCommand(CommandLine& line, CLI::App* admin) {
  CLI::App* command = admin->add_subcommand("servers", "List the servers on the service's database")->fallthrough();
  auto flags = std::make_shared<ListFlags>();
  flags->addTo(command, "id, state, address, host, release, start_time, heartbeat_time", "id");
  command->callback([&line, flags] {
    line.action = [&line, flags] {
      auto channel = line.connect();
      if (!channel.ok()) return reportError(channel.status(), line.json);
      return printList<v1::ListServersRequest>(
          line, *flags, "servers", {"SERVER", "STATE", "ADDRESS", "HOST", "RELEASE", "STARTED", "HEARTBEAT", "DUTIES"},
          [&](const auto& request) {
            return (*channel)->call((*channel)->servers(), &v1::ServerService::Stub::ListServers, request);
          },
          [](const auto& page) -> const auto& { return page.servers(); }, serverRow);
    };
  });
}

/// Calls the admin service and prints the answer by `show`, or as JSON. Collections and verifications take long.
template <typename Request, typename Response>
int callAdmin(const CommandLine& line,
              grpc::Status (AdminStub::*method)(grpc::ClientContext*, const Request&, Response*),
              const Request& request, const std::function<int(const Response&)>& show) {
  auto channel = line.connect();
  if (!channel.ok()) return reportError(channel.status(), line.json);
  auto answer =
      (*channel)->call((*channel)->admin(), method, request, {.timeout = std::chrono::hours(24), .attempts = 1});
  if (!answer.ok()) return reportError(answer.status(), line.json);
  if (line.json) std::cout << toJson(*answer) << "\n";
  return show(*answer);
}

/// "3 of 10", or "3" without a limit.
template <typename Number, typename Bound>
std::string ofBound(Number used, Bound bound) {
  return bound == 0 ? absl::StrCat(used) : absl::StrCat(used, " of ", bound);
}

void addQuotasCommand(CommandLine& line, CLI::App* admin) {
  CLI::App* command =
      admin->add_subcommand("quotas", "Usage and quotas of each project (tesserad --quotas)")->fallthrough();
  command->callback([&line] {
    line.action = [&line] {
      return callAdmin<v1::ListQuotasRequest, v1::ListQuotasResponse>(
          line, &AdminStub::ListQuotas, {}, [&line](const v1::ListQuotasResponse& answer) {
            std::vector<std::vector<std::string>> rows;
            for (const v1::ListQuotasResponse::Usage& usage : answer.projects()) {
              const v1::Quota& quota = usage.quota();
              rows.push_back({usage.project(), ofBound(usage.queued_jobs(), quota.queued_jobs()),
                              ofBound(usage.running_jobs(), quota.running_jobs()), absl::StrCat(usage.blobs()),
                              ofBound(usage.stored_bytes(), quota.stored_bytes()),
                              quota.calls_per_second() == 0 ? "any" : absl::StrCat(quota.calls_per_second())});
            }
            if (!line.json) {
              std::cout << table({"PROJECT", "QUEUED", "RUNNING", "BLOBS", "BYTES", "CALLS/S"}, rows);
            }
            return static_cast<int>(kExitOk);
          });
    };
  });
}

void addCollectCommand(CommandLine& line, CLI::App* admin) {
  CLI::App* command =
      admin->add_subcommand("gc", "Delete data that the service's retention policy no longer keeps")->fallthrough();
  auto dry_run = std::make_shared<bool>(false);
  command->add_flag(
      "--dry-run", *dry_run,
      "only list what would be deleted now; blobs that lose their last reference thereby are not counted");
  command->callback([&line, dry_run] {
    line.action = [&line, dry_run] {
      v1::CollectGarbageRequest request;
      request.set_dry_run(*dry_run);
      return callAdmin<v1::CollectGarbageRequest, v1::CollectGarbageResponse>(
          line, &AdminStub::CollectGarbage, request, [&line, dry_run](const v1::CollectGarbageResponse& gone) {
            if (line.json) return static_cast<int>(kExitOk);
            std::cout << (*dry_run ? "would go: " : "gone: ") << gone.jobs() << " jobs, " << gone.events()
                      << " events, " << gone.artifacts() << " artifacts, " << gone.objects() << " objects, "
                      << gone.records() << " records, " << gone.blobs() << " blobs (" << bytesText(gone.blob_bytes())
                      << ")\n"
                      << "kept: " << gone.kept_blobs() << " blobs (" << bytesText(gone.kept_bytes()) << ")\n";
            return static_cast<int>(kExitOk);
          });
    };
  });
}

void addVerifyCommand(CommandLine& line, CLI::App* admin) {
  CLI::App* command =
      admin->add_subcommand("verify", "Check that all stored data is present and intact")->fallthrough();
  auto quick = std::make_shared<bool>(false);
  command->add_flag("--quick", *quick, "check sizes only, read no blobs");
  command->callback([&line, quick] {
    line.action = [&line, quick] {
      v1::VerifyStorageRequest request;
      request.set_read_blobs(!*quick);
      return callAdmin<v1::VerifyStorageRequest, v1::VerifyStorageResponse>(
          line, &AdminStub::VerifyStorage, request, [&line](const v1::VerifyStorageResponse& found) {
            if (!line.json) {
              for (const std::string& problem : found.problems()) std::cout << printable(problem) << "\n";
              std::cout << found.blobs() << " blobs (" << bytesText(found.bytes()) << "), " << found.problems_size()
                        << " problems\n";
            }
            return static_cast<int>(found.problems().empty() ? kExitOk : kExitInternal);
          });
    };
  });
}

/// Only tesserad knows the layout of a data folder, so this program starts one that copies, whether or not a service
/// runs.
int copyByServer(const CommandLine& line, std::vector<std::string> arguments) {
  if (line.json) arguments.emplace_back("--json");
  const std::string binary = serverBinary();
  std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return reportError(absl::ErrnoToStatus(errno, absl::StrCat("cannot start ", binary)), line.json);
}

void addBackupCommands(CommandLine& line, CLI::App* admin) {
  auto folder = std::make_shared<std::string>(), data = std::make_shared<std::string>();
  CLI::App* backup = admin->add_subcommand("backup", "Copy a service's data (--operator-of) while it runs");
  backup->fallthrough();
  backup->add_option("folder", *folder, "destination; an earlier backup there is updated with new data only")
      ->required();
  backup->callback([&line, folder] {
    line.action = [&line, folder] {
      if (line.data_folder.empty()) {
        return reportError(absl::InvalidArgumentError("name the service's data folder with --operator-of"), line.json);
      }
      return copyByServer(line, {"--data-dir", line.data_folder, "--backup-to", *folder});
    };
  });
  CLI::App* restore = admin->add_subcommand("restore", "Create a data folder from a backup")->fallthrough();
  restore->add_option("folder", *folder, "the backup")->required();
  restore->add_option("data", *data, "the data folder to create")->required();
  restore->callback([&line, folder, data] {
    line.action = [&line, folder, data] {
      return copyByServer(line, {"--data-dir", *data, "--restore-from", *folder});
    };
  });
}

void addMigrateCommand(CommandLine& line, CLI::App* admin) {
  struct Places {
    std::string from, from_blobs, to, blobs;
  };
  auto places = std::make_shared<Places>();
  CLI::App* command = admin
                          ->add_subcommand("migrate",
                                           "Copy all data of a service from a data folder to PostgreSQL and an object "
                                           "store, or back; run it again to continue")
                          ->fallthrough();
  command->add_option("--from", places->from, "a data folder, or a database: postgresql://...")->required();
  command->add_option("--to", places->to, "likewise: an empty database, or a folder to create")->required();
  command->add_option("--blobs", places->blobs,
                      "of a database as destination: where its blobs go, s3://... or a shared folder; an empty place");
  command->add_option("--blobs-from", places->from_blobs, "of a database as source: where its blobs are");
  command->callback([&line, places] {
    line.action = [&line, places] {
      const bool to_database = places->to.starts_with("postgresql://") || places->to.starts_with("postgres://");
      std::vector<std::string> arguments = {to_database ? "--store" : "--data-dir", places->to, "--migrate-from",
                                            places->from};
      if (!places->blobs.empty()) arguments.insert(arguments.end(), {"--blobs", places->blobs});
      if (!places->from_blobs.empty()) arguments.insert(arguments.end(), {"--migrate-from-blobs", places->from_blobs});
      return copyByServer(line, arguments);
    };
  });
}

void addDeleteCommand(CommandLine& line, CLI::App* admin) {
  CLI::App* command = admin->add_subcommand("delete", "Delete one object that no unfinished job needs")->fallthrough();
  auto request = std::make_shared<v1::DeleteRequest>();
  CLI::Option_group* one = command->add_option_group("what");
  const auto option = [&](const char* name, const char* what, void (v1::DeleteRequest::*set)(const std::string&)) {
    one->add_option_function<std::string>(name, [request, set](const std::string& id) { (*request.*set)(id); }, what);
  };
  option("--job", "a job that has ended", &v1::DeleteRequest::set_job_id<const std::string&>);
  option("--artifact", "an artifact", &v1::DeleteRequest::set_artifact_id<const std::string&>);
  option("--record", "a tuning record", &v1::DeleteRequest::set_record_id<const std::string&>);
  option("--target", "a registered target", &v1::DeleteRequest::set_target_name<const std::string&>);
  option("--worker", "a worker that is lost", &v1::DeleteRequest::set_worker_id<const std::string&>);
  one->require_option(1);
  command->callback([&line, request] {
    line.action = [&line, request] {
      return callAdmin<v1::DeleteRequest, v1::DeleteResponse>(
          line, &AdminStub::Delete, *request, [](const v1::DeleteResponse&) { return static_cast<int>(kExitOk); });
    };
  });
}

void addPinCommand(CommandLine& line, CLI::App* admin, const char* name, bool unpin) {
  CLI::App* command = admin->add_subcommand(
      name, unpin ? "Apply the retention policy again" : "Keep an object regardless of the retention policy");
  command->fallthrough();
  auto job = std::make_shared<std::string>(), artifact = std::make_shared<std::string>();
  CLI::Option_group* one = command->add_option_group("what");
  one->add_option("--job", *job, "a job, with everything it refers to");
  one->add_option("--artifact", *artifact, "an artifact");
  one->require_option(1);
  command->callback([&line, job, artifact, unpin] {
    line.action = [&line, job, artifact, unpin] {
      v1::PinRequest request;
      if (artifact->empty()) {
        request.set_job_id(*job);
      } else {
        request.set_artifact_id(*artifact);
      }
      request.set_unpin(unpin);
      return callAdmin<v1::PinRequest, v1::PinResponse>(
          line, &AdminStub::Pin, request, [](const v1::PinResponse&) { return static_cast<int>(kExitOk); });
    };
  });
}

}  // namespace

void addAdminCommand(CommandLine& line) {
  CLI::App* admin = line.add(
      "admin", "Administer a service: tokens, certificates, retention, backups (as operator, see --operator-of)");
  admin->require_subcommand(1);
  addSigningKeyCommand(line, admin);
  addTokenCommands(line, admin);
  addCertificatesCommand(line, admin);
  addServersCommand(line, admin);
  addQuotasCommand(line, admin);
  addCollectCommand(line, admin);
  addVerifyCommand(line, admin);
  addBackupCommands(line, admin);
  addMigrateCommand(line, admin);
  addDeleteCommand(line, admin);
  addPinCommand(line, admin, "pin", false);
  addPinCommand(line, admin, "unpin", true);
}

}  // namespace tessera::client
