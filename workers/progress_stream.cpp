#include "workers/progress_stream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

namespace tessera::worker {
namespace {

namespace io = google::protobuf::io;

constexpr uint32_t kMaxMessageBytes = 64 << 10;
constexpr size_t kMaxLengthBytes = 5;  // length of a 32-bit varint

}  // namespace

std::optional<v1::Progress> ProgressDecoder::feed(std::string_view bytes) {
  std::optional<v1::Progress> newest;
  if (broken_) return newest;
  buffer_.append(bytes);
  size_t used = 0;
  // Messages are length-prefixed, and a pipe splits them anywhere: an incomplete one stays in the buffer. The writer is
  // untrusted, so a length that no message has ends the stream instead of growing the buffer.
  while (used < buffer_.size()) {
    const auto* rest = reinterpret_cast<const uint8_t*>(buffer_.data()) + used;
    const size_t left = buffer_.size() - used;
    io::CodedInputStream stream(rest, static_cast<int>(left));
    uint32_t length = 0;
    if (!stream.ReadVarint32(&length)) {
      broken_ = left >= kMaxLengthBytes;
      break;
    }
    const auto head = static_cast<size_t>(stream.CurrentPosition());
    if (length > kMaxMessageBytes || head > kMaxLengthBytes) {
      broken_ = true;
      break;
    }
    if (left < head + length) break;
    v1::TaskProgress message;
    if (!message.ParseFromArray(rest + head, static_cast<int>(length))) {
      broken_ = true;
      break;
    }
    newest = message.progress();
    used += head + length;
  }
  buffer_.erase(0, used);
  return newest;
}

std::string encodeProgress(const v1::Progress& progress) {
  v1::TaskProgress message;
  *message.mutable_progress() = progress;
  std::string bytes;
  io::StringOutputStream stream(&bytes);
  google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &stream);
  return bytes;
}

}  // namespace tessera::worker
