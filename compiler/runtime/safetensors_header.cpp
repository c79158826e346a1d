#include "compiler/runtime/safetensors_header.h"

namespace tessera::compiler {
namespace {

constexpr size_t kMaxRank = 64;

/// A reader of the JSON that headers consist of: objects with text keys, lists of whole numbers, text.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool header(std::vector<SafetensorsEntry>& entries) {
    const bool good = object([&](const std::string& name) {
      if (name == "__metadata__") return metadata();
      SafetensorsEntry& entry = entries.emplace_back();
      entry.name = name;
      return tensor(entry);
    });
    if (!good) return false;
    skipSpace();
    return at_ == text_.size() || fail("text after the header's end");
  }
  std::string error() const { return error_ + " at byte " + std::to_string(at_) + " of its header"; }

 private:
  bool fail(const char* what) {
    if (error_.empty()) error_ = what;
    return false;
  }
  void skipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool next(char wanted) {
    skipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  template <typename Member>
  bool object(Member member) {
    if (!next('{')) return fail("no object");
    if (next('}')) return true;
    do {
      std::string key;
      if (!string(key)) return false;
      if (!next(':')) return fail("no ':' after a key");
      if (!member(key)) return false;
    } while (next(','));
    return next('}') || fail("an object without an end");
  }

  bool metadata() {
    std::string ignored;
    return object([&](const std::string&) { return string(ignored); });
  }

  bool tensor(SafetensorsEntry& entry) {
    std::vector<int64_t> offsets;
    bool has_shape = false;
    const bool good = object([&](const std::string& key) {
      if (key == "dtype") return string(entry.dtype);
      if (key == "data_offsets") return numbers(offsets);
      if (key != "shape") return fail("an unknown member of a tensor");
      has_shape = true;
      return numbers(entry.shape);
    });
    if (!good) return false;
    if (entry.dtype.empty() || !has_shape || offsets.size() != 2)
      return fail("a tensor without dtype, shape and two data_offsets");
    entry.begin = static_cast<uint64_t>(offsets[0]);
    entry.end = static_cast<uint64_t>(offsets[1]);
    return true;
  }

  bool numbers(std::vector<int64_t>& list) {
    list.clear();
    if (!next('[')) return fail("no list");
    if (next(']')) return true;
    do {
      skipSpace();
      int64_t number = 0;
      const size_t begin = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, text_[at_] - '0', &number))
          return fail("a number that is too large");
      }
      if (at_ == begin) return fail("no whole number");
      if (list.size() == kMaxRank) return fail("a list that is too long");
      list.push_back(number);
    } while (next(','));
    return next(']') || fail("a list without an end");
  }

  bool string(std::string& value) {
    value.clear();
    if (!next('"')) return fail("no text");
    while (at_ < text_.size() && text_[at_] != '"') {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) return fail("a control character in a text");
      if (text_[at_] != '\\') {
        value += text_[at_++];
        continue;
      }
      if (++at_ == text_.size() || !escape(value)) return fail("an unknown escape");
    }
    if (at_ == text_.size()) return fail("a text without an end");
    ++at_;
    return true;
  }

  bool escape(std::string& value) {
    const char kind = text_[at_++];
    constexpr std::string_view kPlain = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    if (const size_t known = kPlain.find(kind); known != std::string_view::npos) {
      value += kMeant[known];
      return true;
    }
    if (kind != 'u' || text_.size() - at_ < 4) return false;
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return false;
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    // Names of tensors need no characters outside of the basic plane.
    if (code >= 0xD800 && code < 0xE000) return false;
    if (code < 0x80) {
      value += static_cast<char>(code);
    } else if (code < 0x800) {
      value += static_cast<char>(0xC0 | code >> 6);
      value += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      value += static_cast<char>(0xE0 | code >> 12);
      value += static_cast<char>(0x80 | (code >> 6 & 0x3F));
      value += static_cast<char>(0x80 | (code & 0x3F));
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace

RuntimeStatus parseSafetensorsHeader(std::string_view text, std::vector<SafetensorsEntry>* entries) {
  entries->clear();
  Parser parser(text);
  if (parser.header(*entries)) return {};
  return {TESSERA_CORRUPT, parser.error()};
}

}  // namespace tessera::compiler
