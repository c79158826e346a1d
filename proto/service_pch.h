// The precompiled header of what speaks gRPC or holds messages: server, storage, workers, clients
// (see TesseraTargets.cmake). Of ours it has the generated headers only.
#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/blob_service.pb.h"
#include "tessera/v1/execution_service.pb.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/target_service.pb.h"
#include "tessera/v1/worker_service.pb.h"
