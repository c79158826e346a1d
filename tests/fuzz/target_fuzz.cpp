// Bytes of strangers as a target description: parsing never crashes, and what is accepted has a canonical form.
#include <google/protobuf/text_format.h>

#include <string>

#include "compiler/target/target.h"

using namespace tessera;            // NOLINT: a fuzzer of one function
using namespace tessera::compiler;  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // Faulty descriptions reach the validator by another way as well: over the wire, without the text parser.
  v1::Target unchecked;
  if (unchecked.ParseFromString(text)) (void)problemStatus(unchecked.name(), validateTarget(unchecked));
  const auto target = parseTarget(text);
  if (!target.ok()) return 0;
  std::string printed;
  if (!google::protobuf::TextFormat::PrintToString(canonicalTarget(*target), &printed)) __builtin_trap();
  const auto again = parseTarget(printed);
  if (!again.ok() || targetHash(*again) != targetHash(*target)) __builtin_trap();
  return 0;
}
