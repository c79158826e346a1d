#include "clients/cli/certificates.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "clients/cpp/local_file.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"

namespace tessera::client {
namespace {

namespace fs = std::filesystem;

template <auto free>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using File = std::unique_ptr<FILE, Free<fclose>>;

struct Pair {
  Key key;
  Certificate certificate;
};

absl::Status failed(const std::string& what) {
  const char* reason = ERR_reason_error_string(ERR_get_error());
  return absl::InternalError(
      absl::StrCat("cannot ", what, reason != nullptr ? ": " : "", reason != nullptr ? reason : ""));
}

/// Creates a new file that only its owner can read.
File create(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  return File(file >= 0 ? fdopen(file, "w") : nullptr);
}

/// Appends the names of the new files to `written`.
absl::Status write(const Pair& pair, const std::string& stem, std::vector<std::string>& written) {
  const File key = create(stem + ".key");
  const File certificate = create(stem + ".pem");
  if (!key || !certificate) return fileError(errno, absl::StrCat("cannot write ", stem, ".pem and .key"));
  if (PEM_write_PrivateKey(key.get(), pair.key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      PEM_write_X509(certificate.get(), pair.certificate.get()) != 1) {
    return failed(absl::StrCat("write ", stem, ".pem and .key"));
  }
  // The files have a few kilobytes, so a full disk appears in this flush.
  if (fflush(key.get()) != 0 || fflush(certificate.get()) != 0) {
    return fileError(errno, absl::StrCat("cannot write ", stem, ".pem and .key"));
  }
  for (const char* end : {".pem", ".key"}) written.push_back(stem + end);
  return absl::OkStatus();
}

bool add(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

/// The properties that distinguish kinds of certificates.
struct Use {
  std::string name;  ///< of the subject
  std::string constraints, key_usage, extended_usage, alternative_names;
};

/// Issues a certificate signed by `authority`; self-signed if that is null.
absl::StatusOr<Pair> issue(const Use& use, const Pair* authority, int days) {
  Pair made{Key(EVP_EC_gen("P-256")), Certificate(X509_new())};
  X509* certificate = made.certificate.get();
  if (!made.key || certificate == nullptr) return failed("make a key");
  X509* issuer = authority != nullptr ? authority->certificate.get() : certificate;
  unsigned char serial[16];
  bool good = RAND_bytes(serial, sizeof(serial)) == 1;
  serial[0] &= 0x7f;  // a serial number is positive
  const std::unique_ptr<BIGNUM, Free<BN_free>> number(BN_bin2bn(serial, sizeof(serial), nullptr));
  good = good && number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
  good = good && X509_set_version(certificate, X509_VERSION_3) == 1;
  // One hour in the past, because clocks differ.
  good = good && X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) != nullptr;
  good = good && X509_time_adj_ex(X509_getm_notAfter(certificate), days, 0, nullptr) != nullptr;
  good = good && X509_set_pubkey(certificate, made.key.get()) == 1;
  good = good && X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                            reinterpret_cast<const unsigned char*>(use.name.c_str()), -1, -1, 0) == 1;
  good = good && X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1;
  good = good && add(certificate, issuer, NID_basic_constraints, use.constraints);
  good = good && add(certificate, issuer, NID_key_usage, use.key_usage);
  good = good && add(certificate, issuer, NID_subject_key_identifier, "hash");
  good = good && (use.extended_usage.empty() || add(certificate, issuer, NID_ext_key_usage, use.extended_usage));
  good =
      good && (use.alternative_names.empty() || add(certificate, issuer, NID_subject_alt_name, use.alternative_names));
  EVP_PKEY* signer = authority != nullptr ? authority->key.get() : made.key.get();
  if (!good || X509_sign(certificate, signer, EVP_sha256()) == 0) {
    return failed(absl::StrCat("make the certificate of ", use.name));
  }
  return made;
}

absl::StatusOr<Pair> authorityIn(const std::string& stem, int days, std::vector<std::string>& written) {
  const File key(fopen((stem + ".key").c_str(), "r"));
  const File certificate(fopen((stem + ".pem").c_str(), "r"));
  if (key && certificate) {
    Pair pair{Key(PEM_read_PrivateKey(key.get(), nullptr, nullptr, nullptr)),
              Certificate(PEM_read_X509(certificate.get(), nullptr, nullptr, nullptr))};
    if (!pair.key || !pair.certificate) return failed(absl::StrCat("read ", stem, ".pem and .key"));
    return pair;
  }
  absl::StatusOr<Pair> made = issue(
      {"Tessera test authority", "critical,CA:TRUE,pathlen:0", "critical,keyCertSign,cRLSign", "", ""}, nullptr, days);
  if (!made.ok()) return made;
  TESSERA_RETURN_IF_ERROR(write(*made, stem, written));
  return made;
}

bool isAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

/// Commas and similar characters are syntax in the text of an extension, and slashes in a file's name.
absl::Status checkName(const std::string& name) {
  constexpr char kAccepted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:@";
  if (!name.empty() && name.find_first_not_of(kAccepted) == std::string::npos && name.size() <= 64) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "': found; accepted: 1 to 64 of letters, digits and .-_:@"));
}

absl::Status issueCaller(const CertificateRequest& request, const std::string& caller, const Pair& authority,
                         std::vector<std::string>& written) {
  const std::vector<std::string> parts = absl::StrSplit(caller, absl::MaxSplits(':', 1));
  const bool role = parts[0] == "reader" || parts[0] == "client" || parts[0] == "operator" || parts[0] == "worker";
  if (!role || parts.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", caller, "': found; accepted: ROLE:NAME with a role of reader, client, operator, worker"));
  }
  const std::vector<std::string> named = absl::StrSplit(parts[1], absl::MaxSplits("?project=", 1));
  TESSERA_RETURN_IF_ERROR(checkName(named[0]));
  if (named.size() == 2 && !isProjectName(named[1])) {
    return absl::InvalidArgumentError(absl::StrCat("'", named[1], "': found; accepted: the name of a project: a ",
                                                   "lower-case letter, then at most 62 of a-z, 0-9, '-'"));
  }
  TESSERA_ASSIGN_OR_RETURN(Pair made, issue({named[0], "CA:FALSE", "critical,digitalSignature", "clientAuth",
                                             absl::StrCat("URI:tessera://", parts[0], "/", parts[1])},
                                            &authority, request.days));
  const std::string file = absl::StrCat(request.folder, "/", parts[0], "-", named[0]);
  return write(made, named.size() == 2 ? absl::StrCat(file, "-", named[1]) : file, written);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> makeCertificates(const CertificateRequest& request) {
  std::vector<std::string> written;
  std::vector<std::string> names;
  for (const std::string& host : request.hosts) {
    TESSERA_RETURN_IF_ERROR(checkName(host));
    names.push_back(absl::StrCat(isAddress(host) ? "IP:" : "DNS:", host));
  }
  std::error_code error;
  // Key files have their own permissions; an existing folder may be readable by others.
  const bool made = fs::create_directories(request.folder, error);
  if (made) fs::permissions(request.folder, fs::perms::owner_all, error);
  if (error) return fileError(error.value(), absl::StrCat("cannot make ", request.folder));
  TESSERA_ASSIGN_OR_RETURN(const Pair authority, authorityIn(request.folder + "/ca", request.days, written));
  if (!names.empty()) {
    // Local administration uses these names: metrics, readiness, the web page.
    for (const char* own : {"DNS:localhost", "IP:127.0.0.1", "IP:::1"})
      if (std::ranges::find(names, own) == names.end()) names.emplace_back(own);
    TESSERA_ASSIGN_OR_RETURN(Pair server, issue({request.hosts.front(), "CA:FALSE", "critical,digitalSignature",
                                                 "serverAuth", absl::StrJoin(names, ",")},
                                                &authority, request.days));
    TESSERA_RETURN_IF_ERROR(write(server, request.folder + "/server", written));
  }
  for (const std::string& caller : request.callers) {
    TESSERA_RETURN_IF_ERROR(issueCaller(request, caller, authority, written));
  }
  return written;
}

}  // namespace tessera::client
