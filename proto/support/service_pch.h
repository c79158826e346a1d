// The precompiled header of what speaks gRPC or holds messages: server, storage, workers, clients
// (see TesseraTargets.cmake). Of ours it has the generated headers only.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <openssl/evp.h>
#include <spdlog/spdlog.h>

#include "proto/support/common_pch.h"
#include "tessera/v1/admin_service.grpc.pb.h"
#include "tessera/v1/analysis.pb.h"
#include "tessera/v1/artifact.grpc.pb.h"
#include "tessera/v1/artifact_versions.grpc.pb.h"
#include "tessera/v1/blob_service.grpc.pb.h"
#include "tessera/v1/execution_service.grpc.pb.h"
#include "tessera/v1/job.grpc.pb.h"
#include "tessera/v1/operator_service.grpc.pb.h"
#include "tessera/v1/record.grpc.pb.h"
#include "tessera/v1/signing_service.grpc.pb.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/target_service.grpc.pb.h"
#include "tessera/v1/worker_service.grpc.pb.h"
