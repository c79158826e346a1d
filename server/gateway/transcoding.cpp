#include "server/gateway/transcoding.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/messages/failure.h"
#include "proto/messages/former_names.h"
#include "proto/support/status_macros.h"
#include "server/gateway/web_limits.h"
#include "server/request_checks.h"

namespace tessera::server::gateway {
namespace {

namespace pb = google::protobuf;
using Json = nlohmann::json;

constexpr int kMaxDepth = 100;

const pb::MethodDescriptor* methodDescriptor(const Route& route) {
  return pb::DescriptorPool::generated_pool()->FindMethodByName(std::string(route.method));
}

std::unique_ptr<pb::Message> newMessage(const pb::Descriptor* descriptor) {
  return std::unique_ptr<pb::Message>(pb::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
}

const pb::FieldDescriptor* fieldNamed(const pb::Descriptor& message, const std::string& name) {
  const pb::FieldDescriptor* field = message.FindFieldByName(name);
  return field != nullptr ? field : message.FindFieldByCamelcaseName(name);
}

std::string namesOf(const pb::Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) {
    names.push_back(message.field(i)->json_name());
  }
  return names.empty() ? "no parameter" : absl::StrJoin(names, ", ");
}

/// Parses the text, and sets the field or adds to it; false if it does not parse.
bool setParsed(pb::Message& message, const pb::FieldDescriptor& field, const std::string& text) {
  const pb::Reflection& reflection = *message.GetReflection();
  const auto put = [&](auto set, auto add, auto value) {
    field.is_repeated() ? (reflection.*add)(&message, &field, std::move(value))
                        : (reflection.*set)(&message, &field, std::move(value));
    return true;
  };
  using R = pb::Reflection;
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return field.type() == pb::FieldDescriptor::TYPE_STRING && put(&R::SetString, &R::AddString, text);
    case pb::FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      return absl::SimpleAtoi(text, &value) && put(&R::SetInt32, &R::AddInt32, value);
    }
    case pb::FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      return absl::SimpleAtoi(text, &value) && put(&R::SetInt64, &R::AddInt64, value);
    }
    case pb::FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      return absl::SimpleAtoi(text, &value) && put(&R::SetUInt64, &R::AddUInt64, value);
    }
    case pb::FieldDescriptor::CPPTYPE_BOOL: {
      return (text == "true" || text == "false") && put(&R::SetBool, &R::AddBool, text == "true");
    }
    case pb::FieldDescriptor::CPPTYPE_ENUM: {
      const pb::EnumValueDescriptor* value = field.enum_type()->FindValueByName(text);
      return value != nullptr && put(&R::SetEnum, &R::AddEnum, value);
    }
    default:  // no request of a GET route has other types
      return false;
  }
}

struct Brackets {
  int depth = 0;     ///< current nesting
  size_t parts = 0;  ///< brackets and commas: messages can be far larger than their text
};

/// Counts both in a JSON text, outside of its strings.
Brackets bracketsOf(const std::string& json) {
  Brackets found;
  int depth = 0;
  bool text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (text) {
      i += c == '\\' ? 1 : 0;
      text = c != '"';
    } else if (c == '[' || c == '{') {
      found.depth = std::max(found.depth, ++depth);
      ++found.parts;
    } else if (c == ']' || c == '}') {
      --depth;
    } else {
      text = c == '"';
      found.parts += c == ',' ? 1 : 0;
    }
  }
  return found;
}

absl::Status setField(pb::Message& root, const std::string& path, const std::string& text) {
  pb::Message* message = &root;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i < names.size(); ++i) {
    const pb::FieldDescriptor* field = fieldNamed(*message->GetDescriptor(), names[i]);
    if (field == nullptr) {
      return fieldError(path, names[i], namesOf(*message->GetDescriptor()));
    }
    const bool nested = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
    if (nested && (field->is_repeated() || i + 1 == names.size())) {
      return fieldError(path, text, "fields of one value", "send a JSON body with POST");
    }
    if (nested) {
      message = message->GetReflection()->MutableMessage(message, field);
    } else if (i + 1 < names.size() || !setParsed(*message, *field, text)) {
      return fieldError(path, text, absl::StrCat("a value of type ", field->cpp_type_name()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<pb::Message>> requestOf(const Match& match, const Parameters& query,
                                                       const std::string& body) {
  std::unique_ptr<pb::Message> request = newMessage(methodDescriptor(*match.route)->input_type());
  const Brackets brackets = bracketsOf(body);
  if (brackets.depth > kMaxDepth) {
    return fieldError("body", "brackets within brackets", absl::StrCat("a depth of at most ", kMaxDepth));
  }
  if (brackets.parts > WebLimits::kMaxBodyParts) {
    return fieldError("body", absl::StrCat(brackets.parts, " brackets and commas"),
                      absl::StrCat("at most ", WebLimits::kMaxBodyParts), "use gRPC");
  }
  if (!body.empty()) {
    if (const auto status = pb::util::JsonStringToMessage(withPresentNamesInJson(body), request.get()); !status.ok()) {
      return fieldError("body", std::string(status.message()),
                        absl::StrCat("a ", request->GetDescriptor()->full_name(), " as JSON"));
    }
  }
  for (const auto& [name, value] : query) {
    TESSERA_RETURN_IF_ERROR(setField(*request, name, value));
  }
  for (const auto& [name, value] : match.variables) {
    TESSERA_RETURN_IF_ERROR(setField(*request, name, value));
  }
  return request;
}

std::unique_ptr<pb::Message> responseOf(const Route& route) {
  return newMessage(methodDescriptor(route)->output_type());
}

std::string toJson(const pb::Message& message) {
  std::string json;
  if (const auto status = pb::util::MessageToJsonString(message, &json); !status.ok()) {
    return errorJson(absl::InternalError(std::string(status.message())));
  }
  return json;
}

int httpStatus(absl::StatusCode code) {
  static const std::map<absl::StatusCode, int> kStatus = {
      {absl::StatusCode::kOk, 200},
      {absl::StatusCode::kCancelled, 499},
      {absl::StatusCode::kInvalidArgument, 400},
      {absl::StatusCode::kDeadlineExceeded, 504},
      {absl::StatusCode::kNotFound, 404},
      {absl::StatusCode::kAlreadyExists, 409},
      {absl::StatusCode::kPermissionDenied, 403},
      {absl::StatusCode::kResourceExhausted, 429},
      {absl::StatusCode::kFailedPrecondition, 400},
      {absl::StatusCode::kAborted, 409},
      {absl::StatusCode::kOutOfRange, 400},
      {absl::StatusCode::kUnimplemented, 501},
      {absl::StatusCode::kUnavailable, 503},
      {absl::StatusCode::kUnauthenticated, 401},
  };
  const auto found = kStatus.find(code);
  return found == kStatus.end() ? 500 : found->second;
}

std::string errorJson(const absl::Status& status) {
  Json error = {{"code", httpStatus(status.code())},
                {"status", absl::StatusCodeToString(status.code())},
                {"message", std::string(status.message())}};
  bool has_failure = false;
  status.ForEachPayload([&](absl::string_view, const absl::Cord&) { has_failure = true; });
  std::string detail;
  if (has_failure && pb::util::MessageToJsonString(failureOf(status), &detail).ok()) {
    Json failure = Json::parse(detail, nullptr, /*allow_exceptions=*/false);
    if (failure.is_object()) {
      failure["@type"] = "type.googleapis.com/tessera.v1.Failure";
      error["details"] = Json::array({std::move(failure)});
    }
  }
  return Json{{"error", std::move(error)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera::server::gateway
