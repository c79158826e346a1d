#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/support/cli11.h"
#include "server/access/gate.h"

namespace tessera::server {

/// Flags of tesserad, as given. options.h derives the options of the service's parts from them.
struct Flags {
  std::string data_dir = "tessera-data";
  std::string store;
  std::vector<std::string> listen = {"127.0.0.1:7400"};
  std::vector<std::string> worker_listen;
  std::vector<std::string> web_listen, web_hosts, metrics_listen;
  std::string tls_certificate, tls_key, tls_client_authority;
  bool need_certificate = false;
  bool need_credential = false;
  bool insecure = false;
  std::string backup_to, restore_from;
  std::string migrate_from, migrate_from_blobs;
  bool json = false;
  double keep_jobs_h = 90 * 24, keep_events_h = 30 * 24, keep_artifacts_h = 180 * 24, keep_objects_h = 180 * 24;
  double keep_records_h = 0, keep_blobs_h = 24, collect_every_h = 0;
  uint64_t keep_artifact_bytes = 0, keep_object_bytes = 0;
  int max_calls = GatePolicy().max_calls;
  int max_calls_of_one = GatePolicy().max_calls_of_one;
  uint64_t max_held_bytes = static_cast<uint64_t>(GatePolicy().max_held_bytes);
  int workers = 1;
  std::string server_name;
  std::string worker_binary;
  std::vector<std::string> worker_arguments;
  std::string sandbox_user;
  std::vector<std::string> require_sandbox;
  std::string share_cache = "no";
  bool die_with_parent = false;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string log_file;
  std::string quotas_file, audit_file;
  double lease_s = 10;
  double heartbeat_s = 0.5;
  double run_timeout_s = 600;
  double queue_timeout_s = 24 * 3600;
  double total_timeout_s = 48 * 3600;
  double no_worker_s = 600;
  double drain_timeout_s = 30;
  uint64_t max_model_bytes = uint64_t{2} << 30;
  uint64_t max_blob_bytes = uint64_t{64} << 30;
  uint64_t task_memory_bytes = 0;
  std::string blobs;       ///< place of an object store; empty: the data folder
  std::string bind_blobs;  ///< mark of the object store that is replaced
  uint64_t blob_cache_bytes = uint64_t{16} << 30;
  uint64_t blob_quota_bytes = 0;
  uint64_t disk_reserve_bytes = 0;
  uint64_t scrub_rate_bytes = 4 << 20;
  int max_connections = 4096, max_connections_of_one = 1024;
};

void addFlags(CLI::App& app, Flags& flags);

}  // namespace tessera::server
