#pragma once

#include <string>

#include "tessera/v1/record.pb.h"

/// What a tuning record says of itself without saying it: facts that rows are found and merged by.
namespace tessera::storage {

/// The trial led to no time that counts: wrong, refused, crashed, too slow.
bool failed(const v1::TuningRecord& record);

/// How many times as fast as the default tree, both measured in turns; 0 where they were not compared, or it failed.
double speedOf(const v1::TuningRecord& record);

/// SHA-256 of the record's content: of all but its id, its project and what is derived of the rest. Records of two
/// databases with equal content are one and the same measurement.
std::string contentHash(const v1::TuningRecord& record);

/// The record with what is derived of the rest filled in: the tree's hash.
v1::TuningRecord completed(v1::TuningRecord record);
/// The id of a merged record whose own is taken: made of its content, and of whose it is.
std::string idOfMerged(const std::string& project, const std::string& content_hash);
/// contentHash() of a record that may be changed meanwhile, without a copy of it.
std::string contentHashOf(v1::TuningRecord& record);

}  // namespace tessera::storage
