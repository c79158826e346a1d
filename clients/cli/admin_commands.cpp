// tessera admin: who may use a service. See server/README.md, "Who may do what".
#include <iostream>

#include "absl/strings/ascii.h"
#include "clients/cli/certificates.h"
#include "clients/cli/command.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/output.h"

namespace tessera::client {
namespace {

using AdminStub = v1::AdminService::Stub;

std::string roleText(v1::Role role) { return absl::AsciiStrToLower(v1::Role_Name(role)); }

std::vector<std::string> tokenRow(const v1::AccessToken& token) {
  return {token.id(),
          token.name(),
          roleText(token.role()),
          timeText(token.create_time_us()),
          token.expire_time_us() == 0 ? "never" : timeText(token.expire_time_us()),
          token.revoke_time_us() == 0 ? "" : absl::StrCat("revoked ", timeText(token.revoke_time_us()))};
}

const std::vector<std::string> kTokenHeadings = {"TOKEN", "NAME", "ROLE", "MADE", "EXPIRES", ""};

void addTokenCommands(CommandLine& line, CLI::App* admin) {
  CLI::App* token = admin->add_subcommand("token", "Tokens that say who calls")->fallthrough()->require_subcommand(1);

  CLI::App* create = token->add_subcommand("create", "Make a token; it is printed this once")->fallthrough();
  struct CreateFlags {
    std::string name, role = "client", lifetime;
  };
  auto flags = std::make_shared<CreateFlags>();
  create->add_option("--name", flags->name, "whose it is; their jobs share the service under this name")->required();
  create->add_option("--role", flags->role, "reader, client, operator or worker")
      ->check(CLI::IsMember({"reader", "client", "operator", "worker"}))
      ->capture_default_str();
  create->add_option("--lifetime", flags->lifetime, "e.g. 720h; without: until it is revoked");
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
        // The token alone, for a file: tessera admin token create ... > ada.token
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

  CLI::App* revoke = token->add_subcommand("revoke", "End a token now")->fallthrough();
  auto id = std::make_shared<std::string>();
  revoke->add_option("id", *id, "as `tessera admin token list` shows it")->required();
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
      "certificates", "Make an authority and certificates, for tests and networks without an authority of their own");
  command->fallthrough();
  auto request = std::make_shared<CertificateRequest>();
  command->add_option("folder", request->folder, "where to; an authority that is there is used again")->required();
  command->add_option("--host", request->hosts, "name or address the server is called by; may be repeated");
  command->add_option("--caller", request->callers,
                      "role:name of one who shows a certificate, e.g. worker:build-1; may be repeated");
  command->add_option("--days", request->days, "how long they are good")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  command->callback([&line, request] {
    line.action = [&line, request] {
      const absl::Status status = makeCertificates(*request);
      return status.ok() ? static_cast<int>(kExitOk) : reportError(status, line.json);
    };
  });
}

}  // namespace

void addAdminCommand(CommandLine& line) {
  CLI::App* admin = line.add("admin", "Run a service: who may use it (as operator, see --operator-of)");
  admin->require_subcommand(1);
  addTokenCommands(line, admin);
  addCertificatesCommand(line, admin);
}

}  // namespace tessera::client
