#include "storage/entity.h"

#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/server_service.pb.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::storage {
namespace {

using enum FieldType;

std::vector<Field::EnumValue> valuesOf(const google::protobuf::EnumDescriptor* descriptor) {
  std::vector<Field::EnumValue> values;
  for (int i = 0; i < descriptor->value_count(); ++i) {
    values.push_back({descriptor->value(i)->name(), descriptor->value(i)->number()});
  }
  return values;
}

}  // namespace

const Field* Entity::find(std::string_view name) const {
  for (const Field& field : fields) {
    const bool of_labels = field.type == kLabels && name.starts_with(field.name + ".");
    if (field.type == kLabels ? of_labels : field.name == name) return &field;
  }
  return nullptr;
}

std::string Entity::fieldNames() const {
  return absl::StrJoin(fields, ", ", [](std::string* out, const Field& field) { out->append(field.shown()); });
}

const Entity& jobEntity() {
  static const Entity entity = {"jobs",
                                "id",
                                "create_time desc",
                                {
                                    {"id", kText},
                                    {.name = "state",
                                     .type = kEnum,
                                     .values = valuesOf(v1::Job::State_descriptor()),
                                     .usual = int64_t{v1::Job::SUCCEEDED}},
                                    {"kind",
                                     kEnum,
                                     {{"COMPILE", kCompileKind},
                                      {"EXECUTE", kExecuteKind},
                                      {"PROFILE", kProfileKind},
                                      {"ANALYZE", kAnalyzeKind},
                                      {"TUNE", kTuneKind}}},
                                    {"target", kText},
                                    {"name", kText},
                                    {.name = "request_id", .type = kText, .usual = std::string()},
                                    {"action_key", kText},
                                    {"cached", kBoolean},
                                    {"priority", kInteger},
                                    {"create_time", kTime},
                                    {"end_time", kTime},
                                    {"project", kText},
                                    {"labels", kLabels},
                                }};
  return entity;
}

const Entity& artifactEntity() {
  static const Entity entity = {"artifacts",
                                "id",
                                "create_time desc",
                                {{"id", kText, {}, "artifact"},
                                 {"name", kText},
                                 {"target", kText},
                                 {"model", kText},
                                 {"job", kText},
                                 {"create_time", kTime},
                                 {"project", kText}},
                                true};
  return entity;
}

const Entity& recordEntity() {
  static const Entity entity = {"records",
                                "id",
                                "create_time",
                                {{"id", kText},
                                 {"workload", kText},
                                 {"summary", kText},
                                 {"operators", kText},
                                 {"target", kText},
                                 {"chip", kText},
                                 {"host", kText},
                                 {"job", kText},
                                 {"artifact", kText},
                                 {"mode", kText},
                                 {"method", kText},
                                 {"outcome", kEnum, valuesOf(v1::TuningRecord::Outcome_descriptor())},
                                 {"validation", kText},
                                 {"threads", kInteger},
                                 {"trial", kInteger},
                                 {"median_ms", kReal},
                                 {"speed", kReal},
                                 {"create_time", kTime},
                                 {"project", kText}}};
  return entity;
}

const Entity& targetEntity() {
  static const Entity entity = {"targets",
                                "name",
                                "name",
                                {{"name", kText, {}, "target"},
                                 {"summary", kText},
                                 {"family", kEnum, valuesOf(v1::Target::Family_descriptor())},
                                 {"project", kText}},
                                true,
                                true};
  return entity;
}

const Entity& workerEntity() {
  static const Entity entity = {"workers",
                                "id",
                                "id",
                                {{"id", kText},
                                 {"state", kEnum, valuesOf(v1::Worker::State_descriptor())},
                                 {"host", kText},
                                 {"compiler_version", kText},
                                 {"last_seen_time", kTime}}};
  return entity;
}

const Entity& taskEntity() {
  static const Entity entity = {"tasks",
                                "id",
                                "create_time desc",
                                {{"id", kText},
                                 {"state", kEnum, valuesOf(v1::Task::State_descriptor())},
                                 {"kind", kEnum, valuesOf(v1::TaskKind_descriptor())},
                                 {"priority", kInteger},
                                 {"worker", kText},
                                 {"create_time", kTime},
                                 {"project", kText}}};
  return entity;
}

const Entity& operatorEntity() {
  static const Entity entity = {"operators",
                                "id",
                                "domain, name, since_version",
                                {{"id", kText},
                                 {"name", kText},
                                 {"domain", kText},
                                 {"family", kText},
                                 {"since_version", kInteger},
                                 {"until_version", kInteger}}};
  return entity;
}

const Entity& serverEntity() {
  static const Entity entity = {"servers",
                                "id",
                                "id",
                                {{"id", kText},
                                 {"state", kEnum, valuesOf(v1::Server::State_descriptor())},
                                 {"address", kText},
                                 {"host", kText},
                                 {"release", kText, {}, "release_name"},
                                 {"start_time", kTime},
                                 {"heartbeat_time", kTime}}};
  return entity;
}

}  // namespace tessera::storage
