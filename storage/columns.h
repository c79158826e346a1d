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

/// Values of the listed fields of an entity. `columnsOf` returns them in the order of the entity's fields
/// (storage/entity.cpp).
namespace tessera::storage {

/// The first 2,000 bytes of a text that may be long, by which records are filtered and ordered. PostgreSQL's indices
/// hold rows of up to 2,704 bytes, which also contain the project and the id.
std::string indexedPart(const std::string& text);
/// The CompileSpec of a job; empty for runs of artifacts.
const v1::CompileSpec& modelOf(const v1::Job& job);
/// Name of the job's target.
std::string targetNameOf(const v1::Job& job);
/// Replaces NaN, which SQLite stores as NULL and which has no place in an order.
double nanToZero(double value);

std::vector<Value> columnsOf(const v1::Job& job);
std::vector<Value> columnsOf(const v1::Artifact& artifact);
std::vector<Value> columnsOf(const v1::TuningRecord& record);
std::vector<Value> columnsOf(const StoredTarget& stored);
std::vector<Value> columnsOf(const v1::Worker& worker);
std::vector<Value> columnsOf(const v1::Task& task);

/// A job's labels as one text, sorted by key: each "key=value" between two separators.
std::string labelsText(const v1::Job& job);
/// Substring of that text if a label has this value; without a value, if the label exists.
std::string labelPart(std::string_view key, std::string_view value);
std::string labelPart(std::string_view key);

}  // namespace tessera::storage
