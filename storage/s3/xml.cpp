#include "storage/s3/xml.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera::storage {
namespace {

constexpr size_t kMaxDepth = 16;

absl::Status malformed(const char* why) {
  return absl::DataLossError(absl::StrCat("the object store's answer is malformed: ", why));
}

/// The character of an entity or character reference without "&" and ";". Names of objects are ASCII; other characters
/// become '?'.
char characterOf(std::string_view entity) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"amp", '&'}};
  for (const auto& [name, character] : kNamed) {
    if (entity == name) return character;
  }
  uint32_t code = 0;
  const std::string number(entity.substr(std::min<size_t>(1, entity.size())));
  const bool hexadecimal = !number.empty() && number[0] == 'x';
  const bool good = entity.starts_with("#") &&
                    (hexadecimal ? absl::SimpleHexAtoi(number.substr(1), &code) : absl::SimpleAtoi(number, &code));
  return good && code < 128 ? static_cast<char>(code) : '?';
}

std::string decoded(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const size_t end = text[0] == '&' ? text.find(';') : std::string_view::npos;
    if (end == std::string_view::npos) {
      plain += text[0];
      text.remove_prefix(1);
    } else {
      plain += characterOf(text.substr(1, end - 1));
      text.remove_prefix(end + 1);
    }
  }
  return plain;
}

}  // namespace

absl::Status forEachXmlElement(std::string_view document,
                               const std::function<void(const std::string& path, const std::string& text)>& visit) {
  std::vector<std::string> open;
  std::string text;
  bool leaf = false, any = false;
  for (size_t at = 0; at < document.size();) {
    if (document[at] != '<') {
      const size_t next = document.find('<', at);
      const std::string_view piece = document.substr(at, next == std::string_view::npos ? next : next - at);
      if (!open.empty()) absl::StrAppend(&text, std::string(piece));
      at += piece.size();
      continue;
    }
    const std::string_view rest = document.substr(at);
    const bool comment = rest.starts_with("<!--");
    if (!comment && rest.starts_with("<!")) return malformed("it has a DTD or a CDATA section");
    const size_t end = comment ? rest.find("-->") : rest.find('>');
    if (end == std::string_view::npos) return malformed("it ends within a tag");
    at += end + (comment ? 3 : 1);
    if (comment || rest.starts_with("<?")) continue;
    std::string_view tag = rest.substr(1, end - 1);
    const bool closes = tag.starts_with("/"), empty = tag.ends_with("/");
    if (closes) tag.remove_prefix(1);
    if (empty && !closes) tag.remove_suffix(1);
    const std::string name(tag.substr(0, tag.find_first_of(" \t\r\n")));
    if (name.empty() || (open.empty() && (closes || any))) return malformed("it has no single root element");
    any = true;
    if (!closes) {
      if (open.size() == kMaxDepth) return malformed("it is too deep");
      open.push_back(name);
      text.clear();
      leaf = true;
    }
    if (closes && open.back() != name) return malformed("its tags do not match");
    if (closes || empty) {
      visit(absl::StrJoin(open, "/"), leaf ? decoded(text) : "");
      open.pop_back();
      leaf = false;
      text.clear();
    }
  }
  return any && open.empty() ? absl::OkStatus() : malformed("it is not complete");
}

std::string xmlText(std::string_view document, const std::string& path) {
  std::string found;
  bool first = true;
  const absl::Status status = forEachXmlElement(document, [&](const std::string& at, const std::string& text) {
    if (at == path && first) {
      found = text;
      first = false;
    }
  });
  return status.ok() ? found : "";
}

}  // namespace tessera::storage
