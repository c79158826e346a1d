#include "workers/fork_request.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

// Both ends are of the same build, so the format is simple: fields that end in a zero byte; limits and counts as
// decimal numbers. Nothing in it comes from a model.
namespace tessera::worker {
namespace {

constexpr size_t kMaxBytes = 1 << 16;

class Writer {
 public:
  void put(std::string_view field) { bytes_.append(field).push_back('\0'); }
  void put(int64_t number) { put(absl::StrCat(number)); }
  void put(const std::vector<std::string>& fields) {
    put(static_cast<int64_t>(fields.size()));
    for (const std::string& field : fields) put(field);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes)
      : fields_(absl::StrSplit(absl::string_view(bytes.data(), bytes.size()), '\0')) {}
  bool get(std::string& field) {
    if (next_ + 1 >= fields_.size()) return false;  // the last zero byte is followed by an empty field
    field = fields_[next_++];
    return true;
  }
  bool get(int64_t& number) {
    std::string field;
    return get(field) && absl::SimpleAtoi(field, &number);
  }
  bool get(bool& flag) {
    int64_t number = 0;
    if (!get(number)) return false;
    flag = number != 0;
    return true;
  }
  bool get(std::vector<std::string>& fields) {
    int64_t count = 0;
    if (!get(count) || count < 0 || count > static_cast<int64_t>(fields_.size())) return false;
    fields.resize(static_cast<size_t>(count));
    for (std::string& field : fields) {
      if (!get(field)) return false;
    }
    return true;
  }

 private:
  std::vector<std::string> fields_;
  size_t next_ = 0;
};

std::string encode(const ForkRequest& request) {
  Writer writer;
  writer.put(request.arguments);
  writer.put(request.environment);
  writer.put(request.working_folder);
  writer.put(request.limits.address_space_bytes);
  writer.put(request.limits.cpu_seconds);
  writer.put(request.limits.file_bytes);
  writer.put(request.limits.open_files);
  writer.put(request.limits.processes);
  writer.put(int64_t{request.isolation.namespaces});
  writer.put(int64_t{request.isolation.user_namespace});
  writer.put(request.isolation.uid);
  writer.put(request.isolation.gid);
  writer.put(request.isolation.folder);
  return writer.bytes();
}

bool decode(std::string_view bytes, ForkRequest& request) {
  Reader reader(bytes);
  return reader.get(request.arguments) && reader.get(request.environment) && reader.get(request.working_folder) &&
         reader.get(request.limits.address_space_bytes) && reader.get(request.limits.cpu_seconds) &&
         reader.get(request.limits.file_bytes) && reader.get(request.limits.open_files) &&
         reader.get(request.limits.processes) && reader.get(request.isolation.namespaces) &&
         reader.get(request.isolation.user_namespace) && reader.get(request.isolation.uid) &&
         reader.get(request.isolation.gid) && reader.get(request.isolation.folder);
}

// Buffer for all descriptors, aligned as the kernel requires.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(ForkDescriptors))];
};

/// An invalid descriptor cannot be sent; only the last one may be invalid.
size_t bytesOf(const ForkDescriptors& descriptors) {
  return sizeof(descriptors) - (descriptors.back() < 0 ? sizeof(int) : 0);
}

}  // namespace

absl::Status sendForkRequest(int socket, const ForkRequest& request, const ForkDescriptors& descriptors) {
  std::string bytes = encode(request);
  iovec part = {bytes.data(), bytes.size()};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  const size_t given = bytesOf(descriptors);
  message.msg_controllen = CMSG_SPACE(given);
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(given);
  memcpy(CMSG_DATA(rights), descriptors.data(), given);
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no request can be sent: ", strerror(errno)));
}

std::optional<ReceivedFork> receiveForkRequest(int socket) {
  std::string bytes(kMaxBytes, '\0');
  iovec part = {bytes.data(), bytes.size()};
  Control control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t got;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return std::nullopt;
  const cmsghdr* rights = CMSG_FIRSTHDR(&message);
  ForkDescriptors descriptors;
  descriptors.fill(-1);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS || rights->cmsg_len > CMSG_LEN(sizeof(descriptors)) ||
      rights->cmsg_len < CMSG_LEN(sizeof(descriptors) - sizeof(int))) {
    return std::nullopt;
  }
  memcpy(descriptors.data(), CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
  ReceivedFork received;
  for (size_t i = 0; i < descriptors.size(); ++i) received.descriptors[i] = FileDescriptor(descriptors[i]);
  if (!decode(std::string_view(bytes).substr(0, static_cast<size_t>(got)), received.request)) return std::nullopt;
  return received;
}

}  // namespace tessera::worker
