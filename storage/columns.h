#pragma once

#include <string>
#include <vector>

#include "storage/store.h"
#include "storage/value.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/record.pb.h"
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
std::vector<Value> columnsOf(const StoredTarget& target);
std::vector<Value> columnsOf(const v1::Worker& worker);

}  // namespace tessera::storage
