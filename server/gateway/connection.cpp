#include "server/gateway/connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera::server::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kBufferBytes = 8192;
constexpr milliseconds kLookForPeer{200};

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Bio textOf(const std::string& pem) { return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free}; }

Certificate nextCertificate(BIO* pem) { return {PEM_read_bio_X509(pem, nullptr, nullptr, nullptr), &X509_free}; }

absl::Status unusable(const char* flag, const char* accepted) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(flag, ": this file cannot be used; accepted: ", accepted));
}

/// Replaces OpenSSL's callback, which prompts on the terminal.
int noPassphrase(char*, int, int, void*) { return -1; }

bool useCertificates(SSL_CTX* context, const std::string& pem) {
  const Bio text = textOf(pem);
  const Certificate own = nextCertificate(text.get());
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return false;
  }
  while (Certificate issuer = nextCertificate(text.get())) {
    if (SSL_CTX_add1_chain_cert(context, issuer.get()) != 1) {
      return false;
    }
  }
  ERR_clear_error();  // the end of the file is reported as one
  return true;
}

bool trust(SSL_CTX* context, const std::string& pem) {
  const Bio text = textOf(pem);
  int count = 0;
  while (const Certificate authority = nextCertificate(text.get())) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1 ||
        SSL_CTX_add_client_CA(context, authority.get()) != 1) {
      return false;
    }
    ++count;
  }
  ERR_clear_error();
  return count > 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SSL_CTX>> tlsContext(const Tls& tls) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // A resumed session would skip the check of the client certificate.
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!useCertificates(context.get(), tls.certificate)) {
    return unusable("--tls-cert", "certificates as PEM, the server's own first");
  }
  const Bio text = textOf(tls.private_key);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(text.get(), nullptr, noPassphrase, nullptr), &EVP_PKEY_free);
  if (!key || SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return unusable("--tls-key", "the private key of the first certificate of --tls-cert, as PEM without a passphrase");
  }
  if (!tls.client_authority.empty()) {
    if (!trust(context.get(), tls.client_authority)) {
      return unusable("--tls-client-ca", "certificates as PEM");
    }
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | (tls.need_certificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
  }
  return context;
}

Connection::Connection(int socket, std::string peer, const std::shared_ptr<SSL_CTX>& tls, const WebLimits& limits)
    : socket_(socket), peer_(std::move(peer)), context_(tls), limits_(limits) {
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL, 0) | O_NONBLOCK);
  fcntl(socket_, F_SETFD, FD_CLOEXEC);  // a worker started meanwhile must not inherit the connection
  // An answer consists of several writes; the last one must not wait for the acknowledgement of the first.
  const int yes = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (context_) {
    tls_.reset(SSL_new(context_.get()));
    SSL_set_fd(tls_.get(), socket_);
  }
}

Connection::~Connection() {
  if (tls_) {
    SSL_shutdown(tls_.get());
    ERR_clear_error();
  }
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

/// Waits for one of `events` until `until`; false at the timeout.
bool Connection::ready(short events, Time until) const {
  pollfd entry{socket_, events, 0};
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
    const int count = ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (count >= 0 || errno != EINTR) {
      return count > 0;
    }
  }
}

/// A TLS read may have to write and vice versa (renegotiation, key updates): waits for what the last call needs.
bool Connection::tlsMayGoOn(int outcome, Time until) const {
  const int why = SSL_get_error(tls_.get(), outcome);
  ERR_clear_error();
  return (why == SSL_ERROR_WANT_READ && ready(POLLIN, until)) || (why == SSL_ERROR_WANT_WRITE && ready(POLLOUT, until));
}

bool Connection::shakeHands() {
  if (!tls_) {
    return true;
  }
  const Time until = steady_clock::now() + limits_.request;
  while (true) {
    const int outcome = SSL_accept(tls_.get());
    if (outcome == 1) {
      return true;
    }
    if (!tlsMayGoOn(outcome, until)) {
      return false;
    }
  }
}

bool Connection::awaitRequest(const std::function<bool()>& stopping) {
  const Time until = steady_clock::now() + limits_.idle;
  while (!stopping() && steady_clock::now() < until) {
    // Bytes may already be here: in our buffer, or decrypted by TLS, where poll() does not see them.
    if (next_ < buffer_.size() || (tls_ && SSL_pending(tls_.get()) > 0) ||
        ready(POLLIN, std::min(until, steady_clock::now() + kLookForPeer))) {
      return true;
    }
  }
  return false;
}

void Connection::beginRequest() {
  request_end_ = steady_clock::now() + limits_.request;
  bytes_left_ = WebLimits::kMaxHeadBytes;
  sent_ = 0;
  waited_ = {};
}

std::string Connection::certificateUri() const {
  // Without a requested certificate the verification result is X509_V_OK too.
  if (!tls_ || SSL_get_verify_result(tls_.get()) != X509_V_OK || SSL_get_verify_mode(tls_.get()) == SSL_VERIFY_NONE) {
    return "";
  }
  const Certificate shown(SSL_get1_peer_certificate(tls_.get()), &X509_free);
  if (!shown) {
    return "";
  }
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(shown.get(), NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) {
      const std::string uri(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier)),
                            static_cast<size_t>(ASN1_STRING_length(name->d.uniformResourceIdentifier)));
      if (absl::StartsWith(uri, "tessera://")) {
        return uri;
      }
    }
  }
  return "";
}

bool Connection::is_readable() const {
  return next_ < buffer_.size() || (tls_ && SSL_pending(tls_.get()) > 0) || ready(POLLIN, request_end_);
}

bool Connection::is_writable() const {
  // A disconnected peer is readable with no data: an idle event stream notices it here.
  char byte = 0;
  if (!tls_ && ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
    return false;
  }
  return ready(POLLOUT, steady_clock::now() + limits_.answer);
}

ssize_t Connection::receive(char* data, size_t size) {
  while (true) {
    if (tls_) {
      const int outcome = SSL_read(tls_.get(), data, static_cast<int>(size));
      if (outcome > 0) {
        return outcome;
      }
      if (!tlsMayGoOn(outcome, request_end_)) {
        return -1;
      }
      continue;
    }
    const ssize_t count = ::recv(socket_, data, size, 0);
    if (count >= 0) {
      return count;
    }
    if (errno != EINTR && !((errno == EAGAIN || errno == EWOULDBLOCK) && ready(POLLIN, request_end_))) {
      return -1;
    }
  }
}

ssize_t Connection::read(char* data, size_t size) {
  if (steady_clock::now() >= request_end_) {
    return -1;
  }
  if (next_ == buffer_.size()) {
    buffer_.resize(kBufferBytes);
    next_ = 0;
    const ssize_t count = receive(buffer_.data(), buffer_.size());
    buffer_.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count <= 0) {
      return count;
    }
  }
  // Never more than the request's remaining limit, even if it has arrived.
  const size_t count = std::min({size, buffer_.size() - next_, bytes_left_});
  if (count == 0) {
    return -1;
  }
  std::memcpy(data, buffer_.data() + next_, count);
  next_ += count;
  bytes_left_ -= count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* data, size_t size) {
  // A peer that reads a byte now and then must not keep an answer forever: only bytes read extend the time.
  const Time start = steady_clock::now();
  const Time until = start + limits_.answer + milliseconds(sent_ / WebLimits::kMinBytesPerMs) - waited_;
  const auto taken = [&](ssize_t count) {
    sent_ += count;
    waited_ += steady_clock::now() - start;
    return count;
  };
  while (size > 0) {
    if (tls_) {
      const int outcome = SSL_write(tls_.get(), data, static_cast<int>(std::min<size_t>(size, 1 << 20)));
      if (outcome > 0) {
        return taken(outcome);
      }
      if (!tlsMayGoOn(outcome, until)) {
        return -1;
      }
      continue;
    }
    const ssize_t count = ::send(socket_, data, size, MSG_NOSIGNAL);
    if (count >= 0) {
      return taken(count);
    }
    if (errno != EINTR && !((errno == EAGAIN || errno == EWOULDBLOCK) && ready(POLLOUT, until))) {
      return -1;
    }
  }
  return 0;
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip = peer_;
  port = 0;
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace tessera::server::gateway
