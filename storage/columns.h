#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "storage/store.h"
#include "storage/value.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// The fields by which entities are listed, made of the entities. `columnsOf` answers them in the order of the entity's
/// fields (storage/entity.cpp).
namespace tessera::storage {

/// What a job compiles, or asks about; empty for runs of artifacts.
const v1::CompileSpec& modelOf(const v1::Job& job);
/// The name of the target it is for.
std::string targetNameOf(const v1::Job& job);
/// A database keeps NaN as NULL, which no order can place.
double comparable(double value);

std::vector<Value> columnsOf(const v1::Job& job);
std::vector<Value> columnsOf(const v1::Artifact& artifact);
std::vector<Value> columnsOf(const v1::TuningRecord& record);
std::vector<Value> columnsOf(const StoredTarget& stored);
std::vector<Value> columnsOf(const v1::Worker& worker);
std::vector<Value> columnsOf(const v1::Task& task);

/// A job's labels as one text, in the order of their keys: each "key=value" between two separators.
std::string labelsText(const v1::Job& job);
/// What there is of it where a label has the value; where it has any.
std::string labelPart(std::string_view key, std::string_view value);
std::string labelPart(std::string_view key);

}  // namespace tessera::storage
