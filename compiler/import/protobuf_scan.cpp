#include "compiler/import/protobuf_scan.h"

#include <google/protobuf/descriptor.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/import/limits.h"
#include "compiler/import/model_error.h"
#include "compiler/import/non_model_file.h"
#include "onnx/onnx.pb.h"
#include "proto/support/status_macros.h"

namespace tessera::compiler {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

/// Wire types of protobuf's encoding; groups (3, 4) do not occur in ONNX.
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Scanner {
 public:
  explicit Scanner(std::string_view bytes) : bytes_(bytes) {}

  absl::Status run() {
    // A stack of its own instead of recursion: the file decides how deep messages nest.
    stack_.push_back({onnx::ModelProto::descriptor(), bytes_.size(), nullptr});
    while (!stack_.empty()) {
      // The end of a message was checked against its parent's when it was entered, so positions meet it exactly.
      if (pos_ == stack_.back().end) {
        graphs_ -= stack_.back().type == onnx::GraphProto::descriptor();
        stack_.pop_back();
        continue;
      }
      TESSERA_RETURN_IF_ERROR(field());
    }
    return absl::OkStatus();
  }

 private:
  struct Frame {
    const Descriptor* type;
    size_t end;
    const FieldDescriptor* via;
  };

  absl::Status field() {
    const Frame frame = stack_.back();
    const size_t start = pos_;
    uint64_t tag = 0;
    if (!varint(frame.end, &tag)) return malformed(start, "a field tag is cut off");
    // Unknown fields are skipped, as protobuf does.
    const FieldDescriptor* field =
        tag >> 3 <= INT32_MAX ? frame.type->FindFieldByNumber(static_cast<int>(tag >> 3)) : nullptr;
    if (tag >> 3 == 0) return malformed(start, "field number 0");
    if (++fields_ > limits::kFields) return tooMany("protobuf fields", limits::kFields);
    uint64_t size = 0;
    switch (tag & 7) {
      case kVarint:
        if (!varint(frame.end, &size)) return malformed(start, "a number is cut off");
        return absl::OkStatus();
      case kFixed64:
        size = 8;
        break;
      case kFixed32:
        size = 4;
        break;
      case kBytes:
        if (!varint(frame.end, &size)) return malformed(start, "a length is cut off");
        break;
      default:
        return malformed(start, absl::StrCat("wire type ", tag & 7));
    }
    // Compares with what is left, because the sum of position and size may overflow.
    if (size > frame.end - pos_) {
      return malformed(start, absl::StrCat("field ", field ? std::string(field->name()) : "(unknown)", " claims ", size,
                                           " bytes where ", frame.end - pos_, " are left"));
    }
    if ((tag & 7) != kBytes || !field) {
      pos_ += size;
      return absl::OkStatus();
    }
    return lengthDelimited(*field, size);
  }

  absl::Status lengthDelimited(const FieldDescriptor& field, uint64_t size) {
    switch (field.type()) {
      case FieldDescriptor::TYPE_MESSAGE:
        return enter(field, size);
      case FieldDescriptor::TYPE_STRING:
      case FieldDescriptor::TYPE_BYTES:
        // Each string becomes an allocation in the parser, so strings count as messages.
        if (++messages_ > limits::kMessages) return tooMany("protobuf messages and strings", limits::kMessages);
        break;
      case FieldDescriptor::TYPE_FLOAT:
      // Floats take as many bytes parsed as encoded.
      case FieldDescriptor::TYPE_DOUBLE:
        break;
      // The remaining types are packed varints, which grow up to eightfold when parsed.
      default:
        packed_ += static_cast<int64_t>(size);
        if (packed_ > limits::kPackedVarintBytes) {
          return fault(v1::Failure::LIMIT_EXCEEDED,
                       absl::StrCat("the model holds more than ", limits::kPackedVarintBytes,
                                    " bytes of tensor elements as variable-length integers"),
                       {.attribute = std::string(field.full_name()),
                        .accepted = absl::StrCat("up to ", limits::kPackedVarintBytes, " bytes"),
                        .remedy = "store tensors in raw_data (onnx.numpy_helper.from_array does)"});
        }
    }
    pos_ += size;
    return absl::OkStatus();
  }

  absl::Status enter(const FieldDescriptor& field, uint64_t size) {
    const Descriptor* type = field.message_type();
    if (++messages_ > limits::kMessages) return tooMany("protobuf messages and strings", limits::kMessages);
    if (type == onnx::NodeProto::descriptor() && ++nodes_ > limits::kNodes) return tooMany("nodes", limits::kNodes);
    if (type == onnx::GraphProto::descriptor() && ++graphs_ > limits::kGraphNesting + 1) {
      return tooDeep("subgraphs nested in subgraphs", limits::kGraphNesting);
    }
    if (stack_.size() >= static_cast<size_t>(limits::kMessageNesting)) {
      return tooDeep("protobuf messages nested in each other", limits::kMessageNesting);
    }
    stack_.push_back({type, pos_ + size, &field});
    return absl::OkStatus();
  }

  bool varint(size_t end, uint64_t* value) {
    *value = 0;
    // Ten bytes hold 64 bits; a longer number is malformed.
    for (int shift = 0; shift < 70 && pos_ < end; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[pos_++]);
      if (shift < 64) *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  /// Returns "graph.node.attribute": the fields that lead to the scan's position.
  std::string place() const {
    return absl::StrCat("model", absl::StrJoin(stack_, "", [](std::string* out, const Frame& frame) {
                          if (frame.via) absl::StrAppend(out, ".", std::string(frame.via->name()));
                        }));
  }

  absl::Status malformed(size_t offset, const std::string& why) const {
    return fault(v1::Failure::INVALID_MODEL,
                 absl::StrCat("the model is not a complete ONNX protobuf: at byte ", offset, " of ", bytes_.size(),
                              ", in ", place(), ", ", why),
                 {.attribute = place(),
                  .found = why,
                  .accepted = "a serialized onnx.ModelProto",
                  .remedy = "check the upload with onnx.checker; a truncated download ends like this"});
  }

  absl::Status tooMany(const std::string& what, int64_t limit) const {
    return fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat("the model has more than ", limit, " ", what),
                 {.found = absl::StrCat("more than ", limit, " by byte ", pos_),
                  .accepted = absl::StrCat("up to ", limit, " ", what),
                  .remedy = "split the model, or simplify it before it is exported"});
  }

  absl::Status tooDeep(const std::string& what, int limit) const {
    return fault(v1::Failure::LIMIT_EXCEEDED, absl::StrCat("the model has more than ", limit, " ", what),
                 {.attribute = place(),
                  .found = absl::StrCat("nesting deeper than ", limit, " at byte ", pos_),
                  .accepted = absl::StrCat("up to ", limit, " ", what),
                  .remedy = "flatten the nested subgraphs"});
  }

  std::string_view bytes_;
  size_t pos_ = 0;
  std::vector<Frame> stack_;
  int64_t fields_ = 0, messages_ = 0, nodes_ = 0, packed_ = 0;
  int graphs_ = 0;
};

}  // namespace

absl::Status scanModel(std::string_view bytes) {
  absl::Status status = Scanner(bytes).run();
  const NonModelFile* foreign = status.ok() ? nullptr : recognizeNonModel(bytes);
  if (foreign == nullptr) return status;
  const std::string kind(foreign->kind);
  return fault(v1::Failure::INVALID_MODEL, absl::StrCat("the file is no ONNX model but ", kind),
               {.found = kind, .accepted = "a serialized onnx.ModelProto", .remedy = std::string(foreign->remedy)});
}

}  // namespace tessera::compiler
