#include "compiler/import/model_file.h"

#include <fcntl.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"
#include "compiler/import/protobuf_scan.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {

absl::StatusOr<MappedFile> mapFile(const std::string& path, const std::string& what) {
  // O_NONBLOCK: opening a pipe would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    return fault(v1::Failure::INVALID_MODEL,
                 absl::StrCat("cannot open ", what, " at '", path, "': ", std::strerror(errno)),
                 {.found = std::strerror(errno), .accepted = "a readable file"});
  }
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return fault(v1::Failure::INVALID_MODEL, absl::StrCat(what, " at '", path, "' is not a regular file"),
                 {.accepted = "a regular file"});
  }
  const auto size = static_cast<size_t>(info.st_size);
  // An empty file cannot be mapped.
  if (size == 0) {
    ::close(fd);
    return MappedFile{};
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    return fault(v1::Failure::OUT_OF_MEMORY,
                 absl::StrCat("cannot map ", what, " (", size, " bytes): ", std::strerror(error)));
  }
  std::shared_ptr<const void> owner(data, [size](const void* start) { ::munmap(const_cast<void*>(start), size); });
  return MappedFile{{static_cast<const char*>(data), size}, std::move(owner)};
}

namespace {

/// Converters write -1 or the name "?" for an unknown size; removing both leaves one representation. Any other name
/// stands for one size wherever it is used; two dimensions named "?" may differ.
void forgetUnknownSizes(onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) return;
  for (auto& dim : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    if (dim.has_dim_value() && dim.dim_value() < 0) dim.clear_dim_value();
    if (dim.dim_param() == "?") dim.clear_dim_param();
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const onnx::ModelProto>> parseModelFile(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(MappedFile file, mapFile(path, "the model"));
  if (file.bytes.empty()) {
    return fault(v1::Failure::INVALID_MODEL, "the model is an empty file",
                 {.found = "0 bytes", .accepted = "a serialized onnx.ModelProto"});
  }
  if (file.bytes.size() > static_cast<size_t>(limits::kModelBytes)) {
    return fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat("the model file has ", file.bytes.size(), " bytes"),
                 {.found = absl::StrCat(file.bytes.size(), " bytes"),
                  .accepted = absl::StrCat("up to ", limits::kModelBytes, " bytes, protobuf's limit"),
                  .remedy = "store the weights as external data"});
  }
  // Scans the bytes before protobuf parses them: the limits hold before anything is allocated.
  TESSERA_RETURN_IF_ERROR(scanModel(file.bytes));

  // An arena frees a model of millions of messages at once.
  struct Parsed {
    google::protobuf::Arena arena;
    onnx::ModelProto* model = google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena);
  };
  auto parsed = std::make_shared<Parsed>();
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(file.bytes.data()),
                                                static_cast<int>(file.bytes.size()));
  if (!parsed->model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return fault(v1::Failure::INVALID_MODEL, "the model is not a valid ONNX protobuf",
                 {.accepted = "a serialized onnx.ModelProto", .remedy = "check the file with onnx.checker"});
  }
  if (parsed->model->has_graph()) {
    onnx::GraphProto& graph = *parsed->model->mutable_graph();
    for (auto* infos : {graph.mutable_input(), graph.mutable_value_info(), graph.mutable_output()}) {
      for (auto& info : *infos) forgetUnknownSizes(info);
    }
  }
  // The pointer owns the arena together with the model.
  const onnx::ModelProto* model = parsed->model;
  return std::shared_ptr<const onnx::ModelProto>(std::move(parsed), model);
}

absl::StatusOr<MappedFile> ExternalData::find(const std::string& location, const std::string& tensor) {
  if (auto known = mapped_.find(location); known != mapped_.end()) return known->second;
  auto file = files_.find(location);
  if (file == files_.end()) {
    return fault(v1::Failure::MISSING_BLOB,
                 absl::StrCat("tensor '", printable(tensor), "' is stored outside the model, at '", printable(location),
                              "', which was not uploaded"),
                 {.attribute = tensor,
                  .found = location,
                  .accepted = "a location named in the request's external_data",
                  .remedy = "put that file next to the model, or name it (--external-data LOCATION=FILE)"});
  }
  TESSERA_ASSIGN_OR_RETURN(MappedFile mapped, mapFile(file->second, absl::StrCat("external data '", location, "'")));
  return mapped_.emplace(location, std::move(mapped)).first->second;
}

}  // namespace tessera::compiler
