#pragma once

#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace tessera {

/// SHA-256 of a stream. OpenSSL picks the processor's SHA instructions where there are any.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  /// 64 lower-case hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  evp_md_ctx_st* context_;
};

/// 64 lower-case hexadecimal digits.
std::string sha256Hex(std::string_view bytes);
/// Whether `text` is 64 lower-case hexadecimal digits. Everything that becomes a file name is checked so.
bool isSha256(std::string_view text);

}  // namespace tessera
