// The part of zlib that libtessera_rt uses, so that no zlib for AArch64 has to be installed: CRC-32 of RFC 1952, bit by
// bit. For small artifacts.
#include <zlib.h>

uLong crc32_z(uLong crc, const Bytef* data, z_size_t size) {
  uLong rest = crc ^ 0xffffffff;
  for (z_size_t i = 0; i < size; ++i) {
    rest ^= data[i];
    for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? rest >> 1 ^ 0xedb88320 : rest >> 1;
  }
  return rest ^ 0xffffffff;
}
