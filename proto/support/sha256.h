#pragma once

#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace tessera {

/// Incremental SHA-256. OpenSSL uses the CPU's SHA instructions if available.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  /// Returns 64 lower-case hexadecimal digits. Call at most once, after the last update().
  std::string finish();

 private:
  evp_md_ctx_st* context_;
};

/// Returns 64 lower-case hexadecimal digits.
std::string sha256Hex(std::string_view bytes);
/// Whether `text` is 64 lower-case hexadecimal digits. Checked for each digest that becomes part of a file name.
bool isSha256(std::string_view text);

}  // namespace tessera
