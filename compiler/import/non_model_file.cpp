#include "compiler/import/non_model_file.h"

#include <cstddef>

namespace tessera::compiler {
namespace {

using std::string_view_literals::operator""sv;

struct Signature {
  size_t offset;  ///< of the bytes in the file
  std::string_view bytes;
  NonModelFile file;
};

constexpr std::string_view kUnpack = "unpack it, and send the model that is in it";
constexpr std::string_view kExportTorch =
    "export it in the program that made it: torch.onnx.export(model, inputs, \"model.onnx\")";

constexpr Signature kSignatures[] = {
    {0, "\x1f\x8b"sv, {"a gzip archive", kUnpack}},
    {0, "\x28\xb5\x2f\xfd"sv, {"a Zstandard archive", kUnpack}},
    {0, "\xfd\x37zXZ\0"sv, {"an xz archive", kUnpack}},
    {0, "BZh"sv, {"a bzip2 archive", kUnpack}},
    {257, "ustar"sv, {"a tar archive", kUnpack}},
    {0, "PK\x03\x04"sv, {"a zip archive, as PyTorch writes its checkpoints", kExportTorch}},
    {0, "\x80\x02"sv, {"a Python pickle, as PyTorch wrote its checkpoints", kExportTorch}},
    {0, "\x80\x04\x95"sv, {"a Python pickle", kExportTorch}},
    {0, "\x80\x05\x95"sv, {"a Python pickle", kExportTorch}},
    {0, "\x89HDF\r\n\x1a\n"sv, {"an HDF5 file, as Keras writes", "convert it with tf2onnx"}},
    {4, "TFL3"sv, {"a TensorFlow Lite model", "convert it with tf2onnx --tflite"}},
    {4, "ORTM"sv, {"a model in ONNX Runtime's own format (.ort)", "send the .onnx file that it was converted from"}},
    {0, "GGUF"sv, {"a GGUF file of weights", "export the model as ONNX, with the program that has its graph"}},
    {8, "{\""sv, {"a safetensors file of weights", "export the model as ONNX, with the program that has its graph"}},
    {0,
     "version https://git-lfs"sv,
     {"a pointer of Git LFS instead of the model", "fetch the file itself: git lfs pull"}},
    {0, "<!DOCTYPE"sv, {"a web page instead of the model", "open it: it contains the server's answer to the download"}},
    {0, "<html"sv, {"a web page instead of the model", "open it: it contains the server's answer to the download"}},
};

}  // namespace

const NonModelFile* recognizeNonModel(std::string_view bytes) {
  for (const Signature& signature : kSignatures)
    if (bytes.size() >= signature.offset && bytes.substr(signature.offset).starts_with(signature.bytes))
      return &signature.file;
  return nullptr;
}

}  // namespace tessera::compiler
