#include "proto/support/printable.h"

#include "absl/strings/str_format.h"

namespace tessera {

std::string printable(std::string_view text, bool lines) {
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool layout = lines && (byte == '\n' || byte == '\t');
    if ((byte < 0x20 && !layout) || byte == 0x7f) {
      absl::StrAppendFormat(&shown, "\\x%02x", byte);
    } else if (byte == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80) {
      absl::StrAppendFormat(&shown, "\\x%02x", static_cast<unsigned char>(text[++i]));  // U+0080 to U+009F
    } else {
      shown += text[i];
    }
  }
  return shown;
}

std::string_view firstBytes(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace tessera
